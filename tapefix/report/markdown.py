"""A table for a pull request or an issue."""

from __future__ import annotations

from pathlib import Path

from tapefix.codemod import Finding
from tapefix.report.text import closing
from tapefix.report.words import remedy, shown
from tapefix.runner import Run


def render(run: Run, folder: Path) -> str:
    rows = [_row(finding, folder) for finding in run.findings]
    table = ["| place | rule | what is cut | why | fix |", "| --- | --- | --- | --- | --- |", *rows, ""] if rows else []
    return "\n".join([*table, closing(run)]) + "\n"


def _row(finding: Finding, folder: Path) -> str:
    place = f"`{shown(finding.place.filename, folder)}:{finding.place.row}`"
    cells = [place, finding.code, finding.message, finding.why, remedy(finding)]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
