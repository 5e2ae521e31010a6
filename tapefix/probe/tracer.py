"""Explains gradient calls while the program runs: asks the trace, and emits causes, the likeliest first."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, Sequence, Set

from . import codes, hooks, instrument
from . import graph as g
from .causes import Causes
from .events import Events
from .explain import explain
from .frames import UserCode
from .gradients import Call, Recorder
from .library import Hooks
from .record import Trace
from .values import Values


class Tracer:
    """The full tracing of one run."""

    def __init__(self, events: Events, code: UserCode, causes: Causes) -> None:
        self.events, self.code, self.causes = events, code, causes
        self.trace = Trace(code)
        self.values: Optional[Values] = None

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
        recorder.aside = self.trace.unseen
        return works

    # ------------------------------------------------------------------ one gradient call
    def explain(self, tape: Any, target: Any, sources: Sequence[Any], call: Call) -> None:
        """Emits the causes for what is missing in one gradient call."""
        if tape is None or not self.tf.executing_eagerly() or not sources:
            return
        with self.trace.unseen():
            question = self._question(tape, target, sources, call)
            for reason in explain(self.trace.graph, question):
                self._tell(reason, call)
            self.trace.forget()

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
            suspected=self.causes.findings,
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
            return g.Source(
                name,
                variable=source.handle._id,
                trainable=bool(getattr(source, "trainable", True)),
                integer=not _floats(source),
                status=status,
                words=frozenset(re.findall(r"[A-Za-z_]\w+", str(described["owner"]))) - {"self"},
            )
        node = getattr(source, "_id", None)
        since = self.trace.watched.get(tape, {}).get(node, -1) if node is not None else -1
        watched = since >= 0 or node in self._made_from_watched(tape, node)
        return g.Source(name, node=node, watched=watched, watched_at=since, status=status)

    def _made_from_watched(self, tape: int, node: Optional[int]) -> Set[int]:
        """The node itself, if the tape recorded the operation that made it: then it need not be watched."""
        edges = self.trace.graph.edges
        made = any(e.dst == node and e.kind == g.OP and e.carries and tape in e.event.tapes for e in edges)
        return {node} if made and node is not None else set()

    # ------------------------------------------------------------------ telling
    def _tell(self, reason: g.Reason, call: Call) -> None:
        if reason.kind == "unwatched" and reason.back and codes.rebinds(reason.back):
            reason = reason._replace(kind="rebound", place=reason.back, back=reason.place)
        names = [call.variables[i] for i in reason.sources]
        related = []
        if reason.back is not None and reason.back != reason.place:
            related.append({"file": reason.back[0], "line": reason.back[1], "message": _related(reason)})
        self.causes.tell(codes.verdict(reason), reason.place, names, call.place, reason.partial, related, reason.sure)

    def finish(self) -> None:
        """Tells what did not work."""
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
