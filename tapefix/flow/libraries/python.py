"""What calls into Python's own libraries, and into others that leave TensorFlow, lead to."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from tapefix.flow.facts import How
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.interpreter.python_builtins import Builtins
from tapefix.flow.libraries import operations as ops
from tapefix.flow.objects import (
    Api,
    Bound,
    Distribution,
    Foreign,
    Function,
    Instance,
    Layer,
    Mapping,
    Sequence,
    api_value,
)
from tapefix.flow.values import NUMERIC, UNKNOWN, Kind, Source, Value, Var, join, join_all


class PythonLibraries(Builtins):
    """Calls of library names."""

    def foreign(self, name: str, given: Arguments, node: ast.AST) -> Value:
        for value in given.all:
            if value.refs:
                self.called_back(value, node)
        lost = self.cut(How.FOREIGN_CALL, node, given.all, name, lost=tuple(getattr(node, "args", ())))
        return Value(Kind.UNKNOWN, lost=lost, ref=Foreign(name), node=node)

    def call_Foreign(self, value: Value, ref: Foreign, given: Arguments, node: ast.AST) -> Value:
        return self.foreign(ref.name, given, node).with_(
            lost=self.cut(How.FOREIGN_CALL, node, given.all, ref.name) | value.lost
        )

    def copied(self, value: Value, node: ast.AST) -> Value:
        """A shallow copy: an object with attributes of its own that hold the same values."""
        kept = value.ref
        if not isinstance(kept, Instance) or kept.cls is None or kept.cls.derives("Model", "Layer", "Sequential"):
            return value
        made = Instance(kept.label, self.spot(node), cls=kept.cls, attrs=dict(kept.attrs), written=kept.written)
        return Value(Kind.OBJECT, ref=made, node=node)

    def copied_deeply(self, value: Value, node: ast.AST) -> Value:
        """A copy of an object or layer with weights of its own, those of the original to begin with."""
        made: dict[Any, Any] = {}

        def copy_of(one: Value) -> Value:
            ref = one.ref
            if one.alts or not isinstance(ref, (Instance, Layer, Var, Sequence, Mapping)):
                return one
            if ref not in made:
                made[ref] = replace(ref, spot=self.spot(node), given=True) if isinstance(ref, Source) else replace(ref)
                fill(made[ref])
            return one.with_(ref=made[ref])

        def fill(copy: Any) -> None:
            if isinstance(copy, Instance):
                copy.attrs = {name: copy_of(part) for name, part in copy.attrs.items()}
            elif isinstance(copy, Layer):
                copy.children = [copy_of(part) for part in copy.children]
            elif isinstance(copy, Sequence):
                copy.items = [copy_of(part) for part in copy.items] if copy.items is not None else None
                copy.rest = copy_of(copy.rest) if copy.rest is not None else None
            elif isinstance(copy, Mapping):
                copy.items = {key: copy_of(part) for key, part in copy.items.items()}

        return copy_of(value)

    def call_python_library(self, name: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        if name == "functools.partial" and given.args:
            return Value(Kind.OBJECT, ref=Bound(given.args[0], tuple(given.args[1:]), given.keywords))
        if name in ("functools.lru_cache", "functools.cache"):
            if given.args and isinstance(given.args[0].ref, Function):
                given.args[0].ref.kept = {}
                return given.args[0]
            return api_value(name)
        if name in ("functools.wraps", "contextlib.contextmanager"):
            return Value(Kind.OBJECT)
        if name == "functools.reduce" and len(given.args) >= 2:
            element = self.element(given.args[1], node)
            start = given.args[2] if len(given.args) > 2 else element
            return join(start, self.call(given.args[0], Arguments([start, element], {}), node))
        if name in ("copy.copy", "copy.deepcopy") and given.args:
            return self.copied(given.args[0], node) if tail == "copy" else self.copied_deeply(given.args[0], node)
        if name in ("collections.deque", "collections.OrderedDict", "collections.defaultdict", "collections.Counter"):
            if tail == "deque":
                return self._as_sequence(given, "list") if given.args else Value(Kind.CONTAINER, ref=Sequence("list"))
            if tail == "defaultdict" and given.args:
                return Value(Kind.CONTAINER, ref=Mapping(rest=self.call(given.args[0], Arguments([], {}), node)))
            return self.builtin_dict(given, node)
        if name == "collections.namedtuple":
            return Value(Kind.OBJECT, ref=Api("tapefix.namedtuple"))
        if name == "tapefix.namedtuple":
            return Value(Kind.CONTAINER, ref=Sequence("tuple", [*given.args, *given.keywords.values()]))
        if name == "tapefix.namedtuple._make":
            return self._as_sequence(given, "tuple")
        if name == "dataclasses.field":
            factory = given.keywords.get("default_factory")
            return (
                self.call(factory, Arguments([], {}), node)
                if factory is not None
                else given.keywords.get("default", UNKNOWN)
            )
        if name.startswith("inspect."):
            return UNKNOWN
        if name in ("itertools.chain", "itertools.chain.from_iterable") and given.args:
            return self.chained(given.args if tail == "chain" else self.iterate_items(given.args[0]))
        if name.startswith("itertools."):
            items = [self.element(v, node) for v in given.args if v.refs or v.kind & NUMERIC]
            return Value(Kind.CONTAINER, ref=Sequence("list", None, join_all(items) if items else UNKNOWN))
        if name.startswith(("random.", "secrets.")):
            if given.args and tail in ("choice", "sample", "choices"):
                element = self.element(given.args[0], node)
                return element if tail == "choice" else Value(Kind.CONTAINER, ref=Sequence("list", None, element))
            return Value(Kind.ARRAY)
        if name.startswith("operator."):
            return self.carry(node, given.all, join_all(given.all).kind if given.all else Kind.UNKNOWN)
        if name in ("json.dump", "json.dumps") and given.args and self.whole(given.args[0]).kind & Kind.TENSOR:
            self.misuse(node, "json")
        if name.startswith(("os.", "sys.", "time.", "logging.", "argparse.", "json.", "re.", "pathlib.", "warnings.")):
            return Value(Kind.NUMBER) if name.startswith(("os.", "time.", "re.")) else Value(Kind.OBJECT | Kind.UNKNOWN)
        return self.call_unknown(UNKNOWN, given, node)

    def chained(self, parts: list[Value]) -> Value:
        """One list after the other."""
        sequence = Sequence("list")
        for part in parts:
            for item in self.iterate_items(part):
                sequence.add(item)
        if not all(isinstance(part.ref, Sequence) and part.ref.items is not None for part in parts):
            sequence.forget()
        return Value(Kind.CONTAINER, ref=sequence)

    def away(
        self, how: How, node: ast.AST, values: list[Value], detail: str, kind: int = Kind.ARRAY, weak: bool = False
    ) -> Value:
        """The result of something outside TensorFlow: a value without a gradient."""
        lost = self.cut(how, node, values, detail, weak=weak, lost=tuple(getattr(node, "args", ())))
        return Value(kind, lost=lost, node=node)

    def call_probability(self, tail: str, given: Arguments, node: ast.AST) -> Value:
        if tail[:1].isupper():
            parameters = self.whole(Value(Kind.CONTAINER, ref=Sequence("tuple", given.all)))
            nested = [v.ref for v in given.all if isinstance(v.ref, Distribution)]
            live = self.live_of(parameters, *[d.parameters for d in nested])
            lost = self.lost_of(parameters, *[d.parameters for d in nested])
            fine = tail not in ops.UNREPARAMETERISED and all(d.reparameterised for d in nested)
            return Value(Kind.OBJECT, ref=Distribution(Value(Kind.TENSOR, live, lost), fine), node=node)
        return self.call_unknown(UNKNOWN, given, node)

    # provided by the Keras part
    def call_keras(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        raise NotImplementedError
