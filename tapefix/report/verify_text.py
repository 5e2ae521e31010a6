"""A verification report for people: one line a model when all is well, and for each cut its line and its repair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tapefix.report.verify_words import SAID, STATUS, count, full_name, relative_name, remedy, repair, source_line
from tapefix.verify.outcome import Cause, Evidence, Gradient, NotProven, NotRun, Report, Variable

_NAMED = 6  # variables named in one line; the rest are counted


def render(report: Report, folder: Path) -> str:
    """The whole report; file names as a person in `folder` would write them."""
    return "".join(f"{line}\n" for line in _lines(report, folder))


def _lines(report: Report, folder: Path) -> Iterator[str]:
    yield f"{relative_name(report.target, folder)}: {SAID[report.verdict]}"
    for gradient in report.gradients:
        yield from _gradient(gradient, folder)
    if report.error is not None:
        yield from _problem(report, folder)
    for cause in report.causes:
        yield ""
        yield from _cause(cause, report, folder)
    if report.causes:
        yield ""
    if report.forward is not None:
        f = report.forward
        said = "unchanged" if f.equal else f"changed by up to {f.max_abs_diff:.3g}"
        yield f"  forward values {said} ({count(f.compared, 'loss', 'losses')} compared, tolerance {f.tolerance:g})"
        for file, line, old, new in f.places:
            yield f"    {relative_name(file, folder)}:{line}: {old:.9g} is now {new:.9g}"
    for n in report.numeric:
        said = "agrees" if n.agrees else "DOES NOT AGREE"
        note = f" ({n.note})" if n.note else ""
        yield (f"  numeric check {said}: {relative_name(n.file, folder)}:{n.line}: by the tape {n.tape:.6g}, "
               f"by differences {n.differences:.6g}{note}")  # fmt: skip
    for note in report.notes:
        yield f"  note: {relative_name(note, folder)}"
    if remedy(report):
        yield f"  = do: {remedy(report)}"
    yield f"  {report.python} (from {report.chosen}), TensorFlow {report.tensorflow}, Keras {report.keras or '?'}"


def _gradient(gradient: Gradient, folder: Path) -> Iterator[str]:
    """A line for each owner: how many of its gradients are there, and what is wrong."""
    place = f"{relative_name(gradient.file, folder)}:{gradient.line}"
    loss = "" if gradient.loss is None else f"   loss {gradient.loss:.6g}"
    seen = f"   ({place}, {count(gradient.times, 'call', 'calls')})"
    owners: dict[str, list[Variable]] = {}
    for variable in gradient.variables:
        owners.setdefault(variable.owner or variable.name, []).append(variable)
    if not owners:
        yield f"  the list of sources is empty{loss}{seen}"
    width = max((len(owner) for owner in owners), default=0)
    for index, (owner, variables) in enumerate(owners.items()):
        there = sum(v.there for v in variables)
        last = loss + seen if index == 0 else ""
        yield f"  {owner:<{width}} {there}/{len(variables)}{_bad(variables, owner)}{last}"


def _bad(variables: list[Variable], owner: str) -> str:
    """` None: kernel, bias` for what is wrong with an owner's gradients."""
    groups: dict[str, list[str]] = {}
    for v in variables:
        if v.status != "ok":
            groups.setdefault(STATUS[v.status] + (" in some calls" if "calls" in v.note else ""), []).append(v.name)
    parts = []
    for word, names in groups.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        parts.append(word if names == [owner] else f"{word}: {', '.join(names[:_NAMED])}{more}")
    return "".join(f"   {part}" for part in parts)


def _problem(report: Report, folder: Path) -> Iterator[str]:
    error = report.error
    assert error is not None
    where = f"{relative_name(error.file, folder)}:{error.line}: " if error.file and error.line else ""
    first = next(iter(error.message.strip().splitlines()), "")
    later = "then it raises " if report.gradients and error.file else ""
    yield f"  {where}{later}{error.type}: {first[:300]}"


def _cause(cause: Cause, report: Report, folder: Path) -> Iterator[str]:
    unsure = "" if cause.sure else "probably: "
    code = f"{cause.code} " if cause.code else ""
    yield f"{relative_name(cause.file, folder)}:{cause.line}:{cause.column} {code}{unsure}{cause.message}"
    source = source_line(cause.file, cause.line)
    gutter = " " * (len(str(cause.line)) + 1)
    if source:
        yield f"{gutter}|"
        yield f"{cause.line} | {source}"
        yield f"{gutter}|"
    for file, line, message in cause.related:
        yield f"{gutter}= and: {relative_name(file, folder)}:{line}: {message}"
    lost = list(dict.fromkeys(full_name(v) for v in report.variables() if v.cause == cause))
    if lost:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        yield f"{gutter}= cuts: {', '.join(lost[:_NAMED])}{more}"
    yield f"{gutter}= fix: {repair(cause, folder)}"


def before_and_after(before: Report, after: Report) -> list[str]:
    """Two lines: how many gradients each owner has, and the first loss, before and after."""
    owners = list(dict.fromkeys([*before.owners(), *after.owners()]))

    def cells(report: Report) -> list[str]:
        counts, partial = report.owners(), report.partial()
        lacking = {owner: f" ({number} partial)" for owner, number in partial.items()}
        return [
            f"{owner} {counts[owner][0]}/{counts[owner][1]}{lacking.get(owner, '')}" if owner in counts else ""
            for owner in owners
        ]

    left, right = cells(before), cells(after)
    widths = [max(len(a), len(b)) for a, b in zip(left, right, strict=True)]
    rows = []
    for word, report, row in (("before", before, left), ("after ", after, right)):
        shown = "".join(f"   {cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        rows.append(f"  {word}{shown}{_loss(report, before, after)}")
    return rows


def _loss(report: Report, before: Report, after: Report) -> str:
    if not report.gradients:
        error = report.error
        return f"   does not run: {error.type}" if error else f"   {SAID[report.verdict]}"
    if report.loss is None:
        return ""
    said = ""
    if report is after and before.loss is not None:
        from tapefix.verify.forward import same, tolerance

        equal = same(before.loss, report.loss, *tolerance([*before.gradients, *after.gradients]))
        said = " (unchanged)" if equal else " (changed)"
    return f"   loss {report.loss:.5g}{said}"


def render_evidence(evidence: Evidence) -> list[str]:
    """What `apply --verify` says below a file's name, without line ends."""
    if isinstance(evidence, NotRun):
        return [f"  not verified: {evidence.reason}"]
    lines: list[str] = []
    if evidence.before is not None and evidence.after is not None:
        lines = before_and_after(evidence.before, evidence.after)
    if isinstance(evidence, NotProven):
        return [*lines, f"  not proven: {evidence.reason}"]
    return [*lines, *([f"  note: {evidence.note}"] if evidence.note else [])]
