"""What `apply` says: the repairs done, what is left, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tapefix.codemod import Applicability
from tapefix.engine import Fixed
from tapefix.report.text import closing, header
from tapefix.report.words import count, remedy, shown
from tapefix.runner import Run


def render_applied(fixed: Fixed, run: Run, folder: Path, verb: str = "fixed", notes: tuple[str, ...] = ()) -> str:
    """`verb` says what happened to the repairs: fixed, would be fixed, ..."""
    return "".join(f"{line}\n" for line in _lines(fixed, run, folder, verb, notes))


def _lines(fixed: Fixed, run: Run, folder: Path, verb: str, notes: tuple[str, ...]) -> Iterator[str]:
    for filename, codes in _by_file(fixed).items():
        yield f"{shown(filename, folder)}  {', '.join(codes)} {verb}"
    yield from notes
    for finding in run.findings:
        yield header(finding, folder)
        yield f"  = {'fix: ' if finding.fix else ''}{remedy(finding)}"
    yield _closing(fixed, run, verb)


def _by_file(fixed: Fixed) -> dict[str, list[str]]:
    """The codes repaired in each file, in order, each with how often."""
    counts: dict[str, dict[str, int]] = {}
    for proposal in fixed.applied:
        codes = counts.setdefault(proposal.finding.place.filename, {})
        codes[proposal.finding.code] = codes.get(proposal.finding.code, 0) + 1
    return {
        filename: [code if number == 1 else f"{code} (x{number})" for code, number in sorted(codes.items())]
        for filename, codes in sorted(counts.items())
    }


def _closing(fixed: Fixed, run: Run, verb: str) -> str:
    done = count(len(fixed.applied), "problem")
    if not fixed.applied and not run.findings:
        return closing(run)
    unsafe = sum(f.fix is not None and f.fix.applicability is Applicability.UNSAFE for f in run.findings)
    left = f"; {len(run.findings)} left" if run.findings else ""
    more = f" ({unsafe} with --unsafe-fixes)" if unsafe else ""
    return f"{done} {verb}{left}{more}."
