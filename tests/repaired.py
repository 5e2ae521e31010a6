"""Repairs a text with the real rules, and runs programs before and after."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

from tapefix.config import Config, GatesConfig
from tapefix.engine import Checked, check_document, fix_documents
from tapefix.runner import load_tools
from toy import workspace

NAME = "/p/train.py"


@dataclass(frozen=True)
class Repaired:
    text: str
    applied: tuple[tuple[str, str, tuple[str, ...]], ...]  # (code, message, alternatives)
    left: tuple[tuple[str, str], ...]  # (code, why it stays)


def repair(text: str, threshold: str = "straight-through") -> Repaired:
    """All repairs of choices and operations without a gradient, also those that need judgement."""
    tools = load_tools(Config(select=("TAP3", "TAP4"), gates=GatesConfig(threshold)))
    fixed = fix_documents(workspace(train=text), [NAME], tools, lambda proposal: True)
    result = fixed.results[NAME]
    assert isinstance(result, Checked), result
    assert not result.crashes
    return Repaired(
        fixed.workspace.open(NAME).text,
        tuple((p.finding.code, p.fix.message, p.fix.alternatives) for p in fixed.applied),
        tuple((f.code, getattr(f.outcome, "reason", "")) for f in result.findings),
    )


def codes(text: str) -> list[str]:
    """The codes that are found in a file's text."""
    result = check_document(workspace(train=text), NAME, load_tools(Config()))
    assert isinstance(result, Checked), result
    assert not result.crashes
    return [finding.code for finding in result.findings]


def execute(text: str, name: str) -> dict[str, Any]:
    """The names that a program defines. AutoGraph finds its source."""
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    space: dict[str, Any] = {"__name__": name.replace(" ", "_")}
    exec(compile(text, filename, "exec"), space)
    return space
