"""For people at a terminal: each finding with its line, the reason and the repair."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

from tapefix.codemod import Finding
from tapefix.documents.document import Document, Place
from tapefix.report.words import count, remedy, shown
from tapefix.runner import Run

ROWS = 4  # of a long statement, the rest is left out


def render(run: Run, folder: Path) -> str:
    blocks = ["\n".join(_block(run, finding, folder)) for finding in run.findings]
    return "\n\n".join([*blocks, closing(run)]) + "\n" if blocks else closing(run) + "\n"


def header(finding: Finding, folder: Path) -> str:
    place = finding.place
    return f"{shown(place.filename, folder)}:{place.row}:{place.column} {finding.code} {finding.message}"


def _block(run: Run, finding: Finding, folder: Path) -> Iterator[str]:
    yield header(finding, folder)
    document = run.workspace(finding.place.filename)
    width = len(str(min(finding.place.end_row, finding.place.row + ROWS - 1)))
    gutter = " " * (width + 1)
    if document is not None:
        yield gutter + "|"
        yield from _frame(document, finding.place, width)
    yield f"{gutter}= why: {finding.why}"
    for other in finding.related:
        yield f"{gutter}= and: {shown(other.place.filename, folder)}:{other.place.row}: {other.message}"
    yield f"{gutter}= fix: {remedy(finding)}"
    for choice in finding.fix.alternatives if finding.fix else ():
        yield f"{gutter}= or:  {choice}"


def _frame(document: Document, place: Place, width: int) -> Iterator[str]:
    last = min(place.end_row, place.row + ROWS - 1)
    for row in range(place.row, last + 1):
        line = document.line(row)
        start = place.column - 1 if row == place.row else len(line) - len(line.lstrip())
        end = place.end_column - 1 if row == place.end_row else len(line.rstrip())
        yield f"{row:>{width}} | {line}".rstrip()
        yield f"{'':>{width}} | {_blank(line[:start])}{'^' * max(1, _columns(line[start:end]))}"
    if last < place.end_row:
        yield f"{'':>{width}} | ..."


def _blank(text: str) -> str:
    """White space as wide as the text: tabs stay tabs."""
    return "".join("\t" if char == "\t" else " " * _columns(char) for char in text)


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def closing(run: Run) -> str:
    """The last line: how much was found, and what was not looked at."""
    left_out = _left_out(run)
    files = len({finding.place.filename for finding in run.findings})
    if not run.findings:
        return f"No problems found in {count(run.checked, 'file')}{left_out}."
    fixable = [finding.fix for finding in run.findings if finding.fix]
    unsafe = sum(fix.applicability.value == "unsafe" for fix in fixable)
    told = f"{len(fixable)} fixable" + (f" ({unsafe} with --unsafe-fixes)" if unsafe else "")
    return f"Found {count(len(run.findings), 'problem')} in {count(files, 'file')}; {told}{left_out}."


def _left_out(run: Run) -> str:
    parts = []
    if run.skipped:
        parts.append(f"{count(len(run.skipped), 'file')} skipped")
    if run.failed:
        parts.append(f"{count(len(run.failed), 'file')} not readable")
    if run.crashes:
        parts.append(f"tapefix itself failed {count(len(run.crashes), 'time')}")
    return f"; {', '.join(parts)}" if parts else ""


def statistics(run: Run) -> str:
    """How often each rule spoke, the most frequent first."""
    counts: dict[tuple[str, str], int] = {}
    for finding in run.findings:
        key = finding.code, finding.name
        counts[key] = counts.get(key, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    width = max((len(str(number)) for _, number in ranked), default=1)
    return "".join(f"{number:>{width}}  {code}  {name}\n" for (code, name), number in ranked)
