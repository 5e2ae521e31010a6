"""`tapefix verify`: runs a target, and says of each gradient whether it is there, and if not, why.

Two runs. The first only records: the user's own mode (eager or graph) decides the verdict. The second runs the
program eagerly with everything traced, and finds the causes. It is needed when a gradient is None or zero, when the
program fails, and also when nothing is wrong to the eye: a path that is cut beside one that is whole leaves no None.
It is left out where the first run saw that nothing can be partial (no value that a tape follows has left its sight)
and `check` finds nothing in the files that ran; after a timeout; and on request (`explain="never"`). `--steps` bounds
what it costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from tapefix.errors import TapefixError
from tapefix.verify.forward import compare
from tapefix.verify.interpreter import choose
from tapefix.verify.judge import Judgement, judge
from tapefix.verify.launch import TimedOut
from tapefix.verify.options import StaticFinding, VerifyOptions
from tapefix.verify.outcome import Cause, Forward, Numeric, Report, Verdict
from tapefix.verify.runner import Observation, Runner
from tapefix.verify.scratch import Project, project_root, read_project, revision
from tapefix.verify.targets import Command, Function, ModelClass, Script, Target, parse_target
from tapefix.verify.trace import Trace

#: the explaining run may take so many times as long as the recording one, and at least so many seconds
_EXPLAIN_FACTOR, _EXPLAIN_SECONDS = 10.0, 60.0
#: static findings that are named where the trace has no cause
_MOST_GUESSES, _MOST_CAUSES = 3, 4
#: causes that say no more than that the target does not depend on a source
_LOST_TRACKS = ("TAP602", "TAP606")


def verify(
    target: Target | str | Path | Sequence[str], options: VerifyOptions | None = None, runner: Runner | None = None
) -> Report:
    """Runs `target` (a path, `module:name`, or a command as a list of words) and judges its gradients.

    A `runner` is shared among calls with the same options, so that TensorFlow is imported once.
    Raises TapefixError where the call is wrong or no interpreter has TensorFlow; what the program does wrong is a
    verdict.
    """
    options = options or VerifyOptions()
    aim = as_target(target, options)
    project = project_of(aim, options)
    if runner is not None:
        return report_on(runner, project, aim, options, against=options.against)
    with make_runner(project, options) as own:
        return report_on(own, project, aim, options, against=options.against)


def verify_script(path: str | Path, options: VerifyOptions | None = None) -> Report:
    """`verify` of a Python file."""
    return verify(Path(path), options)


def make_runner(project: Project, options: VerifyOptions) -> Runner:
    """A runner with the interpreter that the options ask for. Raises TapefixError where it has no TensorFlow."""
    folder = options.cwd if options.cwd.is_relative_to(project.root) else project.root
    return Runner(choose(options.python, options.configured_python, folder, options.environ), options)


def as_target(target: Target | str | Path | Sequence[str], options: VerifyOptions) -> Target:
    """The target that a name or a list of words stands for."""
    if isinstance(target, Script | Function | ModelClass | Command):
        return target
    return parse_target(target, options.cwd, options.args, options.input_shapes is not None)


def project_of(target: Target, options: VerifyOptions) -> Project:
    """The project that is copied for a target."""
    cwd = options.cwd.resolve()
    return read_project(project_root(target.path.parent if isinstance(target, Script) else cwd, cwd))


def report_on(
    runner: Runner,
    project: Project,
    target: Target,
    options: VerifyOptions,
    overlay: Mapping[Path, bytes | None] | None = None,
    against: str = "",
) -> Report:
    """Runs the target in the project with `overlay` in place, explains, compares with `against`, and judges."""
    recorded = runner.observe(project, target, "record", overlay)
    judged = judge(recorded.trace, recorded.ended, recorded.trace.causes)
    notes: list[str] = []
    if _can_explain(judged, recorded, options):
        findings, failure = _findings(recorded, options, overlay or {})
        notes = [failure] if failure else []
        if failure or findings or not _is_whole(judged, recorded, options):
            wall = max(_EXPLAIN_SECONDS, _EXPLAIN_FACTOR * recorded.ended.seconds)
            explained = runner.observe(project, target, "explain", overlay, findings, wall)
            causes = [*recorded.trace.causes, *explained.trace.causes]
            judged = judge(recorded.trace, recorded.ended, causes, findings)
            notes = [*_disagreements(judged, explained), *notes]
            judged = _guessed(judged, findings)
    numeric = _numeric(recorded.trace)
    if judged.verdict is Verdict.OK and any(not n.agrees for n in numeric):
        judged = dataclasses.replace(judged, verdict=Verdict.PARTIAL)  # there, and wrong
    if options.numeric and isinstance(target, Script | Command):
        notes.append("no numeric check: a script cannot be computed again; name a callable or a model (module:name)")
    other: Report | None = None
    forward: Forward | None = None
    if against:
        other = _other(runner, project, target, against, options)
        forward = compare(other.gradients, judged.gradients)
        if forward is None:
            reason = f"{other.error.type}: {other.error.message}" if other.error else "no loss was recorded"
            notes.append(f"forward values could not be compared with {against}: {reason}")
    return Report(
        target=str(target),
        python=runner.interpreter.path,
        chosen=runner.interpreter.chosen,
        tensorflow=recorded.trace.tensorflow or runner.interpreter.tensorflow,
        keras=recorded.trace.keras or runner.interpreter.keras,
        isolation=_isolation(recorded, runner),
        verdict=judged.verdict,
        error=judged.error,
        gradients=judged.gradients,
        causes=judged.causes,
        forward=forward,
        numeric=numeric,
        notes=tuple(dict.fromkeys([*judged.notes, *notes])),
        output=recorded.ended.output,
        seconds=recorded.ended.seconds,
        loaded=recorded.loaded,
        against=other,
    )


def _can_explain(judged: Judgement, recorded: Observation, options: VerifyOptions) -> bool:
    return options.explain != "never" and judged.verdict is not Verdict.TIMEOUT and bool(recorded.trace.processes)


def _is_whole(judged: Judgement, recorded: Observation, options: VerifyOptions) -> bool:
    """Every gradient is there, none is zero, and in none of the processes can one be partial."""
    status = {variable.status for gradient in judged.gradients for variable in gradient.variables}
    kept = recorded.trace.whole == recorded.trace.processes
    return kept and judged.verdict is Verdict.OK and "zero" not in status and not options.numeric


def _findings(
    recorded: Observation, options: VerifyOptions, overlay: Mapping[Path, bytes | None]
) -> tuple[tuple[StaticFinding, ...], str]:
    """What `check` finds in the files that the run has opened, as they were in it, and a note where it fails.

    Without it the trace alone explains: what has run is the better witness, so no fault of a rule may cost the verdict.
    """
    try:
        files = [Path(name) for name in sorted(recorded.loaded)]
        return tuple(options.find(files, overlay) if overlay else options.find(files)), ""
    except Exception as error:
        return (), f"check failed on this program ({type(error).__name__}: {error}); the trace alone explains"


def _disagreements(judged: Judgement, explained: Observation) -> list[str]:
    """Says where the eager, traced run did not show what the recorded one did."""
    if isinstance(explained.ended.end, TimedOut):
        return [f"the explaining run was ended after {explained.ended.end.seconds:g} s; causes may be missing"]
    traced = judge(explained.trace, explained.ended, ())
    if traced.error is not None and judged.error is None:
        lost = [f"the explaining run ended by {traced.error.type} ({traced.error.message}); causes may be missing"]
    else:
        lost = []
    missing = {(g.file, g.line, v.owner, v.name) for g in traced.gradients for v in g.variables if v.status == "none"}
    places = {(g.file, g.line) for g in traced.gradients}
    odd = [
        g
        for g in judged.gradients
        if (g.file, g.line) in places
        and any(v.status == "none" and (g.file, g.line, v.owner, v.name) not in missing for v in g.variables)
    ]
    return lost + [
        f"{g.file}:{g.line}: None in the program's own run, but not in the eager run that explains" for g in odd
    ]


def _guessed(judged: Judgement, findings: Sequence[StaticFinding]) -> Judgement:
    """Where the trace has no cause for what is missing: the static findings in the files that ran, marked unsure.

    That the target does not depend on a source is no cause by itself: the way there may be one that no trace sees,
    such as a file or another thread.
    """
    lost = any(c.code in _LOST_TRACKS for c in judged.causes)
    if (judged.causes and not lost) or judged.verdict not in (Verdict.NONE, Verdict.ERROR) or not findings:
        return judged
    known = {(c.file, c.line) for c in judged.causes}
    others = [f for f in findings if (f.file, f.line) not in known]
    guesses = tuple(
        Cause(f.code, f.file, f.line, 1, f.message or "found by check; the trace does not show it", (), False, f.repair)
        for f in others[: min(_MOST_GUESSES, max(0, _MOST_CAUSES - len(judged.causes)))]
    )
    return dataclasses.replace(judged, causes=(*judged.causes, *guesses))


def _other(runner: Runner, project: Project, target: Target, against: str, options: VerifyOptions) -> Report:
    """The report on the other version: a file in the script's place, or a Git revision."""
    path = options.cwd / against
    overlay: Mapping[Path, bytes | None] | None
    if path.is_file():
        if not isinstance(target, Script):
            raise TapefixError(f"--against {against}: a file can stand in for a script only; give a Git revision")
        overlay = {target.path: path.read_bytes()}
    else:
        overlay = revision(project.root, against)
        if overlay is None:
            raise TapefixError(f"--against {against}: neither a file nor a Git revision of {project.root}")
    explain = options.explain if options.explain_against else "never"
    return report_on(runner, project, target, dataclasses.replace(options, numeric=False, explain=explain), overlay)


def _isolation(recorded: Observation, runner: Runner) -> str:
    process = "forked from a warm process" if recorded.forked else "process of its own"
    return f"scratch copy, own session, limits; {process}; network open"


def _numeric(trace: Trace) -> tuple[Numeric, ...]:
    """The numerical derivatives that the probe has compared."""
    return tuple(
        Numeric(
            str(event["file"]), int(event["line"]), float(event["tape"]), float(event["differences"]),
            bool(event["agrees"]), str(event.get("note") or ""),
        )
        for event in trace.numeric
    )  # fmt: skip
