"""Follows values through NumPy and Python: the helper that instrumented code calls.

Objects are tagged by identity, so that lists, dicts, attributes and return values carry the tag by themselves. What
has no identity of its own (small integers, booleans, None, text) cannot be followed.
"""

from __future__ import annotations

import collections
import re
import sys
import types
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from . import codes
from . import graph as g
from .record import Context, Trace

_CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque)
_ATOMS = (bool, str, bytes, type, type(None), types.FunctionType, types.ModuleType, types.MethodType)
_REGIONS = frozenset("numpy_function py_function py_func eager_py_func set_weights load_weights".split())
_KEEP_IDENTITY = (zip, enumerate, reversed, list, tuple, iter, next, set, dict)  # hand on the objects they are given
_PASS = frozenset(["stop_gradient", "isinstance", "len", "type", "id", "hasattr", "print", "repr", "format"])
_LAZY: Tuple[Any, ...] = (types.GeneratorType, map, filter, type({}.values()), type({}.items()))
_MANY = 4000  # items of a container that are looked at


class Values:
    """What `__tapefix__` is in the user's code."""

    def __init__(self, trace: Trace, eager: Any, array: Any) -> None:
        import numpy as np

        self.trace, self.eager, self.array = trace, eager, array
        self.tagged: Dict[int, Any] = {}  # identity -> the object, kept alive so that the identity stays its own
        self.nodes: Dict[int, int] = {}
        self._scalars = frozenset(np.sctypeDict.values())
        self.empty: List[g.Event] = []  # lists of variables that were asked for and were empty
        self._users: Dict[Any, bool] = {}
        self._number = 0

    # ------------------------------------------------------------------ tags
    def tags(self, things: Iterable[Any]) -> List[int]:
        """The nodes of the tagged objects among these, and in their containers."""
        if not self.nodes:
            return []
        nodes = self.nodes
        return [nodes[id(x)] for thing in things for x in self.flat(thing) if id(x) in nodes]

    def flat(self, thing: Any, depth: int = 3) -> Iterator[Any]:
        """The object and what it holds; of an array also what it is a view of."""
        yield thing
        if isinstance(thing, self.array):
            base = thing.base
            while base is not None and isinstance(base, self.array):
                yield base
                base = base.base
        elif depth and isinstance(thing, _CONTAINERS):
            items = list(thing.values() if isinstance(thing, dict) else thing)
            for item in items[:_MANY]:
                yield from self.flat(item, depth - 1)

    def tag(self, thing: Any, sources: Sequence[int], known: Set[int], depth: int = 3) -> None:
        """The object was made from `sources`. What was there before (`known`) is not touched, arrays excepted."""
        if isinstance(thing, self.eager):
            if not self.trace.knows(thing):
                self.trace.entered(thing, sources)
        elif isinstance(thing, self.array):
            base: Any = thing
            while isinstance(base, self.array):
                self._mark(base, sources)
                base = base.base
        elif id(thing) in known or isinstance(thing, _ATOMS) or _everywhere(thing):
            return
        elif isinstance(thing, _CONTAINERS):
            if depth:
                for item in list(thing.values() if isinstance(thing, dict) else thing)[:_MANY]:
                    self.tag(item, sources, known, depth - 1)
        elif not hasattr(thing, "trainable_variables") and not hasattr(thing, "assign"):
            self._mark(thing, sources)

    def _mark(self, thing: Any, sources: Sequence[int]) -> None:
        key = id(thing)
        old = self.nodes.get(key)
        node = self.nodes[key] = self.trace.node()  # a write makes a new state, which what was read before is not
        self.tagged[key] = thing
        event = self.trace.event("python")
        if not _smooth(thing):
            self.trace.graph.hard.add(node)
        if old is not None:
            self.trace.edge(old, node, g.PYTHON, event)
        for source in dict.fromkeys(sources):
            if source not in (old, node):
                self.trace.edge(source, node, g.PYTHON, event)

    def node_of(self, thing: Any) -> int:
        """The node of a value, tagged or not."""
        return self.nodes.get(id(thing)) or self.trace.node()

    # ------------------------------------------------------------------ what instrumented code calls
    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """`function(*args, **kwargs)`, numbered, so that frames can be told apart."""
        frame = sys._getframe(1)
        calls, key = self.trace.code.calls, id(frame)
        before = calls.get(key, 0)
        self._number = calls[key] = self._number + 1
        try:
            if self._is_user(function):
                return function(*args, **kwargs)
            return self._library_call(frame, function, args, kwargs)
        finally:
            if before:
                calls[key] = before
            else:
                del calls[key]

    def _library_call(self, frame: types.FrameType, function: Any, args: Any, kwargs: Any) -> Any:
        """A library's result is tagged with what went in and what left TensorFlow meanwhile."""
        receiver = getattr(function, "__self__", None)
        if function in _KEEP_IDENTITY if isinstance(function, type) else function is next:
            return function(*[self._tagging(arg) for arg in args], **kwargs)
        name = getattr(function, "__name__", type(function).__name__)
        if isinstance(receiver, _CONTAINERS) or name in _PASS:
            return function(*args, **kwargs)
        full = _full_name(function, name, receiver)
        region = self.trace.event(full) if name in _REGIONS else None
        if region is not None:
            self.trace.regions.append(region)
        given = (receiver, args, kwargs)
        if name in ("py_function", "eager_py_func"):
            args, kwargs = self._inlined(args, kwargs)
        elif any(isinstance(arg, _LAZY) for arg in args):
            args = tuple(self._drawn(arg, len(self.trace.contexts)) if isinstance(arg, _LAZY) else arg for arg in args)
        try:
            result, sources = self._guarded(given, full, lambda: function(*args, **kwargs), frame)
        finally:
            if region is not None:
                self.trace.regions.pop()
        if isinstance(function, type) and self.trace.tapes and hasattr(result, "trainable_variables"):
            self.trace.graph.made.append(self.trace.event("made"))
        if sources:
            known = {id(x) for x in self.flat(given)}
            self.tag(result, sources, known)
            if result is None:  # np.copyto, arr.fill, a helper in C that fills its argument
                for thing in (receiver, *args[:1]):
                    if isinstance(thing, self.array):
                        self.tag(thing, sources, known)
        elif isinstance(result, self.eager) and not self.trace.knows(result):
            self.trace.entered(result, ())
        return result

    def _drawn(self, things: Iterable[Any], context: int) -> Iterator[Any]:
        """An iterator whose tagged items count among what the running call (`context`) was given.

        What a generator of the user's takes out of TensorFlow on the way to an item is in the item, or in nothing.
        """
        own = isinstance(things, types.GeneratorType) and self.trace.code.owns(things.gi_code.co_filename)
        left = len(self.trace.exports)
        for item in things:
            if len(self.trace.contexts) > context:
                running = self.trace.contexts[context]
                running.sources += self.tags([item])
                if own and not _everywhere(item):
                    running.passed_by.update(self.trace.exports[left:])
            yield item
            left = len(self.trace.exports)

    def _inlined(self, args: Any, kwargs: Dict[str, Any]) -> Tuple[Any, Dict[str, Any]]:
        """The function given to py_function, watched: its body is part of the way from inputs to outputs."""
        body = args[0] if args else kwargs.get("func")
        if not callable(body):
            return args, kwargs

        def watched(*inner: Any) -> Any:
            result = body(*inner)
            self.trace.inlined = (list(inner), list(result) if isinstance(result, (list, tuple)) else [result])
            return result

        return ((watched, *args[1:]), kwargs) if args else ((), dict(kwargs, func=watched))

    def _guarded(
        self, given: Sequence[Any], name: str, do: Callable[[], Any], frame: Optional[types.FrameType] = None
    ) -> Tuple[Any, List[int]]:
        trace = self.trace
        at = id(frame or trace.code.innermost(sys._getframe(2)))
        context = Context(at, name, self.tags(given), len(trace.exports))
        trace.contexts.append(context)
        try:
            result = do()
        finally:
            trace.contexts.pop()
        return result, trace.sources_of(context)

    def op(self, function: Callable[[Any, Any], Any], left: Any, right: Any, name: str = "") -> Any:
        """A binary operator."""
        if self._inert(left) and self._inert(right):
            return function(left, right)
        result, sources = self._guarded((left, right), name or _operator(function), lambda: function(left, right))
        if sources:
            self.tag(result, sources, {id(left), id(right)})
        return result

    def _inert(self, thing: Any) -> bool:
        """The value has no tag and no operation on it can take anything out of TensorFlow."""
        kind = type(thing)
        if kind is self.array:
            if thing.dtype.hasobject or id(thing) in self.nodes:
                return False
            return thing.base is None or not self.tags([thing])
        return (kind in _PLAIN or kind in self._scalars) and id(thing) not in self.nodes

    def _inert_index(self, index: Any) -> bool:
        if type(index) is tuple:
            return all(type(part) is int or self._inert_index(part) for part in index)
        return type(index) is slice or self._inert(index)

    def unary(self, function: Callable[[Any], Any], value: Any) -> Any:
        """A unary operator."""
        return self.op(lambda left, _: function(left), value, None, "-")

    def compare(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """A comparison; one of numbers decides something."""
        if self._inert(left) and self._inert(right):
            return function(left, right)
        result, sources = self._guarded((left, right), _operator(function), lambda: function(left, right))
        if sources and not isinstance(result, self.eager):
            if isinstance(result, bool) or type(result).__name__ in ("bool_", "bool"):
                self.trace.graph.tests.append(g.Test(self.trace.event("compare"), tuple(sources)))
            else:
                self.tag(result, sources, set())
        return result

    def load(self, thing: Any, index: Any) -> Any:
        """`thing[index]`"""
        if isinstance(thing, (list, dict)) or (self._inert(thing) and self._inert_index(index)):
            return thing[index]
        result, sources = self._guarded((thing, index), "[]", lambda: thing[index])
        if sources:
            self.tag(result, sources, {id(x) for x in thing} if isinstance(thing, tuple) else set())
        return result

    def attribute(self, thing: Any, name: str) -> Any:
        """`thing.T`, `.real`, `.imag`, `.flat`"""
        return self.op(lambda left, _: getattr(left, name), thing, None, f".{name}")

    def store(self, value: Any, thing: Any, index: Any) -> None:
        """`thing[index] = value`"""

        def do() -> None:
            thing[index] = value

        if not isinstance(thing, self.array) or self._inert(value):
            do()
            return
        _, sources = self._guarded((value,), "[]=", do)
        if sources:
            self.tag(thing, sources, set())

    def augment(self, function: Callable[[Any, Any], Any], thing: Any, index: Any, value: Any) -> None:
        """`thing[index] += value`"""
        self.store(self.op(function, self.load(thing, index), value), thing, index)

    def iterate(self, things: Any) -> Any:
        """What a `for` goes over: the items of a tagged array are tagged as they come."""
        return self._tagging(things)

    def _tagging(self, things: Any) -> Any:
        if isinstance(things, _CONTAINERS) or id(things) not in self.nodes:
            base = getattr(things, "base", None)
            if not isinstance(things, self.array) or base is None or id(base) not in self.nodes:
                return things
        sources = self.tags([things])

        def items() -> Iterator[Any]:
            for item in things:
                self.tag(item, sources, set())
                yield item

        return items()

    def listed(self, thing: Any, name: str) -> Any:
        """`thing.trainable_variables` and its kin: an empty list is remembered, with its line."""
        found = getattr(thing, name)
        if isinstance(found, (list, tuple)) and not found:
            self.empty.append(self.trace.event(name))
        return found

    def decide(self, value: Any) -> Any:
        """The test of an `if` or a ternary; returned as it is, its truth is asked by the caller."""
        trace = self.trace
        if trace.tapes and not isinstance(value, self.eager):
            event = trace.event("if")
            if event.place is not None:
                mentions = codes.branch_names(*event.place)
                if mentions:
                    trace.graph.tests.append(g.Test(event, (), weak=True, mentions=mentions))
        return value

    # ------------------------------------------------------------------ whose function it is
    def _is_user(self, function: Any) -> bool:
        inner = getattr(function, "__func__", function)
        code = getattr(inner, "__code__", None)
        if code is not None:
            return self.trace.code.owns(code.co_filename)
        if isinstance(function, type):
            known = self._users.get(function)
            if known is None:
                module = sys.modules.get(function.__module__)
                known = self._users[function] = self.trace.code.owns(getattr(module, "__file__", None) or "")
            return known
        return False


_VERSION = re.compile(r"(_for_tf)?_v2$")
_PLAIN = frozenset([int, float, str, bool, complex, type(None)])


def _everywhere(thing: Any) -> bool:
    """Python has this object once, so that its identity tells nothing."""
    return thing is None or isinstance(thing, bool) or (type(thing) is int and -6 < thing < 257)


def _smooth(thing: Any) -> bool:
    kind = getattr(getattr(thing, "dtype", None), "kind", None)
    if kind is not None:
        return kind in "fcOV"
    return not isinstance(thing, int)


def _operator(function: Any) -> str:
    return str(getattr(function, "__name__", "operator"))


def _full_name(function: Any, name: str, receiver: Any) -> str:
    name = _VERSION.sub("", name)  # tf.cond is called cond_for_tf_v2 inside
    if receiver is not None and not isinstance(receiver, types.ModuleType):
        kind = receiver if isinstance(receiver, type) else type(receiver)
        return f"{kind.__module__}.{kind.__name__}.{name}"
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module.split('.')[0]}.{name}"
