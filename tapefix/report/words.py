"""Small things that several formats say alike."""

from __future__ import annotations

import os
from pathlib import Path

from tapefix.codemod import Applicability, Finding, Fix, Refusal


def shown(filename: str, folder: Path) -> str:
    """A file's name as a person in `folder` would write it, with forward slashes."""
    path = Path(filename)
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


def relative(filename: str, folder: Path) -> str:
    """A file's name relative to `folder`, also where that leads upwards."""
    return os.path.relpath(filename, folder).replace(os.sep, "/")


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def remedy(finding: Finding) -> str:
    """One line: how the finding is repaired, or why it is not."""
    if isinstance(finding.outcome, Refusal):
        return f"not rewritten: {finding.outcome.reason}"
    return f"{finding.outcome.message}   [{_how(finding.outcome)}]"


def _how(fix: Fix) -> str:
    safe = fix.applicability is Applicability.SAFE
    return "safe: tapefix apply" if safe else "unsafe: tapefix apply --unsafe-fixes"
