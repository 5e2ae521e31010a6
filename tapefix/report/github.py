"""Workflow commands that GitHub Actions shows as annotations."""

from __future__ import annotations

from pathlib import Path

from tapefix.codemod import Finding
from tapefix.report.words import relative, remedy
from tapefix.runner import Run


def render(run: Run, folder: Path) -> str:
    return "".join(_annotation(finding, folder) for finding in run.findings)


def _annotation(finding: Finding, folder: Path) -> str:
    place = finding.place
    end = f",endLine={place.end_row}" + (f",endColumn={place.end_column}" if place.end_row == place.row else "")
    where = f"file={_property(relative(place.filename, folder))},line={place.row},col={place.column}{end}"
    message = _data(f"{finding.message}\nwhy: {finding.why}\nfix: {remedy(finding)}")
    return f"::error title={_property(f'tapefix {finding.code}')},{where}::{message}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
