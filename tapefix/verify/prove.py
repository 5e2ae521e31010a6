"""`tapefix apply --verify`: runs the program before and after a repair, and says what that has shown.

A repair is proven when
- every gradient that was None or partial for a reason at a line that the repair changes is whole afterwards,
- no gradient that was there is lost, and none has become zero or not finite,
- the first losses are equal within the tolerance (`forward_may_change` waives that for fixes which say so),
- the program raises nothing that it did not raise before.
Where the original does not run as far as a gradient call (a graph that does not trace), the repaired program must
run to its end with every gradient there; that its values could not be compared is then said in the note.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tapefix.errors import TapefixError
from tapefix.verify.forward import compare
from tapefix.verify.options import VerifyOptions
from tapefix.verify.outcome import (
    Evidence,
    Gradient,
    NotProven,
    NotRun,
    Problem,
    Proof,
    Proven,
    Report,
    Variable,
    Verdict,
)
from tapefix.verify.runner import Runner
from tapefix.verify.scratch import Project, project_root, read_project
from tapefix.verify.targets import Script, Target
from tapefix.verify.verify import as_target, make_runner, report_on

_RANK = {"none": 0, "nonfinite": 1, "zero": 2, "partial": 3, "ok": 4}
#: lines around a changed one that still belong to it: a cause may point at the statement's other line
_NEAR = 1


def prove(
    before: Mapping[Path, bytes],
    after: Mapping[Path, bytes],
    targets: Sequence[Target | str | Sequence[str]] = (),
    options: VerifyOptions | None = None,
    runner: Runner | None = None,
) -> Proof:
    """What running shows about a change of files (absolute path -> content; a path only in one was made or removed).

    Without `targets` each changed file is run as a script. Both versions are run in scratch copies; nothing of the
    user's is written. A caller that leaves fixes out and tries again passes its own `runner`.
    """
    options = options or VerifyOptions()
    changed = sorted({*before, *after}, key=str)
    changed = [path for path in changed if before.get(path) != after.get(path)]
    if not changed:
        return Proof({}, {})
    aims = [as_target(target, options) for target in targets] or [Script(path) for path in changed if path in after]
    project = _project(changed, options)
    old = {path: before.get(path) for path in changed}
    new = {path: after.get(path) for path in changed}
    if runner is not None:
        shown = {str(aim): _shown(runner, project, aim, old, new, options) for aim in aims}
    else:
        with make_runner(project, options) as own:
            shown = {str(aim): _shown(own, project, aim, old, new, options) for aim in aims}
    alone = not targets
    return Proof({str(path): _of_file(path, shown, alone) for path in changed}, shown)


def _project(changed: Sequence[Path], options: VerifyOptions) -> Project:
    roots = {project_root(path.parent, options.cwd.resolve()) for path in changed}
    if len(roots) > 1:
        raise TapefixError(
            f"the changed files lie in several projects ({', '.join(sorted(map(str, roots)))}); verify one at a time"
        )
    return read_project(roots.pop())


def _shown(
    runner: Runner,
    project: Project,
    target: Target,
    old: Mapping[Path, bytes | None],
    new: Mapping[Path, bytes | None],
    options: VerifyOptions,
) -> Evidence:
    """Runs one target in both versions."""
    differing = {path: data for path, data in old.items() if _on_disk(path) != data}
    known = str(target), _stamp(project)
    before = runner.known.get(known) if not differing else None
    if before is None:
        before = report_on(runner, project, target, options, differing)
    if not differing:
        runner.known[known] = before
    after = report_on(runner, project, target, options, new)
    return weigh(before, after, changed_lines(old, new), options.forward_may_change)


def _stamp(project: Project) -> int:
    """A number that differs when a Python file of the project was written."""
    paths = [project.root / name for name in project.files if name.endswith(".py")]
    stats = [path.lstat() for path in paths if path.exists()]
    return hash(tuple((stat.st_mtime_ns, stat.st_size) for stat in stats))


def _on_disk(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _of_file(path: Path, shown: Mapping[str, Evidence], alone: bool) -> Evidence:
    """The evidence on one file: its own run's, or the worst among the targets that have loaded it."""
    if alone:
        return shown.get(str(path), NotRun("it is removed; there is nothing to run"))
    name = str(path)
    ran = [e for e in shown.values() if not isinstance(e, NotRun)]
    loading = [e for e in ran if e.after is not None and name in e.after.loaded]
    for evidence in loading:
        if isinstance(evidence, NotProven):
            return evidence
    if loading:
        return loading[0]
    blocked = [e for e in shown.values() if isinstance(e, NotRun)]
    return blocked[0] if blocked else NotRun("no target loads this file; name one that does (targets, or -- COMMAND)")


def weigh(
    before: Report, after: Report, changed: Mapping[str, Iterable[range]], forward_may_change: bool = False
) -> Evidence:
    """Judges two reports of one target; `changed` are the line ranges of the original that the repair replaces."""
    if after.verdict is Verdict.TIMEOUT:
        return NotRun(f"the run was still going on after {after.seconds:.0f} s; raise --timeout or lower --steps")
    if after.verdict is Verdict.NO_GRADIENT_CALL and before.verdict in (Verdict.NO_GRADIENT_CALL, Verdict.TIMEOUT):
        return NotRun("running it asks for no gradient; name a target that trains (targets, or -- COMMAND)")
    if _same_problem(before.error, after.error) and not before.gradients and not after.gradients:
        assert after.error is not None
        return NotRun(f"it fails before any gradient call, repaired or not: {_in_words(after.error)}")
    if after.error is not None and not _same_problem(before.error, after.error):
        if not before.gradients or before.error is None or _gone(before, after):
            return NotProven(f"the repaired program raises {_in_words(after.error)}", before, after)
    if not after.gradients:
        return NotProven("the repaired program asks for no gradient any more", before, after)
    if not before.gradients:
        return _without_original(before, after)
    reason = _gradients_wrong(before, after, changed)
    if reason:
        return NotProven(reason, before, after)
    return _values(before, after, forward_may_change)


def _gone(before: Report, after: Report) -> bool:
    """Whether the repaired program stops earlier than the original: it may fail later for another reason."""
    return len(after.gradients) <= len(before.gradients)


def _without_original(before: Report, after: Report) -> Evidence:
    why = _in_words(before.error) if before.error else f"verdict {before.verdict.value}"
    if after.verdict is not Verdict.OK:
        return NotProven(f"the original does not run ({why}), and the repaired program is not whole: "
                         f"{_first_wrong(after)}", before, after)  # fmt: skip
    return Proven(before, after, f"the original does not run ({why}): values could not be compared")


def _values(before: Report, after: Report, forward_may_change: bool) -> Evidence:
    forward = compare(before.gradients, after.gradients)
    if forward is None:
        return Proven(before, after, "no loss was recorded in both versions: values could not be compared")
    if forward.equal:
        return Proven(before, after)
    file, line, old, new = forward.places[0]
    said = f"the loss at {file}:{line} was {old:.9g} and is {new:.9g}"
    if forward_may_change:
        return Proven(before, after, f"{said}, as this fix says it may")
    return NotProven(f"{said} (tolerance {forward.tolerance:g})", before, after)


def _gradients_wrong(before: Report, after: Report, changed: Mapping[str, Iterable[range]]) -> str:
    """What is wrong with the gradients after the repair; "" if nothing is."""
    if len(after.gradients) < len(before.gradients) and after.error is not None:
        return f"the repaired program ends before its gradient calls: {_in_words(after.error)}"
    better = 0
    still: list[tuple[Gradient, Variable]] = []
    for old, new in _paired(before.gradients, after.gradients):
        for was, now in _sources(old, new):
            rank = _RANK[now.status]
            if was is None:
                if now.status in ("none", "nonfinite"):
                    return f"{new.file}:{new.line}: the gradient of {_name(now)} is {_word(now.status)}"
                continue
            if rank < _RANK[was.status] and not (was.status == "ok" and now.status == "zero" and now.cause is None):
                return (
                    f"{new.file}:{new.line}: the gradient of {_name(now)} was {_word(was.status)} "
                    f"and is {_word(now.status)}"
                )
            better += rank > _RANK[was.status]
            if now.status in ("none", "partial") and now.status == was.status:
                if was.cause is not None and _within(was.cause.file, was.cause.line, changed):
                    return _still(new, now)
                still.append((new, now))
    return _still(*still[0]) if still and not better else ""


def _still(gradient: Gradient, variable: Variable) -> str:
    name, word = _name(variable), _word(variable.status)
    return f"{gradient.file}:{gradient.line}: the gradient of {name} is still {word}{_why(variable)}"


def _paired(before: Sequence[Gradient], after: Sequence[Gradient]) -> Iterable[tuple[Gradient, Gradient]]:
    """Places of both versions by their order in the run: the repair moves lines."""
    return zip(before, after, strict=False)


def _sources(old: Gradient, new: Gradient) -> Iterable[tuple[Variable | None, Variable]]:
    """The sources after, each with what it was before: by position, where both lists are alike, else by name."""
    if len(old.variables) == len(new.variables):
        yield from zip(old.variables, new.variables, strict=True)
        return
    known: dict[tuple[str, str], list[Variable]] = {}
    for variable in old.variables:
        known.setdefault((variable.owner, _plain(variable.name)), []).append(variable)
    for variable in new.variables:
        found = known.get((variable.owner, _plain(variable.name)))
        yield (found.pop(0) if found else None), variable


def _plain(name: str) -> str:
    """A variable's name without the numbers that Keras gives out in order of creation."""
    return re.sub(r"_\d+", "", name)


def changed_lines(old: Mapping[Path, bytes | None], new: Mapping[Path, bytes | None]) -> dict[str, list[range]]:
    """File -> the line ranges (from 1) of the original that differ."""
    found: dict[str, list[range]] = {}
    for path in old:
        a = (old[path] or b"").splitlines()
        b = (new.get(path) or b"").splitlines()
        codes = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        found[str(path)] = [range(i1 + 1, max(i2, i1 + 1) + 1) for tag, i1, i2, _, _ in codes if tag != "equal"]
    return found


def _within(file: str, line: int, changed: Mapping[str, Iterable[range]]) -> bool:
    return any(r.start - _NEAR <= line < r.stop + _NEAR for r in changed.get(file, ()))


def _same_problem(a: Problem | None, b: Problem | None) -> bool:
    """The same error, apart from lines and numbers that a repair moves."""
    if a is None or b is None:
        return a is b
    first = [re.sub(r"\d+|\S*/\S*", "", p.message.splitlines()[0] if p.message else "")[:80] for p in (a, b)]
    return a.type == b.type and first[0] == first[1]


def _first_wrong(report: Report) -> str:
    for gradient in report.gradients:
        for variable in gradient.variables:
            if not variable.whole:
                return f"the gradient of {_name(variable)} is {_word(variable.status)}{_why(variable)}"
    return _in_words(report.error) if report.error else report.verdict.value


def _in_words(problem: Problem) -> str:
    where = f" at {problem.file}:{problem.line}" if problem.file and problem.line else ""
    first = problem.message.strip().splitlines()[0] if problem.message.strip() else ""
    return f"{problem.type}{where}: {first[:200]}"


def _name(variable: Variable) -> str:
    return f"{variable.owner} ({variable.name})" if variable.owner else variable.name


def _word(status: str) -> str:
    return {"none": "None", "nonfinite": "not finite", "ok": "there"}.get(status, status)


def _why(variable: Variable) -> str:
    cause = variable.cause
    return f": cut at {cause.file}:{cause.line} ({cause.code or 'no rule'})" if cause else ""
