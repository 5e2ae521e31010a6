"""State of a run, and what becomes of gradients: the ground on which the other parts stand."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tapefix.flow.facts import How, Spot
from tapefix.flow.interpreter.guards import begins, evaluates, flags_of, is_settled, rebound_names
from tapefix.flow.objects import (
    Array,
    Function,
    Generator,
    Imported,
    Instance,
    Mapping,
    Sequence,
    WeightOf,
    flat,
    parts_of,
)
from tapefix.flow.scope import ModuleState, Scope
from tapefix.flow.values import (
    ANY_TAPE,
    NO_DEPS,
    NO_LOST,
    UNKNOWN,
    CutSite,
    Dep,
    Kind,
    Left,
    Lost,
    Source,
    Tape,
    Value,
    Var,
    covers,
    join,
    join_all,
)

BUILTINS = frozenset(dir(builtins))


#: ways of losing a gradient whose result is there to choose by
CHOOSING = frozenset({How.COMPARED, How.ROUNDED, How.INTEGER_CAST, How.INDEX_OF, How.SAMPLED, How.COUNTED})


#: the mark of a way on which nothing is trained
EVALUATING = "nothing is trained"
#: the mark of a way on which something gets its first values
BEGINNING = "first values"

#: what a value may stand for that has a gradient, or has lost one, by itself
_HOLDING = frozenset({Var, WeightOf, Array, Sequence, Mapping})


class BudgetSpent(Exception):
    """The program is too large to follow further; what was found so far stands."""


class Handlers(dict[type, Any]):
    """How an object handles each type of node: its method `run_If`, `eval_Call`, ..., or None."""

    def __init__(self, owner: object, prefix: str) -> None:
        super().__init__()
        self.owner, self.prefix = owner, prefix

    def __missing__(self, node: type) -> Any:
        method = self[node] = getattr(self.owner, self.prefix + node.__name__, None)
        return method


@dataclass(eq=False)
class PredicatedReturn:
    """Returns that a test chose between: their indices in the frame's list of returns."""

    test: ast.expr
    lost: frozenset[Lost]
    start: int
    middle: int
    end: int
    taken: list[Any] | None = None  # in a loop: the containers that it takes its parts from
    loop_start: int = 0  # the first return in that loop


@dataclass(eq=False)
class Jump:
    """A `continue` or `break` below a test on values: what the loop does after it is chosen by the test."""

    test: ast.expr
    lost: frozenset[Lost]
    before: dict[str, Value]
    leaves: bool


@dataclass(eq=False)
class Frame:
    function: Function | None
    scope: Scope
    graph: bool = False
    returns: list[Value] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)
    predicated: list[PredicatedReturn] = field(default_factory=list)
    exits: list[dict[str, Value]] = field(default_factory=list)
    taken: list[Any] = field(default_factory=list)  # the containers that the loop has taken parts from so far
    loop_start: int = 0  # how many returns there were before the loop
    jumps: list[Jump] = field(default_factory=list)
    #: what holds here: a flag of the function, or which way one run of a branch goes
    guards: dict[Any, Any] = field(default_factory=dict)
    return_guards: list[dict[Any, Any]] = field(default_factory=list)
    branch_depth: int = 0
    loop_depth: int = 0
    self_value: Value | None = None
    statement: ast.stmt | None = None


def head_of(statement: ast.AST) -> ast.AST:
    """A statement, or the expression at the head of a compound one."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return statement.iter
    if isinstance(statement, (ast.If, ast.While)):
        return statement.test
    return statement.items[0].context_expr if isinstance(statement, (ast.With, ast.AsyncWith)) else statement


def underived(live: frozenset[Dep]) -> frozenset[Dep]:
    """A derivative that weighs something else, or is put into a model, is a number there and no term."""
    if not any(dep.derived for dep in live):
        return live
    return frozenset(replace(dep, derived=None) if dep.derived else dep for dep in live)


@dataclass(eq=False)
class Stopped:
    """`tape.stop_recording()`, and the frame in which its block is."""

    tape: Tape
    frame: Frame

    def statement(self) -> Spot:
        """The statement of the block that runs now."""
        function, statement = self.frame.function, self.frame.statement
        node = head_of(statement) if statement is not None else ast.Pass()
        return Spot(self.frame.scope.module.filename, node, function.node if function else None)


class Core:
    """State and helpers that every part of the interpreter uses."""

    def __init__(self, budget: int = 120_000) -> None:
        self.tapes: list[Tape] = []
        self.stopped: list[Stopped] = []  # told not to record
        self.leaving = How.AFTER_TAPE  # in what manner a value goes on that a tape does not record any more
        self.clock = 1
        self.frames: list[Frame] = []
        self.statement: ast.stmt = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
        self.budget = budget
        self.sites: dict[tuple[How, int], CutSite] = {}
        self.seen: dict[ast.AST, Value] = {}
        self.branch_log: list[list[tuple[Any, Value]]] = []
        self.gave_up = False  # a call was not followed: what it reads is not known
        self.stores = 0  # how often something was stored whose gradient was lost: what is read next is not the same
        self.named: dict[int, Value] = {}
        self.loop_names: dict[ast.AST | None, frozenset[str]] = {}
        self.flags: dict[tuple[ast.AST | None, ast.expr, bool], dict[Any, Any]] = {}  # what a test tells
        self.marks: dict[tuple[ast.expr, bool], tuple[bool, bool]] = {}  # it evaluates, it begins
        #: callables that a test on data may have left out, by their identity: the tag comes when they are called
        self.left_out: dict[int, tuple[Value, ast.expr, frozenset[Lost]]] = {}
        self.sieves: list[tuple[ast.expr, frozenset[Lost]]] = []
        self.evaluators, self.runners = Handlers(self, "eval_"), Handlers(self, "run_")
        self.attributes, self.callers = Handlers(self, "attribute_of_"), Handlers(self, "call_")

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def scope(self) -> Scope:
        return self.frames[-1].scope

    @property
    def module(self) -> ModuleState:
        return self.frames[-1].scope.module

    def spot(self, node: ast.AST) -> Spot:
        function = self.frame.function
        return Spot(self.module.filename, node, function.node if function else None)

    def spend(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise BudgetSpent

    def text(self, node: ast.AST) -> str:
        try:
            return ast.unparse(node)
        except Exception:
            return "?"

    def live_of(self, *values: Value) -> frozenset[Dep]:
        """The dependencies that survive one more operation under the tapes that record now."""
        watching = any(tape.watched for tape in self.tapes)
        carried = [value for value in map(self.whole, values) if value.live]
        if not carried and not watching:
            return NO_DEPS
        found: set[Dep] = set()
        active = frozenset(self.tapes)
        for whole in carried:
            for dep in whole.live:
                if ANY_TAPE in dep.tapes:
                    found.add(replace(dep, tapes=active | {ANY_TAPE}) if active else dep)
                elif dep.tapes <= active:
                    found.add(dep)
                else:
                    left = dep.left + self.left_by(dep.tapes - active)
                    found.add(replace(dep, tapes=dep.tapes & active, left=left))
        if watching:
            for tape in self.tapes:
                for value in values if tape.watched else ():
                    for part in parts_of(value):
                        dep_ = tape.watched.get(id(part))
                        if dep_ is not None:
                            found.add(Dep(dep_.source, frozenset({tape}), dep_.spot))
        return frozenset(found)

    def live_in(self, value: Value) -> frozenset[Dep]:
        """The dependencies of a part: taking it is an operation on a tensor, and none on what may be a container."""
        return self.whole(value).live if value.kind & Kind.UNKNOWN else self.live_of(value)

    def read_source(self, source: Source, node: ast.AST, alone: bool = False) -> frozenset[Dep]:
        left = self.left_by([one.tape for one in self.stopped]) if self.stopped else ()
        for tape in self.tapes:
            tape.ran.setdefault(source, set()).add(node)
        tapes, trail = frozenset(self.tapes), self.trail()
        return frozenset({Dep(source, tapes, self.spot(node), False, trail, left, self.clock, alone=alone)})

    def left_by(self, tapes: Iterable[Tape]) -> tuple[Left, ...]:
        """These tapes do not record the statement that runs now."""
        stopped = {one.tape: one for one in self.stopped}
        spot, trail = self.spot(head_of(self.statement)), self.trail()
        return tuple(
            Left(tape, How.NOT_RECORDED, stopped[tape].statement())
            if tape in stopped
            else Left(tape, self.leaving, spot, trail)
            for tape in tapes
        )

    def whole(self, value: Value) -> Value:
        """A value with what its parts depend on, Variables and buffers being read now."""
        if value.ref is None and not value.alts:
            return value
        if not value.alts and type(value.ref) not in _HOLDING:
            return value
        merged = flat(value)
        live, lost = merged.live, merged.lost
        for part in parts_of(value):
            for leaf in part.alts or (part,):
                ref = leaf.ref
                if isinstance(ref, Var):
                    if not ref.integer and ref.trainable:
                        live = live | self.read_source(ref, value.node or self.statement)
                    lost = lost | self.reachable(ref.stored)
                elif isinstance(ref, WeightOf):
                    live = live | self.read_source(ref.owner, value.node or self.statement, alone=True)
                    lost = lost | getattr(ref.owner, "written", NO_LOST)
                elif isinstance(ref, Array):
                    lost = lost | ref.lost
        if live is merged.live and lost is merged.lost:
            return merged
        return merged.with_(live=live, lost=lost)

    # ---- what holds

    def guards_of(self, test: ast.expr | None, value: Value, holds: bool) -> dict[Any, Any]:
        """The flags that are known where a test has the outcome `holds`."""
        if test is None or value.tainted or not self.module.writes:
            return {}
        function = self.frame.function.node if self.frame.function else None
        known = self.flags.get((function, test, holds))
        if known is None:
            told = dict(flags_of(test, holds))
            if told and function not in self.loop_names:
                self.loop_names[function] = rebound_names(function)
            known = {(function, text): b for text, b in told.items() if is_settled(text, self.loop_names[function])}
            self.flags[function, test, holds] = known
        return known

    def judging(self, test: ast.expr, value: Value, holds: bool, guards: dict[Any, Any]) -> dict[Any, Any]:
        """What holds on one way of a test; with a mark where a flag that is not known tells that nothing is trained."""
        told = self.marks.get((test, holds))
        if told is None:
            told = self.marks[test, holds] = evaluates(test, holds), begins(test)
        evaluating, beginning = told
        if evaluating and not (value.tainted and isinstance(test, ast.Name)):
            return {**guards, EVALUATING: True}
        return {**guards, BEGINNING: True} if beginning else guards

    def is_beginning(self) -> bool:
        return any(BEGINNING in frame.guards for frame in self.frames)

    def is_evaluating(self) -> bool:
        return any(EVALUATING in frame.guards for frame in self.frames)

    def holding(self) -> dict[Any, Any]:
        """What holds here, in this function and its callers."""
        held: dict[Any, Any] = {}
        for frame in self.frames:
            if frame.guards:
                held.update(frame.guards)
        return held

    def reachable(self, written: frozenset[Lost], held: dict[Any, Any] | None = None) -> frozenset[Lost]:
        """What was lost by writes, without those that were made only where something else held."""
        if not written:
            return written
        held = self.holding() if held is None else held
        if not held:
            return written

        def elsewhere(there: dict[Any, Any] | None) -> bool:
            return there is not None and any(key in held and held[key] != truth for key, truth in there.items())

        return frozenset(x for x in written if not elsewhere(x.site.holding))

    def settled(self, value: Value, held: dict[Any, Any]) -> Value:
        """A Variable that was taken where `held` holds, as it is there: without what other ways write into it."""
        ref = value.ref
        if value.alts:
            alts = [self.settled(alt, held) for alt in value.alts]
            return value if all(map(operator.is_, alts, value.alts)) else join_all(alts)
        if isinstance(ref, Sequence) and ref.items:
            items = [self.settled(item, held) for item in ref.items]
            return value if all(map(operator.is_, items, ref.items)) else value.with_(ref=Sequence(ref.type, items))
        if not isinstance(ref, Var):
            return value
        kept = self.reachable(ref.stored, held)
        if len(kept) == len(ref.stored):
            return value
        live = self.read_source(ref, value.node or self.statement) if ref.trainable and not ref.integer else NO_DEPS
        return Value(Kind.VARIABLE, value.live | live, value.lost | kept, node=value.node)

    def trail(self) -> tuple[tuple[Any, Spot], ...]:
        return tuple(
            (f, Spot(f.scope.module.filename, f.statement, f.function.node if f.function else None))
            for f in self.frames
            if f.statement is not None
        )

    def site(self, how: How, node: ast.AST, detail: str = "", **more: Any) -> CutSite:
        key = (how, id(node))
        if key not in self.sites:
            self.sites[key] = CutSite(how, self.spot(node), detail, **more)
        return self.sites[key]

    def cut(
        self, how: How, node: ast.AST, values: Iterable[Value], detail: str = "", weak: bool = False, **more: Any
    ) -> frozenset[Lost]:
        """What is lost when the values go on from here without their gradient, with what they had lost before."""
        values = list(values)
        lost = self.lost_of(*values)
        live = self.live_of(*values)
        if not live or self.is_evaluating():
            return frozenset(x.weakened() for x in lost) if weak else lost
        site = self.site(how, node, detail, **more)
        past = frozenset().union(*(v.past for v in values))
        direct: set[Source] = set()
        if how in (How.COMPARED, How.INTEGER_CAST, How.ROUNDED, How.CONSTANT):
            direct = {v.ref for v in values if isinstance(v.ref, Var) and v.ref.trainable}
        mine = frozenset(Lost(site, dep.source, dep.tapes, weak, dep.source in direct, False, past) for dep in live)
        return mine | (frozenset(x.weakened() for x in lost) if weak else lost)

    def lost_of(self, *values: Value) -> frozenset[Lost]:
        found = [lost for value in values if (lost := self.whole(value).lost)]
        return frozenset().union(*found) if len(found) > 1 else found[0] if found else NO_LOST

    def detached(self, values: list[Value], same: bool = False) -> list[frozenset[Lost]]:
        """The losses of factors that meet: one that is wholly detached beside one that carries was detached on purpose.

        Not so with `same` (a difference or a quotient) where it was made of the very value that it meets:
        `x - mean(x)` lacks a part of its gradient.
        """
        flats = [self.whole(v) for v in values]
        carries = [bool(v.live) or any(id(p) in t.watched for t in self.tapes for p in parts_of(v)) for v in flats]
        result = []
        for i, value in enumerate(flats):
            others = any(c for j, c in enumerate(carries) if j != i)
            if value.lost and others and not carries[i]:
                near = frozenset().union(*(v.near for j, v in enumerate(values) if j != i)) if same else frozenset()
                # counts and choices are a divisor or weight, no part of the value; so is a number for a term of a loss
                meant = CHOOSING | {How.TO_NUMPY}
                if any(v.reduced for j, v in enumerate(values) if j != i):
                    meant = meant | {How.PYTHON_NUMBER, How.NUMPY_CALL}
                result.append(
                    frozenset(
                        replace(x, scale=x.site.how is How.PYTHON_NUMBER)
                        if near & x.past and x.site.how not in meant
                        else replace(x.weakened(), aside=x.aside or not x.weak)
                        for x in value.lost
                    )
                )
            else:
                result.append(value.lost)
        return result

    def carry(
        self,
        node: ast.AST,
        values: Iterable[Value],
        kind: int = Kind.TENSOR,
        dtype: str = "",
        meet: bool = False,
        same: bool = False,
        sums: bool = False,
    ) -> Value:
        """The result of a differentiable operation."""
        values = list(values)
        live = self.live_of(*values)
        if not sums and len(values) > 1 and sum(bool(self.whole(value).live) for value in values) > 1:
            live = underived(live)
        lost = frozenset().union(*self.detached(values, same)) if meet else self.lost_of(*values)
        near, past = self.descent(values)
        return Value(kind, live, lost, dtype=dtype, node=node, near=near, past=past)

    @staticmethod
    def descent(values: Iterable[Value]) -> tuple[frozenset[int], frozenset[int]]:
        """The last named values, and all named values, that something is made of."""
        near: frozenset[int] = frozenset()
        past: frozenset[int] = frozenset()
        for value in values:
            near, past = near | value.near, past | value.past
        return near, past

    def christen(self, value: Value) -> None:
        """A value that carries a gradient gets a name: later values tell that they were made of it."""
        if (value.live or value.lost) and not value.refs and id(value) not in self.named:
            self.named[id(value)] = value
            token = frozenset({len(self.named)})
            value.near, value.past = token, value.past | token

    def note(self, node: ast.AST, value: Value) -> Value:
        """Remembers what was seen at a node, over all contexts."""
        old = self.seen.get(node)
        if old is None:
            self.seen[node] = value
        elif old is not value and not covers(old, value):
            self.seen[node] = join(old, value)
        return value

    def log_mutation(self, container: Any, value: Value) -> None:
        self.stores += bool(value.lost)
        for log in self.branch_log:
            log.append((container, value))

    # ---- provided by the other parts

    def run(self, statements: list[ast.stmt]) -> str | None:
        raise NotImplementedError

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.AST, fresh: bool = False
    ) -> Value:
        raise NotImplementedError

    # provided by the other parts
    def eval(self, node: ast.expr) -> Value:
        raise NotImplementedError

    def find_module(self, name: str, level: int) -> Any:
        """The document of a module of the repository, unread; None for a library's."""
        return None

    def imported(self, ref: Imported) -> Value:
        """Reads the module and gives what was imported from it."""
        return UNKNOWN

    def misuse(self, node: ast.AST, name: str) -> None:
        raise NotImplementedError

    def iterate_instance(self, value: Value, instance: Instance, node: ast.AST) -> Value:
        return UNKNOWN

    def next_of(self, generator: Generator, node: ast.AST) -> Value:
        raise NotImplementedError

    def eval_place(self, node: ast.expr) -> Value:
        """An expression that is about to be written into: not a read of its content."""
        return self.eval(node)

    def eval_index(self, node: ast.expr) -> Value:
        return self.eval(node)

    def decorate(self, decorator: ast.expr, value: Value, function: Function) -> Value:
        raise NotImplementedError

    def combine(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        raise NotImplementedError

    def tag_inside(self, value: Value, tags: frozenset[Lost]) -> Value:
        raise NotImplementedError

    def reach(self, owner: Any) -> set[Source]:
        raise NotImplementedError

    def iterate_items(self, value: Value) -> list[Value]:
        raise NotImplementedError
