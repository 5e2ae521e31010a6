"""One line a finding, for editors and grep."""

from __future__ import annotations

from pathlib import Path

from tapefix.report.text import closing, header
from tapefix.runner import Run


def render(run: Run, folder: Path) -> str:
    mark = {True: " [fixable]", False: ""}
    lines = [header(finding, folder) + mark[finding.fix is not None] for finding in run.findings]
    return "\n".join([*lines, closing(run)]) + "\n"
