"""From what the runs showed to a verdict."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tapefix.verify.launch import Ended, Exited, Flooded, Lost, OutOfMemory, Signalled, TimedOut
from tapefix.verify.options import StaticFinding
from tapefix.verify.outcome import Cause, Gradient, Problem, Variable, Verdict
from tapefix.verify.trace import SeenCall, SeenCause, SeenVariable, Trace

#: the worst that happened to a source in any of its calls counts, except for zeros: those only where it is all there is
_RANK = {"none": 3, "nonfinite": 2, "ok": 1, "zero": 0}
#: what AutoGraph makes casts of, in a graph: only in the eager run that explains does the value leave
_CASTS = ("python-number",)
_ALL_KINDS = ("gradient", "jacobian", "minimize", "apply_gradients")


@dataclass(frozen=True)
class Judgement:
    """A verdict and what it rests on."""

    verdict: Verdict
    error: Problem | None
    gradients: tuple[Gradient, ...]
    causes: tuple[Cause, ...]
    notes: tuple[str, ...]


def judge(
    record: Trace, ended: Ended, causes: Sequence[SeenCause], findings: Sequence[StaticFinding] = ()
) -> Judgement:
    """The verdict on a run that was recorded, with the causes that an explaining run (or the recorded one) gave.

    `findings` tell which of the causes a codemod repairs.
    """
    ranked = {key: _repairable(cause, findings) for key, cause in _distinct(causes).items()}
    gradients = tuple(_with_causes(g, causes, ranked) for g in _places(record.calls))
    error = problem(record, ended)
    notes = list(record.notes)
    verdict = Verdict.TIMEOUT if isinstance(ended.end, TimedOut) else _verdict(gradients, error)
    if verdict is Verdict.NO_GRADIENT_CALL:
        notes += _no_call(record)
    return Judgement(verdict, error, gradients, _that_count(causes, ranked, gradients), tuple(notes))


def _that_count(
    causes: Sequence[SeenCause], ranked: dict[tuple[str, int, str], Cause], gradients: Sequence[Gradient]
) -> tuple[Cause, ...]:
    """The causes of what is missing, and of what is partial those that some source has."""
    missing = {(c.file, c.line, c.code) for c in causes if not c.partial}
    had = [v.cause for g in gradients for v in g.variables]
    return tuple(cause for key, cause in ranked.items() if key in missing or cause in had)


def _verdict(gradients: Sequence[Gradient], error: Problem | None) -> Verdict:
    variables = [v for g in gradients for v in g.variables]
    status = {v.status for v in variables}
    empty = any(not g.variables and g.kind in _ALL_KINDS for g in gradients)
    if "none" in status or empty:
        return Verdict.NONE
    if "partial" in status:
        return Verdict.PARTIAL
    if "nonfinite" in status:
        return Verdict.NONFINITE
    if any(v.status == "zero" and v.cause for v in variables):
        return Verdict.ZERO
    if error is not None:
        return Verdict.ERROR
    return Verdict.OK if gradients else Verdict.NO_GRADIENT_CALL


def _no_call(record: Trace) -> list[str]:
    """Why there may have been no gradient call."""
    if not record.processes:
        return ["no Python process of this run could be observed"]
    if record.finished == "exit":
        return ["the program left by sys.exit or os._exit before any gradient call"]
    if not record.tensorflow:
        return ["the program never imported TensorFlow"]
    return []


def problem(record: Trace, ended: Ended) -> Problem | None:
    """What ended the program other than its own end; None for that, and for an end by the probe."""
    if record.error is not None:
        return Problem(record.error.type, record.error.message, record.error.file, record.error.line)
    end = ended.end
    if isinstance(end, Exited):
        if end.code == 0 or record.finished == "steps":
            return None
        last = next((line for line in reversed(ended.output.splitlines()) if line.strip()), "it wrote nothing")
        return Problem("SystemExit", f"the process ended with exit status {end.code}: {last.strip()}", None, None)
    if isinstance(end, Signalled):
        if end.number == getattr(signal, "SIGXCPU", -1):
            return Problem("CPU limit", "the process used up its CPU time", None, None)
        try:
            name = signal.Signals(end.number).name
        except ValueError:
            name = f"signal {end.number}"
        return Problem(name, "the process died in compiled code, or was killed", None, None)
    if isinstance(end, OutOfMemory):
        return Problem("memory limit", f"the processes held more than {_size(end.limit)} of memory", None, None)
    if isinstance(end, Flooded):
        return Problem("output limit", f"the program wrote more than {_size(end.limit)} of output", None, None)
    if isinstance(end, Lost):
        return Problem("lost", "the process that watches over the run died with it", None, None)
    return Problem("timeout", f"still running after {end.seconds:g} s", None, None)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.3g} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.3g} MiB"


def _places(calls: Iterable[SeenCall]) -> list[Gradient]:
    """One gradient a place, in the order of first appearance, its sources over all its calls."""
    groups: dict[tuple[str, int], list[SeenCall]] = {}
    for call in calls:
        groups.setdefault(call.place, []).append(call)
    return [
        Gradient(
            file,
            line,
            group[0].kind,
            len(group),
            next((call.loss for call in group if call.loss is not None), None),
            tuple(_merged(group)),
            tuple(call.loss for call in group),
            any(call.graph for call in group),
        )
        for (file, line), group in groups.items()
    ]


def _merged(group: Sequence[SeenCall]) -> Iterable[Variable]:
    """The sources of all calls at a place; equal names (two layers named alike) are told apart by their order."""
    seen: dict[tuple[str, str, int], list[SeenVariable]] = {}
    for call in group:
        count: dict[tuple[str, str], int] = {}
        for variable in call.variables:
            key = variable.owner, variable.name
            count[key] = count.get(key, -1) + 1
            seen.setdefault((*key, count[key]), []).append(variable)
    for (owner, name, _), all_calls in seen.items():
        worst = max(all_calls, key=lambda v: _RANK.get(v.status, 1))
        norm = next((v.norm for v in all_calls if v.norm is not None), None)
        note = "the gradient is all zero" if worst.status == "zero" else ""
        if worst.status == "none" and any(v.status != "none" for v in all_calls):
            note = f"None in {sum(v.status == 'none' for v in all_calls)} of {len(all_calls)} calls"
        yield Variable(name, owner, worst.shape, worst.dtype, worst.status, norm, None, note)


def _distinct(causes: Iterable[SeenCause]) -> dict[tuple[str, int, str], Cause]:
    """Each cause once, the likeliest first: those that the trace is sure of, then those of most variables."""
    weight: dict[tuple[str, int, str], tuple[bool, int, int]] = {}
    found: dict[tuple[str, int, str], Cause] = {}
    for order, cause in enumerate(causes):
        key = cause.file, cause.line, cause.code
        sure, count, first = weight.get(key, (False, 0, order))
        weight[key] = sure or cause.sure, count + len(cause.variables), first
        if key not in found:
            found[key] = Cause(
                cause.code, cause.file, cause.line, cause.column, cause.message, cause.related, cause.sure
            )
    order_of = sorted(found, key=lambda key: (not weight[key][0], weight[key][2]))
    return {key: found[key] for key in order_of}


def _repairable(cause: Cause, findings: Sequence[StaticFinding]) -> Cause:
    """The cause, with the manner of its repair and the code of the finding at its place."""
    here = [f for f in findings if f.file == cause.file and f.line - 1 <= cause.line <= f.end_line + 1]
    same = [f for f in here if f.code == cause.code] or ([] if cause.code else here)
    return dataclasses.replace(cause, code=same[0].code, repair=same[0].repair) if same else cause


def _with_causes(
    gradient: Gradient, causes: Sequence[SeenCause], ranked: dict[tuple[str, int, str], Cause]
) -> Gradient:
    """The gradient with each of its bad sources explained, and those that are cut on one of their ways partial."""
    here = [c for c in causes if c.gradient is None or c.gradient == (gradient.file, gradient.line)]

    def cause_of(variable: Variable, partial: bool) -> Cause | None:
        for c in here:
            if c.partial == partial and _names(c, variable) and not (partial and gradient.graph and c.how in _CASTS):
                return ranked[c.file, c.line, c.code]
        return None

    variables = []
    for v in gradient.variables:
        status, cause = v.status, None
        if status in ("none", "zero", "nonfinite"):
            cause = cause_of(v, partial=False)
        if cause is None and status in ("ok", "zero"):
            cause = cause_of(v, partial=True)
            status = "partial" if cause else status
        variables.append(
            Variable(v.name, v.owner, v.shape, v.dtype, status, v.norm, cause, v.note if status != "partial" else "")
        )
    return Gradient(
        gradient.file, gradient.line, gradient.kind, gradient.times, gradient.loss, tuple(variables), gradient.losses,
        gradient.graph,
    )  # fmt: skip


def _names(cause: SeenCause, variable: Variable) -> bool:
    """Whether the cause speaks of the variable; one that names none speaks of all."""
    full = f"{variable.owner}/{variable.name}" if variable.owner else variable.name
    return not cause.variables or variable.name in cause.variables or full in cause.variables
