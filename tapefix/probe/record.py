"""Builds the graph of what happens, from the hooks in TensorFlow and the instrumented code of the user's."""

from __future__ import annotations

import contextlib
import itertools
import sys
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from . import graph as g
from .codes import branch_names
from .frames import UserCode, caller

SHAPES = frozenset("Shape ShapeN Size Rank ZerosLike OnesLike VariableShape BroadcastGradientArgs".split())
_CALLS = frozenset(  # functions as operations: their gradient is not asked for, it would run them
    "PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case StatelessCase EagerPyFunc "
    "XlaLaunch SymbolicGradient RemoteCall".split()
)
_UNRECORDED = "tensorflow.constant"  # reshapes and fills behind the tape's back
_EDGE_LIMIT = 600_000  # edges kept when no tape is open; a training loop without end must not fill the memory
_PENDING = 64  # variables touched since the last operation


class Context:
    """A call from a user's frame into a library that is still running."""

    __slots__ = ("frame", "name", "passed_by", "since", "sources")

    def __init__(self, frame: int, name: str, sources: List[int], since: int) -> None:
        self.frame, self.name, self.sources = frame, name, sources
        self.since = since  # how many values had left TensorFlow when the call began
        self.passed_by: Set[int] = set()  # values that left since then, and are none of the call's business


class Trace:
    """Events and edges so far. Tensors are known by TensorFlow's own numbers, all else gets negative ones."""

    def __init__(self, code: UserCode) -> None:
        self.code = code
        self.graph = g.Graph()
        self.tapes: List[int] = []
        self.opened: Dict[int, g.Event] = {}
        self.watched: Dict[int, Dict[int, int]] = {}  # tape -> tensor -> when
        self.exports: List[int] = []
        self.contexts: List[Context] = []
        self.regions: List[g.Event] = []  # py_function and the like: what happens inside belongs to the call
        self.busy = False
        self.time_order = False  # some of the user's code is not instrumented: values are linked by time
        self.gradient_of: Callable[..., Optional[Sequence[Any]]] = lambda *args: None
        self.same_value: Callable[[int, Any, Any], bool] = lambda handle, dtype, tensor: False
        self.callback: Callable[[], None] = lambda: None  # adds the operation callback in a new thread
        self.handles: Dict[int, Any] = {}  # by number, to read a variable again
        self.failures: Set[str] = set()
        self.inlined: Optional[Tuple[List[Any], List[Any]]] = None  # arguments and results of py_function's body
        self._known: Set[int] = set()
        self._pending: List[Tuple[int, Any, Any]] = []
        self._versions: Dict[int, int] = {}  # variable -> node of its present state
        self._carries: Dict[Any, FrozenSet[int]] = {}
        self._event = itertools.count()
        self._number = itertools.count(-1, -1)
        self._tape_numbers = itertools.count(1)

    # ------------------------------------------------------------------ small things
    def event(self, op: str, via: str = "") -> g.Event:
        """A new event at the user's line that is running."""
        if self.regions:
            region = self.regions[0]
            return g.Event(next(self._event), region.op, region.stack, tuple(self.tapes), region.via)
        if not via and self.contexts:
            via = self.contexts[-1].name
        return g.Event(next(self._event), op, self.code.stack(caller()), tuple(self.tapes), via)

    def node(self) -> int:
        """A new node for what is no tensor."""
        return next(self._number)

    def edge(self, src: int, dst: int, kind: str, event: g.Event, carries: bool = False) -> None:
        """A value went from `src` to `dst`."""
        self.graph.edges.append(g.Edge(src, dst, kind, event, carries))
        self._known.add(dst)

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """What happens inside is the probe's own doing."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def knows(self, tensor: Any) -> bool:
        """True if it is known where the tensor came from."""
        return tensor._id in self._known

    def version(self, handle: int) -> int:
        """The node of a Variable's present state."""
        if handle not in self._versions:
            self._versions[handle] = node = self.node()
            self.graph.variable[node] = handle
        return self._versions[handle]

    def _new_version(self, handle: int) -> int:
        self._versions[handle] = node = self.node()
        self.graph.variable[node] = handle
        return node

    # ------------------------------------------------------------------ operations
    def operation(self, op: str, inputs: Sequence[Any], attrs: Any, outputs: Sequence[Any]) -> None:
        """An eager operation ran."""
        pending, self._pending = self._pending, []
        event = self.event(op)
        handles = [x._id for x in inputs if x.dtype.name == "resource"]
        for tensor in inputs:
            if tensor._id not in self._known and tensor.dtype.name != "resource":
                self._first_seen(tensor, [] if handles else pending, event)
        for handle in handles:
            self._resource(op, handle, inputs, outputs, event)
        if op in SHAPES:
            inputs = ()
        if op == "EagerPyFunc" and self.inlined is not None:
            self._inline(inputs, outputs, event)
            inputs = ()
        unseen = event.via == _UNRECORDED
        carries = self._carrying(op, attrs, inputs, outputs) if self.tapes and inputs and not unseen else frozenset()
        for out in outputs:
            self._known.add(out._id)
            self.graph.born.setdefault(out._id, event)
            hard = not is_smooth(out)
            if hard:
                self.graph.hard.add(out._id)
            for index, tensor in enumerate(inputs):
                if tensor.dtype.name != "resource":
                    self.edge(tensor._id, out._id, g.OP, event, index in carries and not hard)

    def _resource(self, op: str, handle: int, inputs: Sequence[Any], outputs: Sequence[Any], event: g.Event) -> None:
        writes = op.startswith("Assign") or (op.startswith("Resource") and "Gather" not in op) or not outputs
        if "Dataset" in op:  # what a dataset's function captures is read there, and never differentiated
            taken = self.node()
            self.edge(self.version(handle), taken, g.READ, event)
            for out in outputs:
                self.edge(taken, out._id, g.OP, event)
            return
        if not writes:
            for out in outputs:
                self.edge(self.version(handle), out._id, g.READ, event)
            return
        fresh = handle not in self._versions
        if fresh and op == "AssignVariableOp":
            event = event._replace(op="VariableMade")
            self.graph.made_at[handle] = event
        before = self.version(handle)
        after = self._new_version(handle)
        if op != "AssignVariableOp":
            self.edge(before, after, g.STATE, event)
        for tensor in inputs:
            if tensor._id != handle and tensor.dtype.name != "resource":
                self.edge(tensor._id, after, g.WRITE, event)

    def _inline(self, inputs: Sequence[Any], outputs: Sequence[Any], event: g.Event) -> None:
        """Links what py_function was given and gave to what its body saw and returned."""
        arguments, results = self.inlined or ([], [])
        self.inlined = None
        for outer, inner in itertools.chain(zip(inputs, arguments), zip(results, outputs)):
            if hasattr(outer, "_id") and hasattr(inner, "_id"):
                self.edge(outer._id, inner._id, g.OP, event, is_smooth(outer) and is_smooth(inner))

    def custom(self, name: str, outputs: Iterable[Any], inputs: Iterable[Any]) -> None:
        """A function with a gradient of its own was recorded by the tape."""
        event = self.event(name)
        sources = [x for x in inputs if hasattr(x, "_id")]
        for out in outputs:
            if hasattr(out, "_id"):
                for tensor in sources:
                    self.edge(tensor._id, out._id, g.OP, event, is_smooth(tensor) and is_smooth(out))

    def _carrying(self, op: str, attrs: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> FrozenSet[int]:
        """The inputs for which the operation has a gradient, asked of TensorFlow once for each kind of call."""
        smooth = frozenset(k for k, x in enumerate(inputs) if is_smooth(x))
        if not smooth or not any(is_smooth(out) for out in outputs):
            return frozenset()
        if op in _CALLS:
            return smooth
        key = (op, tuple(x.dtype for x in inputs))
        known = self._carries.get(key)
        if known is None:
            known = smooth
            with self.unseen(), contextlib.suppress(Exception):  # none registered: TensorFlow tells that when asked
                found = self.gradient_of(op, attrs, inputs, outputs)
                if found is not None:
                    known = frozenset(k for k, x in enumerate(found) if x is not None) & smooth
            self._carries[key] = known
        return known

    def _first_seen(self, tensor: Any, pending: List[Tuple[int, Any, Any]], event: g.Event) -> None:
        """A tensor that no operation has made: read from a Variable in C, or a value that came from outside."""
        handle = self._read_in_c(tensor, pending)
        if handle is not None:
            self.edge(self.version(handle), tensor._id, g.READ, event)
        else:
            self.entered(tensor, self.present_sources())

    def _read_in_c(self, tensor: Any, pending: List[Tuple[int, Any, Any]]) -> Optional[int]:
        """The touched variable whose buffer the tensor shares: the C fast path reads without an operation."""
        alike = {h: dtype for h, shape, dtype in pending if shape == tensor.shape and dtype == tensor.dtype}
        if not alike:
            return None
        with self.unseen():
            return next((h for h, dtype in alike.items() if self.same_value(h, dtype, tensor)), None)

    # ------------------------------------------------------------------ values that leave and come back
    def touched(self, handle: Any, shape: Any, dtype: Any) -> None:
        """Somebody took hold of a Variable's handle: perhaps to read it in C."""
        if not self.busy and hasattr(handle, "_id"):
            self._pending = [*self._pending[-_PENDING:], (handle._id, shape, dtype)]

    def exported(self, tensor: Any, how: str, decides: bool = False) -> None:
        """A tensor's value went to NumPy or Python. `decides`: it was asked whether it is true."""
        if self.busy:
            return
        event = self.event(how)
        if tensor._id not in self._known:
            handle = self._read_in_c(tensor, self._pending)
            if handle is not None:
                self.edge(self.version(handle), tensor._id, g.READ, event)
        node = self.node()
        self.edge(tensor._id, node, g.EXPORT, event)
        if not is_smooth(tensor):
            self.graph.hard.add(node)
        if decides:
            mentions = branch_names(*event.place) if event.place and self.tapes else frozenset()
            self.graph.tests.append(g.Test(event, (tensor._id,), mentions=mentions))
        else:
            self.exports.append(node)
            if node in self.graph.hard and self.tapes:
                self.graph.tests.append(g.Test(event, (tensor._id,), weak=True))

    def entered(self, tensor: Any, sources: Iterable[int]) -> None:
        """A value from outside became a tensor."""
        event = self.event("enter")
        self._known.add(tensor._id)
        self.graph.born.setdefault(tensor._id, event)
        if not is_smooth(tensor):
            self.graph.hard.add(tensor._id)
        for source in dict.fromkeys(sources):
            self.edge(source, tensor._id, g.ENTER, event)

    def present_sources(self) -> List[int]:
        """What a value that enters now may have come from: what the calls of the innermost user's frame hold."""
        if self.time_order:
            return self.exports[-2000:] if self.tapes else []
        if not self.contexts:
            return []
        frame = self.code.innermost(sys._getframe(1))
        found: List[int] = []
        for context in reversed(self.contexts):
            if context.frame != id(frame):
                break
            found += self.sources_of(context)
        return found

    def sources_of(self, context: Context) -> List[int]:
        """What a running call was given, and what has left TensorFlow meanwhile."""
        left = self.exports[context.since :]
        if context.passed_by:
            left = [node for node in left if node not in context.passed_by]
        return context.sources + left

    # ------------------------------------------------------------------ tapes
    def tape_number(self, tape: Any) -> int:
        """A number for a tape that no later tape gets."""
        number = getattr(tape, "_tapefix_number", None)
        if number is None:
            number = next(self._tape_numbers)
            tape._tapefix_number = number
        return int(number)

    def tape_pushed(self, tape: Any) -> None:
        """A tape begins, or goes on, recording."""
        number = self.tape_number(tape)
        if number not in self.opened:
            self.opened[number] = self.event("tape")
        self.tapes.append(number)

    def tape_popped(self, tape: Any) -> None:
        """A tape stops recording."""
        number = self.tape_number(tape)
        if number in self.tapes:
            self.tapes.remove(number)

    def tape_watched(self, tape: Any, tensors: Iterable[Any]) -> None:
        """A tape was told to watch tensors."""
        watched = self.watched.setdefault(self.tape_number(tape), {})
        now = next(self._event)
        for tensor in tensors:
            if hasattr(tensor, "_id"):
                watched.setdefault(tensor._id, now)

    def forget(self) -> None:
        """Drops what is known when it has grown too large and no tape is open."""
        if len(self.graph.edges) > _EDGE_LIMIT and not self.tapes:
            self.graph = g.Graph(variable=self.graph.variable, made_at=self.graph.made_at)
            self.exports = []


def is_smooth(tensor: Any) -> bool:
    """True for the types that a gradient can pass through."""
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)
