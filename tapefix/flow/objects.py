"""The objects that abstract values refer to: functions, classes, layers, Variables, containers, arrays."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tapefix.flow.facts import Buffer
from tapefix.flow.syntax import children
from tapefix.flow.values import NO_DEPS, NO_LOST, Dep, Kind, Lost, Source, Value, join, join_all

#: libraries whose modules and models TensorFlow's tape knows nothing of
_OTHERS = (
    "torch.",
    "torch_geometric.",
    "pytorch_lightning.",
    "jax.",
    "flax.",
    "haiku.",
    "paddle.",
    "mxnet.",
    "chainer.",
)


@dataclass(eq=False)
class Api:
    """Something of a library, by its full dotted name: `tensorflow.reduce_mean`."""

    name: str


@functools.lru_cache(maxsize=20_000)
def api_value(name: str) -> Value:
    """The one value that stands for a library's name."""
    return Value(Kind.OBJECT, ref=Api(name))


@dataclass(eq=False)
class Foreign:
    """An object of another library, or one of its methods: whatever it is given leaves TensorFlow."""

    name: str


@dataclass(eq=False)
class Imported:
    """A name of another module of the repository, which is read when the name is first used."""

    document: Any  # documents.Document
    module: str
    level: int
    name: str  # "" for the module itself


@dataclass(eq=False)
class Method:
    """A method of a value that no class of the program defines: `x.numpy`."""

    receiver: Value
    name: str
    node: ast.AST

    def is_like(self, other: Method) -> bool:
        return self.name == other.name


@dataclass(eq=False)
class Function:
    """A function, method or lambda of the program with the scope it was made in."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Any  # interpreter.Scope
    owner: ClassObject | None = None
    defaults: dict[str, Value] = field(default_factory=dict)
    graph: bool = False  # compiled by tf.function
    kind: str = ""  # "property", "static", "class", "custom_gradient"

    @functools.cached_property
    def is_generator(self) -> bool:
        text = self.scope.module.document.rows_from(self.node.lineno, self.node.end_lineno or self.node.lineno)
        return "yield" in text and any(  # walking every function is dear
            isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(self.node)
        )

    runs: int = 0
    last: Value | None = None  # what its last run gave
    wraps: Function | None = None  # what a decorator of the program made it of
    kept: dict[tuple[Any, ...], Value] | None = None  # functools.cache: what it gave, by what it was given


def own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions within it."""
    todo: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += children(node)


@dataclass(eq=False)
class Generator:
    """A call of a generator function, whose body runs where its elements are asked for."""

    function: Function
    args: tuple[Value, ...]
    keywords: dict[str, Value]
    given: dict[tuple[Any, ...], Value] = field(default_factory=dict)  # by the tapes that ran, and what was stored


@dataclass(eq=False)
class Bound:
    """A function with its first argument, or with arguments filled in by functools.partial."""

    function: Value
    args: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)

    def is_like(self, other: Bound) -> bool:
        return self.function.ref is other.function.ref and self.args == other.args


@dataclass(eq=False)
class ClassObject:
    node: ast.ClassDef
    scope: Any
    bases: list[Any]  # ClassObject | Api
    members: dict[str, Value] = field(default_factory=dict)
    fields: list[str] = field(default_factory=list)  # annotated names: dataclass and NamedTuple fields
    _tails: frozenset[str] | None = None

    def mro(self) -> Iterator[ClassObject]:
        yield self
        for base in self.bases:
            if isinstance(base, ClassObject):
                yield from base.mro()

    def library_bases(self) -> list[str]:
        names: list[str] = []
        for cls in self.mro():
            names += [base.name for base in cls.bases if isinstance(base, Api) and not base.name.startswith(_OTHERS)]
        return names

    def find(self, name: str) -> tuple[ClassObject, Value] | None:
        for cls in self.mro():
            if name in cls.members:
                return cls, cls.members[name]
        return None

    def derives(self, *tails: str) -> bool:
        """A library base whose last name is one of `tails`."""
        if self._tails is None:
            self._tails = frozenset(base.rsplit(".", 1)[-1] for base in self.library_bases())
        return not self._tails.isdisjoint(tails)


@dataclass(eq=False)
class Instance(Source):
    """An object of a class of the program; a layer or model of its own is a source too."""

    cls: ClassObject | None = None
    attrs: dict[str, Value] = field(default_factory=dict)
    written: frozenset[Lost] = NO_LOST  # weights set from computed values
    losses: list[Value] = field(default_factory=list)
    compiled: Value | None = None
    built: bool = False

    def is_keras(self) -> bool:
        return self.cls is not None and self.cls.derives(
            "Model", "Layer", "Sequential", "Module", "AbstractRNNCell", "Functional", "Wrapper", "Loss", "Dense"
        )


@dataclass(eq=False)
class Layer(Source):
    """A Keras layer or model that the library provides, or a parameter that is used like one."""

    api: str = ""
    children: list[Value] = field(default_factory=list)
    weights: bool = True
    template: Value | None = None  # functional model: what its outputs depend on
    function: Value | None = None  # Lambda
    written: frozenset[Lost] = NO_LOST
    compiled: Value | None = None
    opaque: bool = False  # an unknown object: it may be no model at all
    parameter: bool = False  # handed over by a caller that can't be seen
    lazy: bool = False  # its weights are made when it is first called


@dataclass(eq=False)
class Slice:
    """A slice of a Variable, which can be assigned to."""

    variable: Value


@dataclass(eq=False)
class Weights:
    """`model.trainable_variables` and its kin: the weights of an owner, as a sequence."""

    owner: Any  # Layer | Instance
    which: str
    node: ast.AST | None = None  # where they are listed
    early: bool = False  # listed before there were any
    chosen: frozenset[str] = frozenset()  # the tests and indices that chose the owner, as they are written


@dataclass(eq=False)
class WeightOf(Source):
    """One of an owner's weights, taken out of the sequence."""

    owner: Any = None
    which: str = "trainable_variables"
    node: ast.AST | None = None
    early: bool = False
    chosen: frozenset[str] = frozenset()


@dataclass(eq=False)
class Array:
    """A NumPy array that can be written into."""

    buffer: Buffer
    lost: frozenset[Lost] = NO_LOST


@dataclass(eq=False)
class Sequence:
    """A list, tuple, set or iterator. `items` are its elements in order while these are known."""

    type: str = "list"
    items: list[Value] | None = field(default_factory=list)
    rest: Value | None = None
    each: frozenset[Dep] = NO_DEPS  # what is known to have gone into every element

    def element(self) -> Value:
        """Any element."""
        values = list(self.items or [])
        if self.rest is not None:
            values.append(self.rest)
        return join_all(values) if values else Value(Kind.UNKNOWN)

    def add(self, value: Value) -> None:
        if self.items is not None and len(self.items) < 24:
            self.items.append(value)
        else:
            self.forget()
            self.rest = value if self.rest is None else join(self.rest, value)

    def forget(self) -> None:
        """The order and number of elements is no longer known."""
        if self.items:
            known = join_all(self.items)
            self.rest = known if self.rest is None else join(self.rest, known)
        self.items = None


@dataclass(eq=False)
class Mapping:
    items: dict[Any, Value] = field(default_factory=dict)
    rest: Value | None = None

    def element(self) -> Value:
        values = list(self.items.values()) + ([self.rest] if self.rest is not None else [])
        return join_all(values) if values else Value(Kind.UNKNOWN)


@dataclass(eq=False)
class Dataset:
    element: Value


@dataclass(eq=False)
class TensorArray:
    element: Value | None = None


@dataclass(eq=False)
class Distribution:
    """A probability distribution object: drawing from it keeps the gradient only where it is reparameterised."""

    parameters: Value
    reparameterised: bool


def parts_of(value: Value, depth: int = 6) -> Iterator[Value]:
    """The value and, for containers, everything inside."""
    yield value
    if depth == 0 or (value.ref is None and not value.alts):
        return
    for ref in value.refs:
        if isinstance(ref, Sequence):
            for item in [*(ref.items or []), *([ref.rest] if ref.rest is not None else [])]:
                if item is not value:
                    yield from parts_of(item, depth - 1)
        elif isinstance(ref, Mapping):
            for item in [*ref.items.values(), *([ref.rest] if ref.rest is not None else [])]:
                if item is not value:
                    yield from parts_of(item, depth - 1)


def flat(value: Value) -> Value:
    """A container's dependencies as those of one value."""
    if not value.alts:
        if not isinstance(value.ref, (Sequence, Mapping)):
            return value
    elif not any(isinstance(ref, (Sequence, Mapping)) for ref in value.refs):
        return value
    live, lost, kind = value.live, value.lost, Kind.NOTHING
    for part in parts_of(value):
        live, lost = live | part.live, lost | part.lost
        if not any(isinstance(ref, (Sequence, Mapping)) for ref in part.refs):
            kind |= part.kind
    return value.with_(live=live, lost=lost, kind=value.kind | kind)
