"""Explains gradient calls while the program runs: asks the trace, and emits causes, the likeliest first."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Set, Tuple

from . import codes, hooks, instrument
from . import graph as g
from .events import Events
from .explain import explain
from .frames import UserCode
from .gradients import Call, Recorder
from .library import Hooks
from .record import Trace
from .values import Values

Place = Tuple[str, int]
_MANY = 4  # causes named in one run; more would not help a person


class Tracer:
    """The full tracing of one run."""

    def __init__(self, events: Events, code: UserCode, findings: Sequence[Mapping[str, Any]]) -> None:
        self.events, self.code = events, code
        self.findings = list(findings)
        self.trace = Trace(code)
        self.values: Optional[Values] = None
        self.told: Dict[Tuple[str, int, bool], str] = {}
        self.untold: Set[Place] = set()

    def instrument(self) -> None:
        """From now on the user's modules are instrumented."""
        instrument.install(self.code, self._not_instrumented)

    def _not_instrumented(self, message: str) -> None:
        self.trace.time_order = True
        self.events.emit("note", message=message)

    def install(self, tf: Any, recorder: Recorder) -> Hooks:
        """Hooks TensorFlow, which has just been imported."""
        import numpy as np

        self.tf = tf
        works = hooks.install(tf, self.trace)
        self.values = Values(self.trace, hooks.eager_class(tf), np.ndarray)
        instrument.use(self.values)
        recorder.listeners.append(self.explain)
        return works

    # ------------------------------------------------------------------ one gradient call
    def explain(self, tape: Any, target: Any, sources: Sequence[Any], call: Call) -> None:
        """Emits the causes for what is missing in one gradient call."""
        if tape is None or not self.tf.executing_eagerly():
            return
        trace = self.trace
        trace.busy = True
        try:
            question = self._question(tape, target, sources, call)
            reasons = explain(trace.graph, question)
            for reason in reasons:
                self._tell(reason, call)
            trace.forget()
        finally:
            trace.busy = False

    def _question(self, tape: Any, target: Any, sources: Sequence[Any], call: Call) -> g.Question:
        trace = self.trace
        number = trace.tape_number(tape)
        asked = trace.event("gradient")
        return g.Question(
            tape=number,
            opened=trace.opened.get(number, asked),
            asked=asked,
            goals=tuple(self._goal(goal) for goal in self.tf.nest.flatten(target)),
            sources=tuple(
                self._source(number, source, described) for source, described in zip(sources, call.variables)
            ),
        )

    def _goal(self, goal: Any) -> int:
        if hasattr(goal, "handle"):
            return self.trace.version(goal.handle._id)
        if hasattr(goal, "_id"):
            return int(goal._id)
        return self.values.node_of(goal) if self.values else self.trace.node()

    def _source(self, tape: int, source: Any, described: Mapping[str, Any]) -> g.Source:
        name, status = str(described["name"]), str(described["status"])
        if hasattr(source, "handle"):
            trainable = bool(getattr(source, "trainable", True)) and bool(_floats(source))
            return g.Source(name, variable=source.handle._id, trainable=trainable, status=status)
        node = getattr(source, "_id", None)
        watched = node in self.trace.watched.get(tape, ()) or node in self._made_from_watched(tape, node)
        return g.Source(name, node=node, watched=watched, status=status)

    def _made_from_watched(self, tape: int, node: Optional[int]) -> Set[int]:
        """The node itself, if the tape recorded the operation that made it: then it need not be watched."""
        made = any(e.dst == node and e.kind == g.OP and e.carries and tape in e.event.tapes for e in self.trace.graph.edges)
        return {node} if made and node is not None else set()

    # ------------------------------------------------------------------ telling
    def _tell(self, reason: g.Reason, call: Call) -> None:
        file, line = reason.place
        key = (file, line, reason.partial)
        names = [call.variables[i] for i in reason.sources]
        if key in self.told:
            return
        if len({(f, n) for f, n, _ in self.told} | {reason.place}) > _MANY:
            self.untold.add(reason.place)
            return
        verdict = codes.verdict(reason)
        finding = self._finding(file, line)
        if finding is not None:
            verdict = verdict._replace(code=str(finding.get("code") or verdict.code), how=str(finding.get("how") or verdict.how))
        self.told[key] = verdict.code
        related = []
        if reason.back is not None and reason.back != reason.place:
            related.append({"file": reason.back[0], "line": reason.back[1], "message": _related(reason)})
        self.events.emit(
            "cause",
            file=file,
            line=line,
            column=codes.column(file, line),
            code=verdict.code,
            how=verdict.how,
            message=verdict.message,
            variables=[described["name"] for described in names],
            owners=list(dict.fromkeys(described["owner"] for described in names)),
            gradient={"file": call.place[0], "line": call.place[1]},
            partial=reason.partial,
            related=related,
            sure=reason.sure,
        )

    def _finding(self, file: str, line: int) -> Optional[Mapping[str, Any]]:
        shown = self.events.shown(file)
        for finding in self.findings:
            first = int(finding.get("line") or 0)
            last = int(finding.get("end_line") or first)
            if finding.get("file") in (file, shown) and first - 1 <= line <= last + 1:
                return finding
        return None

    def finish(self) -> None:
        """Tells what was left out and what did not work."""
        if self.untold:
            lines = ", ".join(str(line) for _, line in sorted(self.untold)[:20])
            self.events.emit("note", message=f"the gradient is also cut at {len(self.untold)} further lines: {lines}")
        for failure in sorted(self.trace.failures)[:5]:
            self.events.emit("note", message=f"an operation could not be traced: {failure}")


def _floats(source: Any) -> bool:
    dtype = getattr(source, "dtype", None)
    if isinstance(dtype, str):
        return dtype.startswith(("float", "bfloat", "complex"))
    return bool(getattr(dtype, "is_floating", True) or getattr(dtype, "is_complex", False))


def _related(reason: g.Reason) -> str:
    return {
        "unwatched": "the source is made here",
        "outside": "the tape begins here",
    }.get(reason.kind, "the value comes back into TensorFlow here, without its gradient")

