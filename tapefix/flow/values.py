"""Abstract values and the objects they refer to.

A value says what is known of one expression: its kind, the sources whose gradient still reaches it (`live`),
the sources whose gradient was lost on the way (`lost`), and the object behind it. Values are immutable and
compared by identity, since a tape watches a value, not a name; objects (containers, instances, Variables,
buffers) are shared and change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tapefix.flow.facts import Buffer, How, Spot


class Kind:
    """What a value can be; several bits where branches meet. Plain integers: `enum.Flag` costs a third of the run."""

    NOTHING: Final = 0
    TENSOR: Final = 1
    VARIABLE: Final = 2
    ARRAY: Final = 4  # NumPy array or NumPy scalar
    NUMBER: Final = 8  # Python number, string, bool, None: no tensor, no container
    SHAPE: Final = 16  # shapes, ranks, dtypes and what is computed from them
    CONTAINER: Final = 32
    OBJECT: Final = 64  # function, class, instance, module, layer, dataset
    UNKNOWN: Final = 128


NUMERIC = Kind.TENSOR | Kind.VARIABLE | Kind.ARRAY


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(eq=False)
class Tape:
    """One run of a `with tf.GradientTape()` block, or Keras's own tape around a model under `fit`."""

    node: ast.AST | None
    label: str = "tape"
    persistent: bool = False
    frames: tuple[Any, ...] = ()  # active where it was opened, outermost first
    watched: dict[int, Dep] = field(default_factory=dict)
    keep: list[Value] = field(default_factory=list)  # watched values, so that their identity stays theirs
    nodes: set[ast.AST] = field(default_factory=set)  # the expressions that made them
    unsure: bool = False  # something was watched of which nothing is known
    strange: bool = False  # something ran under it of which nothing is known
    by_hand: set[Source] | None = None  # with watch_accessed_variables=False: what it was told to watch
    ran: dict[Source, set[ast.AST]] = field(default_factory=dict)  # where sources were read under it
    ended: int = 0  # when its block ended last, on the run's clock; 0 while it is open
    once: bool = False  # surely not persistent: it answers once
    asked: list[Any] = field(default_factory=list)  # the gradient calls since its block was entered
    made: Spot | None = None
    entered: ast.AST | None = None  # the `with` that opened it last


#: recorded by whatever tape runs when a functional model is called
ANY_TAPE = Tape(None, "any")


@dataclass(eq=False)
class Source:
    """What can be a source of a gradient: a Variable, a layer's or model's weights, a watched tensor."""

    label: str
    spot: Spot | None
    assumed: bool = False  # the input of a layer that nobody in the program calls
    frozen: bool = field(default=False, kw_only=True)  # trainable = False
    ready: bool = field(default=False, kw_only=True)  # it was called or built, so that its weights are there
    given: bool = field(default=False, kw_only=True)  # its weights come from elsewhere: loaded, copied, averaged
    made_under: frozenset[Tape] = field(default=frozenset(), kw_only=True)  # the tapes that ran when it was made
    several: bool = field(default=False, kw_only=True)  # made in a loop: it may stand for several
    holder: Source | None = field(default=None, kw_only=True)  # the model or object that it was put into


@dataclass(frozen=True, slots=True)
class Left:
    """From here on a tape does not record what is made of a value: its block has ended, or it was told to stop."""

    tape: Tape
    how: How
    spot: Spot
    trail: tuple[tuple[Any, Spot], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Dep:
    """The gradient of `source` still flows, for the tapes that recorded every step so far."""

    source: Source
    tapes: frozenset[Tape]
    spot: Spot
    conditional: bool = False  # only one of two branches uses the source
    #: the frames that were active at the read and their statements, outermost first
    trail: tuple[tuple[Any, Spot], ...] = field(default=(), compare=False)
    #: where tapes that had recorded it so far, or were told to stop, let go of it
    left: tuple[Left, ...] = ()
    when: int = field(default=0, compare=False)  # the read, on the run's clock
    #: it is a term made of a derivative alone, such as a penalty: where that was taken
    derived: Left | None = field(default=None, compare=False)
    #: a weight was read by itself, as for a penalty; not by calling the layer that has it
    alone: bool = False
    #: a gradient has gone into it, as into an optimizer's step
    stepped: bool = False

    def __hash__(self) -> int:
        return hash((self.source, self.spot.node))


@dataclass(eq=False)
class CutSite:
    """One place and manner of losing a gradient, whoever passes through it."""

    how: How
    spot: Spot
    detail: str = ""
    buffer: Buffer | None = None
    variable: Source | None = None  # the Variable that was written
    lost: tuple[ast.expr, ...] = ()
    followers: list[Spot] = field(default_factory=list)
    #: writes: what held each time (see `Core.holding`)
    holding: dict[Any, Any] | None = None
    #: a rounding that was taken off the value it was made of: what is left is a fraction
    fraction: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The gradient of `source` was lost at `site`. A weak loss (an index, a mask, a detached factor, a target)
    is only a cut when the source has no other way."""

    site: CutSite
    source: Source
    tapes: frozenset[Tape]
    weak: bool = False
    direct: bool = False  # a trained Variable itself is the threshold or index: nobody means it to be a constant
    choice: bool = False  # what a branch on data or chance leaves out: a cut where nothing else uses the source
    past: frozenset[int] = field(default=frozenset(), compare=False)  # the named values that it came from
    scale: bool = False  # taken out of the very value that it is then subtracted from, or divides
    alone: bool = False  # stopped, and a term of the loss by itself or the input of trained layers: no mere goal
    aside: bool = False  # weak only since a factor that it meets carries: taken to be detached on purpose

    def __hash__(self) -> int:
        return hash((self.site, self.source, self.weak))

    def weakened(self) -> Lost:
        stored = self.site.how is How.VARIABLE_WRITE and isinstance(self.source, Var)
        if self.weak or self.direct or stored or self.site.how is How.VARIABLE_MADE:
            return self  # nobody makes a Variable of a value, or stores a trained one, in order to detach it
        return Lost(self.site, self.source, self.tapes, True, False, self.choice, self.past)


NO_DEPS: frozenset[Dep] = frozenset()
NO_LOST: frozenset[Lost] = frozenset()


@dataclass(eq=False)
class Var(Source):
    """A tf.Variable, or a weight made by add_weight."""

    stored: frozenset[Lost] = NO_LOST
    buffer: Buffer | None = None
    trainable: bool = True
    integer: bool = False
    read_as_float: bool = False  # cast to a float where it is used
    counts: bool = False  # given integers: a counter


class Value:
    """See the module's docstring. `dtype` is "float", "int", "bool" or "" (unknown); `reduced` marks a scalar term;
    `past` tells the named values it was made of, `near` the last named ones."""

    __slots__ = ("alts", "const", "dtype", "kind", "live", "lost", "near", "node", "past", "reduced", "ref")

    def __init__(
        self,
        kind: int = Kind.UNKNOWN,
        live: frozenset[Dep] = NO_DEPS,
        lost: frozenset[Lost] = NO_LOST,
        ref: Any = None,
        const: Any = MISSING,
        dtype: str = "",
        node: ast.AST | None = None,
        alts: tuple[Value, ...] = (),
        reduced: bool = False,
        near: frozenset[int] = frozenset(),
        past: frozenset[int] = frozenset(),
    ):
        self.kind, self.live, self.lost, self.ref, self.const = kind, live, lost, ref, const
        self.dtype, self.node, self.alts, self.reduced = dtype, node, alts, reduced
        self.near, self.past = near, past

    def __repr__(self) -> str:
        ref = f" {type(self.ref).__name__}" if self.ref is not None else ""
        live, lost = [d.source.label for d in self.live], [x.site.how.value for x in self.lost]
        return f"<{self.kind}{ref} live={live} lost={lost}>"

    @property
    def tainted(self) -> bool:
        return bool(self.live or self.lost)

    @property
    def refs(self) -> list[Any]:
        """The objects this value may stand for."""
        found = [self.ref] if self.ref is not None else []
        if not self.alts:
            return found
        for alt in self.alts:
            found += [ref for ref in alt.refs if ref not in found]
        return found

    def with_(self, **changes: Any) -> Value:
        fields = {name: getattr(self, name) for name in Value.__slots__}
        fields.update(changes)
        return Value(**fields)


UNKNOWN = Value()
NONE = Value(Kind.NUMBER, const=None)
NUMBER = Value(Kind.NUMBER)
MOST_ALTERNATIVES = 6


def is_numeral(value: Value) -> bool:
    """A Python number or truth value that is written out."""
    return value.kind == Kind.NUMBER and isinstance(value.const, (int, float))


def join(first: Value, second: Value) -> Value:
    """What is known where two ways meet."""
    if first is second:
        return first
    if first.kind == Kind.NOTHING:
        return second
    if second.kind == Kind.NOTHING:
        return first
    same_ref = first.ref is second.ref
    alts: tuple[Value, ...] = ()
    if first.alts or second.alts:
        alts = _alternatives(first, second)
    elif not same_ref:
        alts = (first, second)
    return Value(
        first.kind | second.kind,
        first.live | second.live if second.live is not first.live else first.live,
        first.lost | second.lost if second.lost is not first.lost else first.lost,
        first.ref if same_ref else None,
        first.const if _same_const(first.const, second.const) else MISSING,
        first.dtype if first.dtype == second.dtype else "",
        first.node,
        alts,
        first.reduced and second.reduced,
        first.near | second.near if second.near is not first.near else first.near,
        first.past | second.past if second.past is not first.past else first.past,
    )


def _alternatives(first: Value, second: Value) -> tuple[Value, ...]:
    if len(first.alts) >= MOST_ALTERNATIVES:
        return first.alts
    parts: list[Value] = []
    for value in (first, second):
        for part in value.alts or (value,):
            if not any(part is p or (part.ref is not None and part.ref is p.ref) for p in parts):
                parts.append(part)
    return tuple(parts[:MOST_ALTERNATIVES]) if len(parts) > 1 else ()


def covers(known: Value, value: Value) -> bool:
    """Joining `value` to what is known would tell nothing new."""
    return (
        (known.ref is value.ref or _alike(known.ref, value.ref))
        and not known.kind ^ (known.kind | value.kind)
        and known.dtype == value.dtype
        and (not value.alts or value.alts is known.alts or len(known.alts) >= MOST_ALTERNATIVES)
        and value.live <= known.live
        and value.lost <= known.lost
        and (known.const is MISSING or _same_const(known.const, value.const))
        and (value.reduced or not known.reduced)
    )


def _alike(a: Any, b: Any) -> bool:
    """A method taken from an object anew is the same method."""
    return type(a) is type(b) and hasattr(a, "is_like") and bool(a.is_like(b))


def _same_const(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and a == b)


def join_all(values: Iterable[Value]) -> Value:
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def same(first: Value, second: Value) -> bool:
    """Nothing new is known in `second`."""
    return first is second or (
        first.kind == second.kind
        and first.live == second.live
        and first.lost == second.lost
        and first.ref is second.ref
        and _same_const(first.const, second.const)
        and len(first.alts) == len(second.alts)
    )
