"""Records every gradient call: which sources have a gradient, how large it is, and what the loss was.

In eager code the values are at hand. In a graph the call is noted when it is traced, and operations put beside it
measure its first runs; a call whose graph never runs is told at the end, without values.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from types import FrameType
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import naming, tensors
from .events import Events
from .frames import UserCode, caller, calling
from .ingraph import Measured
from .stop import Stopper

Place = Tuple[str, int]
_MINIMIZE = {"minimize", "_compute_gradients", "compute_gradients", "get_gradients"}
_AT_ONCE = 3  # runs of a graph after which what it has measured is read every time
_PACE = 8  # later it is read after so many; it keeps twice as many
_FIT = {"fit", "train_on_batch", "fit_generator"}


class Call:
    """One gradient call, or one place in a graph that makes it each time it runs."""

    def __init__(
        self, place: Place, kind: str, graph: bool, names: List[naming.Name], variables: List[Dict[str, Any]]
    ) -> None:
        self.place, self.kind, self.graph, self.names = place, kind, graph, names
        self.variables = variables
        self.present = [i for i, variable in enumerate(variables) if variable["status"] != "none"]
        self.told = False
        self.measured: Optional[Measured] = None  # before TensorFlow 2.5 a graph does not keep the variables it reads

    @property
    def missing(self) -> List[int]:
        """The positions of the sources whose gradient is None."""
        return [i for i, variable in enumerate(self.variables) if variable["status"] == "none"]


class _Told(NamedTuple):
    """What was told last of a place: calls that came to the same need not be told in full."""

    number: str
    names: List[naming.Name]
    present: List[int]
    statuses: List[str]


def _status(norm: float) -> str:
    return ("ok" if norm else "zero") if math.isfinite(norm) else "nonfinite"


class Recorder:
    """Wraps what computes and applies gradients, and emits a `gradient` event for each call."""

    def __init__(
        self,
        tf: Any,
        events: Events,
        code: UserCode,
        stopper: Stopper,
        steps: int,
        empty: Callable[[Place], None] = lambda place: None,
    ) -> None:
        self.empty = empty  # told of a call without sources
        self.tf, self.events, self.code, self.stopper = tf, events, code, stopper
        self.steps = max(1, steps)
        self.calls: Dict[Place, int] = {}
        self.traced: List[Call] = []
        self._running: List[Call] = []  # in graphs that may run again
        self._unread, self._pace = 0, 1
        self.listeners: List[Callable[[Any, Any, Sequence[Any], Call], None]] = []
        self.aside: Callable[[], ContextManager[None]] = contextlib.nullcontext  # keeps a trace from seeing us measure
        self._inside = 0
        self._unapplied = 0  # gradient calls whose result no optimizer has been given yet
        self._last: Dict[Place, _Told] = {}
        self._numbers = itertools.count(1)
        self._names: Dict[Tuple[Place, Tuple[int, ...]], List[naming.Name]] = {}

    # ------------------------------------------------------------------ hooks
    def hook_tape(self, tape_class: Any) -> None:
        """Wraps `gradient` and `jacobian` of tf.GradientTape."""
        gradient, jacobian = tape_class.gradient, tape_class.jacobian
        recorder = self

        def recorded_gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
            if recorder._inside:
                return gradient(self, target, sources, *args, **kwargs)
            recorder.stopper.check()
            recorder._inside += 1  # what TensorFlow asks for itself meanwhile (py_function, recompute_grad) is no call
            try:
                result = gradient(self, target, sources, *args, **kwargs)
            except Exception as error:
                if "non-persistent" not in str(error):
                    recorder.failed(self, target, sources, caller())
                raise
            finally:
                recorder._inside -= 1
            recorder.note(self, target, sources, result, "gradient", caller())
            return result

        def recorded_jacobian(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
            recorder._inside += 1
            try:
                result = jacobian(self, target, sources, *args, **kwargs)
            finally:
                recorder._inside -= 1
            if not recorder._inside:
                recorder.note(self, target, sources, result, "jacobian", caller())
            return result

        recorded_gradient.__wrapped__ = gradient  # type: ignore[attr-defined]
        recorded_jacobian.__wrapped__ = jacobian  # type: ignore[attr-defined]
        tape_class.gradient, tape_class.jacobian = recorded_gradient, recorded_jacobian

    def hook_optimizer(self, optimizer_class: Any) -> None:
        """Wraps `apply_gradients`: gradients that no recorded tape computed are reported there."""
        apply = optimizer_class.apply_gradients
        recorder = self

        def recorded_apply(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            if recorder._unapplied <= 0 and not recorder._inside:
                pairs = list(grads_and_vars)
                grads_and_vars = pairs
                if pairs and all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
                    grads, variables = [p[0] for p in pairs], [p[1] for p in pairs]
                    recorder.note(None, [], variables, grads, "apply_gradients", caller())
            if not recorder._inside:
                recorder._unapplied = max(0, recorder._unapplied - 1)
            recorder._inside += 1  # Keras 2 calls the parent's method, and Keras 3 `apply`
            try:
                return apply(self, grads_and_vars, *args, **kwargs)
            finally:
                recorder._inside -= 1

        recorded_apply.__wrapped__ = apply  # type: ignore[attr-defined]
        optimizer_class.apply_gradients = recorded_apply

    # ------------------------------------------------------------------ recording
    def note(self, tape: Any, target: Any, sources: Any, result: Any, kind: str, frame: FrameType) -> None:
        """Records one call. Never raises, except to end the run."""
        place = self.code.place(frame)
        if place is None:  # a library's own gradient in a thread of its own
            return
        self._unapplied += 1
        flatten = self.tf.nest.flatten
        try:
            flat_sources, flat_result = flatten(sources), flatten(result)
            if len(flat_result) != len(flat_sources):
                flat_result = [None] * len(flat_sources)
            graph = not self.tf.executing_eagerly()
            count = self.calls.get(place, 0) if graph else self._count(place)
            if not flat_sources:
                self.empty(place)
            if count <= self.steps:
                call = self._call(place, kind, graph, flat_sources, flat_result, frame)
                with self.aside():
                    self._values(call, flatten(target), flat_result)
                for listener in self.listeners:
                    listener(tape, target, flat_sources, call)
        except Exception as failure:  # the user's program must not suffer from being watched
            self.events.emit("note", message=f"a gradient call could not be recorded: {failure!r}", file=place[0])

    def failed(self, tape: Any, target: Any, sources: Any, frame: FrameType) -> None:
        """A gradient call raised: it is explained as if every gradient were None."""
        place = self.code.place(frame)
        if place is None or not self.listeners:
            return
        try:
            flat = self.tf.nest.flatten(sources)
            call = self._call(place, "gradient", not self.tf.executing_eagerly(), flat, [None] * len(flat), frame)
            for listener in self.listeners:
                listener(tape, target, flat, call)
        except Exception as failure:
            self.events.emit("note", message=f"a failed gradient call could not be explained: {failure!r}")

    def _count(self, place: Place) -> int:
        count = self.calls[place] = self.calls.get(place, 0) + 1
        self.stopper.reached(place, count)
        return count

    def _call(
        self, place: Place, kind: str, graph: bool, sources: List[Any], result: List[Any], frame: FrameType
    ) -> Call:
        between = calling(frame, self.code.innermost(frame))
        if kind == "gradient" and not _FIT.isdisjoint(between):
            kind = "fit"
        elif kind == "gradient" and not _MINIMIZE.isdisjoint(between):
            kind = "minimize"
        key = (place, tuple(naming.key_of(source) for source in sources))
        names = self._names.get(key)
        if names is None:
            names = self._names[key] = naming.name_sources(sources, frame, self.code)
        variables = []
        for name, source, gradient in zip(names, sources, result):
            shape = getattr(source, "shape", None)
            rank = getattr(shape, "rank", len(shape) if isinstance(shape, tuple) else None)
            variables.append(
                {
                    "name": name.name,
                    "owner": name.owner,
                    "shape": None if shape is None or rank is None else [None if d is None else int(d) for d in shape],
                    "dtype": str(getattr(getattr(source, "dtype", None), "name", getattr(source, "dtype", None))),
                    "status": "none" if gradient is None else "ok",
                    "norm": None,
                }
            )
        return Call(place, kind, graph, names, variables)

    def _values(self, call: Call, target: List[Any], result: List[Any]) -> None:
        present = [gradient for gradient in result if gradient is not None]
        if not call.graph:
            self._judge(call, tensors.total(target), [tensors.norm(tensors.dense(gradient)) for gradient in present])
            return
        self.traced.append(call)
        self.stopper.traced(call.place)
        try:
            call.measured = Measured(self.tf, target, present, self.steps)
            self._running.append(call)
        except Exception as failure:
            self.events.emit("note", message=f"values in the graph are not recorded: {failure!r}")

    def ran(self) -> None:
        """A graph has run: what it has measured is read, of its first runs each time."""
        if self._running:
            self._unread += 1
            if self._unread >= self._pace:
                self.collect()

    def collect(self) -> None:
        """Tells what graphs have measured since the last time. Never raises."""
        if not self._running:
            return
        self._unread = 0
        running, self._running = self._running, []
        for call in running:
            assert call.measured is not None
            try:
                with self.aside(), self.tf.init_scope():
                    news = call.measured.news()
            except Exception as failure:
                self.events.emit("note", message=f"values in the graph are lost: {failure!r}", file=call.place[0])
                continue
            for loss, norms in news:
                if self._count(call.place) <= self.steps:
                    self._judge(call, loss, norms)
            if not call.measured.done:
                self._running.append(call)
        fresh = any(call.measured is not None and call.measured.seen < _AT_ONCE for call in self._running)
        self._pace = 1 if fresh else _PACE

    def _judge(self, call: Call, loss: Optional[float], norms: List[float]) -> None:
        call.told = True
        statuses = [_status(norm) for norm in norms]
        variables = call.variables = [dict(variable) for variable in call.variables]
        for index, norm, status in zip(call.present, norms, statuses):
            variables[index].update(status=status, norm=None if status == "nonfinite" else norm)
        last = self._last.get(call.place)
        if last is not None and (last.names, last.present, last.statuses) == (call.names, call.present, statuses):
            self.events.emit("again", of=last.number, loss=loss)  # a tenth of the event, and of the time it takes
            return
        self._last[call.place] = _Told(self._emit(call, loss, variables), call.names, call.present, statuses)

    def _emit(self, call: Call, loss: Optional[float], variables: List[Dict[str, Any]]) -> str:
        number = f"{os.getpid()}.{next(self._numbers)}"
        self.events.emit(
            "gradient",
            file=call.place[0],
            line=call.place[1],
            number=number,
            call=self.calls.get(call.place, 1),
            kind=call.kind,
            graph=call.graph,
            loss=loss,
            variables=variables,
        )
        return number

    def finish(self) -> None:
        """Tells what graphs have measured last, and the calls of graphs that never ran."""
        self.collect()
        told = {call.place for call in self.traced if call.told}
        for call in self.traced:
            if call.place not in told:
                told.add(call.place)
                call.told = True
                self._emit(call, None, call.variables)
