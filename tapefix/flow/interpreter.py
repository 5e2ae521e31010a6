"""Abstract interpretation of a program: runs it on values that say where gradients flow.

Functions of the program are entered at each call with the values they get, so that a helper that serves labels here
and predictions there is understood in each place. Loops run until nothing new is known, at most three times;
branches run both ways and meet. A budget keeps the work linear in the size of the file.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tapefix.flow.facts import Buffer, How, Role, Spot, Use
from tapefix.flow.scope import ModuleState, Scope, canonical
from tapefix.flow.values import (
    ANY_TAPE,
    MISSING,
    NO_DEPS,
    NO_LOST,
    NONE,
    NUMERIC,
    UNKNOWN,
    Api,
    Array,
    ClassObject,
    CutSite,
    Dataset,
    Dep,
    Function,
    Imported,
    Instance,
    Kind,
    Lost,
    Mapping,
    Sequence,
    Source,
    Tape,
    Value,
    Var,
    WeightOf,
    Weights,
    api_value,
    covers,
    flat,
    join,
    join_all,
    parts_of,
    same,
)

BUILTINS = frozenset(dir(builtins))
#: ways of losing a gradient whose result is there to choose by
CHOOSING = frozenset({How.COMPARED, How.ROUNDED, How.INTEGER_CAST, How.INDEX_OF, How.SAMPLED, How.COUNTED})
MOST_CALL_DEPTH = 14
MOST_LOOP_PASSES = 2


#: what a value may stand for that has a gradient, or has lost one, by itself
_HOLDING = frozenset({Var, WeightOf, Array, Sequence, Mapping})


class BudgetSpent(Exception):
    """The program is too large to follow further; what was found so far stands."""


class Methods(dict[type, Any]):
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
    jumps: list[Jump] = field(default_factory=list)
    branch_depth: int = 0
    loop_depth: int = 0
    self_value: Value | None = None
    statement: ast.stmt | None = None


class Core:
    """State and helpers that every part of the interpreter uses."""

    def __init__(self, budget: int = 120_000) -> None:
        self.tapes: list[Tape] = []
        self.frames: list[Frame] = []
        self.statement: ast.stmt = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
        self.budget = budget
        self.sites: dict[tuple[How, int], CutSite] = {}
        self.seen: dict[ast.AST, Value] = {}
        self.branch_log: list[list[tuple[Any, Value]]] = []
        self.named: dict[int, Value] = {}
        self.evaluators, self.runners = Methods(self, "eval_"), Methods(self, "run_")
        self.attributes, self.callers = Methods(self, "attribute_of_"), Methods(self, "call_")

    # ---- where are we

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

    # ---- gradients

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
                    found.add(
                        Dep(dep.source, active | {ANY_TAPE}, dep.spot, dep.conditional, dep.trail) if active else dep
                    )
                elif dep.tapes <= active:
                    found.add(dep)
                else:
                    found.add(Dep(dep.source, dep.tapes & active, dep.spot, dep.conditional, dep.trail))
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

    def read_source(self, source: Source, node: ast.AST) -> frozenset[Dep]:
        return frozenset({Dep(source, frozenset(self.tapes), self.spot(node), False, self.trail())})

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
                    lost = lost | ref.stored
                elif isinstance(ref, WeightOf):
                    live = live | self.read_source(ref.owner, value.node or self.statement)
                    lost = lost | getattr(ref.owner, "written", NO_LOST)
                elif isinstance(ref, Array):
                    lost = lost | ref.lost
        if live is merged.live and lost is merged.lost:
            return merged
        return merged.with_(live=live, lost=lost)

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
        if not live:
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
                result.append(
                    frozenset(
                        x if near & x.past and x.site.how is not How.TO_NUMPY else x.weakened() for x in value.lost
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
    ) -> Value:
        """The result of a differentiable operation."""
        values = list(values)
        live = self.live_of(*values)
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
        for log in self.branch_log:
            log.append((container, value))

    # ---- predicates

    @staticmethod
    def surely_tensor(value: Value) -> bool:
        """What a known weight has gone into, and may be a tensor, is one."""
        return bool(value.kind & Kind.TENSOR) and any(not getattr(d.source, "opaque", False) for d in value.live)

    def predicate(self, test: Value, node: ast.expr, how: How) -> tuple[bool, frozenset[Lost]]:
        """Is the test a matter of data, chance or predictions; and what is lost when it only chooses."""
        chosen = any(x.site.how in CHOOSING for x in test.lost)
        if (test.kind & Kind.UNKNOWN and not chosen and not self.surely_tensor(test)) or bool(
            test.kind & Kind.CONTAINER
        ):
            return False, frozenset(x.weakened() for x in self.lost_of(test))  # it may be a flag; whether it is empty
        whole = self.whole(test)
        deps = self.live_of(test)
        indexed = [x for x in whole.lost if x.site.how in (How.INDEX_OF, How.SAMPLED) and how is not How.SELECTION]
        compared = [x for x in whole.lost if x.site.how in (How.COMPARED, How.ROUNDED, How.INTEGER_CAST)]
        direct = isinstance(test.ref, Var) and test.ref.trainable
        sources = {(d.source, d.tapes, direct) for d in deps} | {
            (x.source, x.tapes, x.direct) for x in compared + indexed
        }
        lost = frozenset(x.weakened() for x in whole.lost if x not in compared)
        if sources:
            site = self.site(how, node, self.text(node)[:60], lost=(node,))
            lost |= {Lost(site, source, tapes, not straight, straight) for source, tapes, straight in sources}
        on_data = bool(whole.kind & (Kind.TENSOR | Kind.VARIABLE | Kind.ARRAY)) and not whole.kind & Kind.UNKNOWN
        return on_data or bool(lost), lost

    def exclusive(self, first: Value, second: Value, node: ast.expr, how: How) -> frozenset[Lost]:
        """Sources that only one of two branches uses: what is not chosen gets no gradient in eager mode."""
        a, b = self.live_of(first), self.live_of(second)
        ours, theirs = ({d.source for d in side if not d.conditional} for side in (a, b))
        only = {d for d in a if d.source not in theirs} | {d for d in b if d.source not in ours}
        only = {d for d in only if d.tapes and not d.source.assumed}
        if not only:
            return NO_LOST
        site = self.site(how, node, self.text(node)[:60], lost=(node,))
        return frozenset(Lost(site, d.source, d.tapes, choice=True) for d in only)

    @staticmethod
    def conditioned(value: Value, tags: frozenset[Lost]) -> Value:
        """The value of a choice: sources that only one branch uses are there on a condition."""
        chosen = {x.source for x in tags if x.choice}
        live = frozenset(Dep(d.source, d.tapes, d.spot, True, d.trail) if d.source in chosen else d for d in value.live)
        return value.with_(live=live, lost=value.lost | tags)


class Statements(Core):
    """Runs statements."""

    # provided by the other parts
    def eval(self, node: ast.expr) -> Value:
        raise NotImplementedError

    def truth(self, value: Value) -> bool | None:
        if value.const is not MISSING:
            try:
                return bool(value.const)
            except Exception:
                return None
        if (
            any(isinstance(ref, (Instance, Function, Api, ClassObject)) for ref in value.refs)
            and not value.kind & Kind.UNKNOWN
        ):
            return True if len(value.refs) == 1 and not value.alts else None
        return None

    def run(self, statements: list[ast.stmt]) -> str | None:
        """Runs a block; tells how it ends: None, "return", "raise", "break" or "continue"."""
        for statement in statements:
            self.spend()
            saved = self.statement
            self.statement = statement
            self.frames[-1].statement = statement
            method = self.runners[type(statement)]
            ended = method(statement) if method else None
            self.statement = saved
            if ended:
                return ended  # type: ignore[no-any-return]
        return None

    def run_Expr(self, node: ast.Expr) -> None:
        self.eval(node.value)

    def run_Return(self, node: ast.Return) -> str:
        self.frame.returns.append(self.eval(node.value) if node.value else NONE)
        return "return"

    def run_Raise(self, node: ast.Raise) -> str:
        return "raise"

    def run_Break(self, node: ast.Break) -> str:
        self.frame.exits.append(dict(self.scope.vars))
        return "break"

    def run_Continue(self, node: ast.Continue) -> str:
        self.frame.exits.append(dict(self.scope.vars))
        return "continue"

    def run_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope.vars.pop(target.id, None)

    def run_Global(self, node: ast.Global) -> None:
        self.scope.outer_names.update(node.names)

    def run_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.outer_names.update(node.names)

    def run_Assert(self, node: ast.Assert) -> None:
        self.eval(node.test)

    def run_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            found = self.find_module(alias.name, 0)
            loaded = Value(Kind.OBJECT, ref=Imported(found, alias.name, 0, "")) if found is not None else None
            if alias.asname:
                self.scope.bind(alias.asname, loaded or self.api(alias.name))
            elif loaded is not None and "." not in alias.name:
                self.scope.bind(alias.name, loaded)
            else:
                self.scope.bind(alias.name.split(".")[0], self.api(alias.name.split(".")[0]))

    def run_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        found = self.find_module(module, node.level)
        for alias in node.names:
            if alias.name == "*":
                whole = self.imported(Imported(found, module, node.level, "")) if found is not None else UNKNOWN
                if isinstance(whole.ref, Scope):
                    self.scope.vars.update(whole.ref.vars)
                continue
            if found is not None or node.level:
                value = Value(Kind.OBJECT, ref=Imported(found, module, node.level, alias.name))
            else:
                value = self.api(f"{module}.{alias.name}")
            self.scope.bind(alias.asname or alias.name, value)

    def find_module(self, name: str, level: int) -> Any:
        """The document of a module of the repository, unread; None for a library's."""
        return None

    def imported(self, ref: Imported) -> Value:
        """Reads the module and gives what was imported from it."""
        return UNKNOWN

    @staticmethod
    def api(name: str) -> Value:
        return api_value(canonical(name))

    def run_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = Function(node, self.scope)
        self.bind_defaults(function, node.args)
        value = Value(Kind.OBJECT, ref=function, node=node)
        for decorator in reversed(node.decorator_list):
            value = self.decorate(decorator, value, function)
        self.scope.bind(node.name, value)

    run_AsyncFunctionDef = run_FunctionDef

    def decorate(self, decorator: ast.expr, value: Value, function: Function) -> Value:
        raise NotImplementedError

    def bind_defaults(self, function: Function, args: ast.arguments) -> None:
        positional = [*args.posonlyargs, *args.args]
        for arg, default in zip(positional[len(positional) - len(args.defaults) :], args.defaults):
            function.defaults[arg.arg] = self.eval(default)
        for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults):
            if kw_default is not None:
                function.defaults[arg.arg] = self.eval(kw_default)

    def run_ClassDef(self, node: ast.ClassDef) -> None:
        bases: list[Any] = []
        for base in node.bases:
            for ref in self.eval(base).refs:
                if isinstance(ref, (ClassObject, Api)):
                    bases.append(ref)
        scope = Scope(self.module, self.scope, "class")
        cls = ClassObject(node, scope, bases)
        frame = Frame(self.frame.function, scope, self.frame.graph)
        self.frames.append(frame)
        try:
            self.run(node.body)
        finally:
            self.frames.pop()
        cls.members = scope.vars
        for value in cls.members.values():
            for ref in value.refs:
                if isinstance(ref, Function) and ref.owner is None:
                    ref.owner = cls
        cls.fields = [s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
        self.scope.bind(node.name, Value(Kind.OBJECT, ref=cls, node=node))

    # ---- assignment

    def run_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value, node.value)

    def run_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value), node.value)

    def run_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            self.assign(target, self.combine(node.op, self.eval(target), self.eval(node.value), node), node.value)
            return
        old = self.eval(target)
        new = self.eval(node.value)
        for ref in old.refs:
            if isinstance(ref, Sequence) and isinstance(node.op, ast.Add):
                for item in self.iterate_items(new):
                    ref.add(item)
                    self.log_mutation(ref, item)
                return
            if isinstance(ref, Array):
                self.write_array(ref, target, new, node)
                return
        self.assign(target, self.combine(node.op, old, new, node), node.value)

    def combine(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        raise NotImplementedError

    def iterate_items(self, value: Value) -> list[Value]:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value, origin: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            self.christen(value)
            self.label(value, target.id)
            self.scope.bind(target.id, value)
            self.note(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target.elts, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Value(Kind.CONTAINER, ref=Sequence("list", None, self.element(value, target))))
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self.assign_item(target, value)

    def label(self, value: Value, name: str) -> None:
        for ref in value.refs:
            if isinstance(ref, Source) and not ref.label:
                ref.label = name

    def unpack(self, targets: list[ast.expr], value: Value) -> None:
        ref = value.ref
        items = ref.items if isinstance(ref, Sequence) else None
        if items is not None and len(items) == len(targets) and not any(isinstance(t, ast.Starred) for t in targets):
            for target, item in zip(targets, items):
                self.assign(target, item)
            return
        if value.alts and all(
            isinstance(a.ref, Sequence) and a.ref.items and len(a.ref.items) == len(targets) for a in value.alts
        ):
            for i, target in enumerate(targets):
                self.assign(target, join_all(a.ref.items[i] for a in value.alts))
            return
        for i, target in enumerate(targets):
            if items is not None and i < len(items) and not any(isinstance(t, ast.Starred) for t in targets[: i + 1]):
                self.assign(target, items[i])
            else:
                self.assign(target, self.element(value, target))

    def element(self, value: Value, node: ast.AST) -> Value:
        """One element of whatever can be iterated."""
        found: list[Value] = []
        for ref in value.refs:
            if isinstance(ref, Sequence):
                found.append(ref.element())
            elif isinstance(ref, Mapping):
                found.append(Value(Kind.NUMBER))
            elif isinstance(ref, Dataset):
                found.append(ref.element)
            elif isinstance(ref, Weights):
                found.append(self.weight_of(ref, node))
            elif isinstance(ref, Instance):
                found.append(self.iterate_instance(value, ref, node))
        if found:
            return join_all(found)
        whole = self.refresh(value, node)
        if whole.kind & Kind.SHAPE:
            return Value(Kind.SHAPE)
        kind = whole.kind & (NUMERIC | Kind.UNKNOWN) or Kind.UNKNOWN
        if kind & Kind.VARIABLE:
            kind = (kind & ~Kind.VARIABLE) | Kind.TENSOR
        return Value(
            kind,
            self.live_in(whole),
            self.lost_of(whole),
            dtype=whole.dtype,
            node=node,
            near=value.near,
            past=value.past,
        )

    def weight_of(self, weights: Weights, node: ast.AST) -> Value:
        owner = weights.owner
        if isinstance(owner, Var):
            return self.refresh(Value(Kind.VARIABLE, ref=owner), node)
        return Value(Kind.VARIABLE, ref=WeightOf(owner.label, owner.spot, owner=owner), node=node)

    def iterate_instance(self, value: Value, instance: Instance, node: ast.AST) -> Value:
        return UNKNOWN

    def refresh(self, value: Value, node: ast.AST) -> Value:
        """What reading a Variable or buffer gives now."""
        ref = value.ref
        if isinstance(ref, Array):
            if ref.buffer is not None:
                self.use(ref.buffer, Role.READ, node, bool(ref.lost))
            return value
        if isinstance(ref, Var):
            if ref.buffer is not None:
                self.use(ref.buffer, Role.READ, node, bool(ref.stored))
            return value
        return value

    def use(self, buffer: Any, role: Role, node: ast.AST, carries: bool) -> None:
        if isinstance(node, ast.expr):
            buffer.add(Use(role, self.spot(node), self.statement, carries))

    def assign_attribute(self, target: ast.Attribute, value: Value) -> None:
        owner = self.eval(target.value)
        name = target.attr
        for ref in value.refs:
            if isinstance(ref, Source) and (not ref.label or "." not in ref.label):
                label = self.text(target)
                if not ref.label or label.startswith("self."):
                    ref.label = label
        for ref in owner.refs:
            if isinstance(ref, Instance):
                old = ref.attrs.get(name)
                if old is not None and (self.frame.branch_depth > 0 or len(owner.refs) > 1):
                    ref.attrs[name] = join(old, value)
                else:
                    ref.attrs[name] = value
                self.log_mutation(ref, value)
        self.note(target, value)

    def misuse(self, node: ast.AST, name: str) -> None:
        raise NotImplementedError

    def assign_item(self, target: ast.Subscript, value: Value) -> None:
        owner = self.eval_place(target.value)
        if owner.kind == Kind.ARRAY and owner.ref is None and isinstance(target.value, ast.Name):
            # an array from elsewhere (`data.copy()`): from now on it is written into
            owner = owner.with_(ref=Array(Buffer("numpy", self.spot(owner.node or target.value)), owner.lost))
            self.scope.bind(target.value.id, owner)
        index = self.eval_index(target.slice)
        if owner.kind in (Kind.TENSOR, Kind.VARIABLE) and not owner.refs:
            self.misuse(target, "item")
        for ref in owner.refs:
            if isinstance(ref, Array):
                self.write_array(ref, target.value, value, self.statement, index)
            elif isinstance(ref, Sequence):
                const = index.const
                if (
                    isinstance(const, int)
                    and ref.items is not None
                    and -len(ref.items) <= const < len(ref.items)
                    and not self.frame.branch_depth
                ):
                    ref.items[const] = value
                else:
                    ref.forget()
                    ref.rest = value if ref.rest is None else join(ref.rest, value)
                self.log_mutation(ref, value)
            elif isinstance(ref, Mapping):
                if (
                    index.const is not MISSING
                    and isinstance(index.const, (str, int, float, bool))
                    and not self.frame.branch_depth
                ):
                    ref.items[index.const] = value
                else:
                    ref.rest = value if ref.rest is None else join(ref.rest, value)
                self.log_mutation(ref, value)
        self.note(target, value)

    def eval_place(self, node: ast.expr) -> Value:
        """An expression that is about to be written into: not a read of its content."""
        return self.eval(node)

    def eval_index(self, node: ast.expr) -> Value:
        return self.eval(node)

    def write_array(
        self, array: Array, place: ast.expr, value: Value, node: ast.AST, index: Value | None = None
    ) -> None:
        base: ast.expr = place
        while isinstance(base, ast.Subscript):
            base = base.value
        carries = bool(self.live_of(value))
        self.use(array.buffer, Role.WRITE, base, carries)
        detail = self.text(place) if carries else ""
        lost = self.cut(How.ARRAY_WRITE, node, [value], detail, buffer=array.buffer)
        if lost:
            array.lost = array.lost | lost
            self.log_mutation(array, value)

    # ---- branches and loops

    def run_If(self, node: ast.If) -> str | None:
        test = self.eval(node.test)
        truth = self.truth(test)
        if truth is not None:
            return self.run(node.body if truth else node.orelse)
        on_data, lost = self.predicate(test, node.test, How.PREDICATE)
        return self.branch(
            node.test,
            [(node.body, self.narrow(node.test, True)), (node.orelse, self.narrow(node.test, False))],
            on_data,
            lost,
        )

    def narrow(self, test: ast.expr, holds: bool) -> dict[str, Value]:
        """What a test tells about names: nothing yet but that a name is None."""
        if (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.left, ast.Name)
            and isinstance(test.comparators[0], ast.Constant)
            and test.comparators[0].value is None
        ):
            is_none = isinstance(test.ops[0], ast.Is) == holds
            if is_none and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
                return {test.left.id: NONE}
        return {}

    def branch(
        self,
        test: ast.expr,
        bodies: list[tuple[list[ast.stmt], dict[str, Value]]],
        on_data: bool,
        lost: frozenset[Lost],
        how: How = How.PREDICATE,
    ) -> str | None:
        frame, scope = self.frame, self.scope
        before = scope.vars
        outcomes: list[tuple[str | None, dict[str, Value], list[tuple[Any, Value]]]] = []
        marks = [len(frame.returns)]
        frame.branch_depth += 1
        for body, narrowed in bodies:
            scope.vars = {**before, **narrowed}
            self.branch_log.append([])
            try:
                ended = self.run(body)
            finally:
                log = self.branch_log.pop()
            outcomes.append((ended, scope.vars, log))
            marks.append(len(frame.returns))
        frame.branch_depth -= 1
        if (
            on_data
            and any(ended in ("continue", "break") for ended, _, _ in outcomes)
            and any(ended is None for ended, _, _ in outcomes)
        ):
            broke = any(ended == "break" for ended, _, _ in outcomes)
            frame.jumps.append(Jump(test, lost, dict(before), broke))
        if on_data and marks[-1] > marks[0]:
            frame.predicated.append(PredicatedReturn(test, lost, marks[0], marks[1], marks[-1]))
        going = [(vars_, log) for ended, vars_, log in outcomes if ended is None]
        if not going:
            scope.vars = outcomes[0][1]
            kinds = {ended for ended, _, _ in outcomes}
            return "return" if kinds == {"return"} else outcomes[0][0]
        scope.vars = self.meet([vars_ for vars_, _ in going], before, test, on_data and len(going) > 1, lost, how)
        if on_data:
            self.meet_mutations([log for _, log in going], test, lost, how)
        return None

    def meet(
        self,
        ways: list[dict[str, Value]],
        before: dict[str, Value],
        test: ast.expr,
        chosen: bool,
        lost: frozenset[Lost],
        how: How,
    ) -> dict[str, Value]:
        merged = dict(ways[0])
        for way in ways[1:]:
            merged.update({name: value for name, value in way.items() if name not in merged})
        for name, value in list(merged.items()):
            if all(way.get(name, value) is value for way in ways) and (not chosen or before.get(name) is value):
                continue  # the same on every way
            values = [way[name] for way in ways if name in way]
            value = join_all(values)
            old = before.get(name)
            if chosen and len(values) == len(ways) and any(v is not old for v in values):
                tags = lost
                for other in values[1:]:
                    tags |= self.exclusive(values[0], other, test, how)
                if tags and not isinstance(value.ref, (Function, ClassObject, Api)):
                    value = self.tagged(value, tags)
            merged[name] = value
        return merged

    def tagged(self, value: Value, tags: frozenset[Lost]) -> Value:
        if any(x.choice for x in tags):
            return self.conditioned(value, tags)
        return value.with_(lost=value.lost | tags)

    def meet_mutations(
        self, logs: list[list[tuple[Any, Value]]], test: ast.expr, lost: frozenset[Lost], how: How
    ) -> None:
        containers = list(dict.fromkeys(c for log in logs for c, _ in log if isinstance(c, (Sequence, Mapping))))
        for container in containers:
            sides = [[v for c, v in log if c is container] for log in logs]
            tags = lost
            if len(sides) > 1 and all(sides):
                first = join_all(sides[0])
                for other in sides[1:]:
                    tags |= self.exclusive(first, join_all(other), test, how)
            elif any(sides):
                only = join_all([v for side in sides for v in side])
                tags |= self.exclusive(only, Value(), test, how)
            if tags:
                if isinstance(container, Sequence):
                    container.forget()
                container.rest = self.tagged(container.rest or Value(), tags)

    def run_Match(self, node: Any) -> str | None:
        subject = self.eval(node.subject)
        on_data, lost = self.predicate(subject, node.subject, How.PREDICATE)
        for case in node.cases:
            for pattern in ast.walk(case.pattern):
                name = getattr(pattern, "name", None)
                if isinstance(name, str):
                    self.scope.bind(name, subject)
        bodies: list[tuple[list[ast.stmt], dict[str, Value]]] = [(case.body, {}) for case in node.cases]
        if not any(
            isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None and c.guard is None for c in node.cases
        ):
            bodies.append(([], {}))
        return self.branch(node.subject, bodies, on_data, lost)

    def run_For(self, node: ast.For | ast.AsyncFor) -> str | None:
        iterable = self.eval(node.iter)
        return self.loop(node, lambda: self.assign(node.target, self.element(iterable, node.iter)))

    run_AsyncFor = run_For

    def run_While(self, node: ast.While) -> str | None:
        def head() -> None:
            test = self.eval(node.test)
            _, lost = self.predicate(test, node.test, How.PREDICATE_LOOP)
            if lost and not isinstance(node.test, ast.Constant):
                for name, value in list(self.scope.vars.items()):
                    changed = value is not before.get(name) and value.const is not None
                    if changed and value.kind & (NUMERIC | Kind.UNKNOWN | Kind.NUMBER):
                        self.scope.vars[name] = self.tagged(value, lost)

        before = dict(self.scope.vars)
        ended = self.loop(node, head)
        head()
        return ended

    def loop(self, node: Any, head: Any) -> str | None:
        frame, scope = self.frame, self.scope
        saved_exits, frame.exits = frame.exits, []
        saved_jumps = frame.jumps
        before = scope.vars
        merged = dict(before)
        for _ in range(MOST_LOOP_PASSES):
            scope.vars = dict(merged)
            head()
            frame.jumps = []
            frame.loop_depth += 1
            try:
                self.run(node.body)
            finally:
                frame.loop_depth -= 1
            self.tag_jumps(frame.jumps)
            after = scope.vars
            new: dict[str, Value] = {}
            changed = False
            for name in dict.fromkeys([*merged, *after]):
                a, b = merged.get(name), after.get(name)
                value = b if a is None else a if b is None else join(a, b)
                assert value is not None
                if a is None or not same(a, value):
                    changed = changed or a is not None
                new[name] = value
            merged = new
            if not changed:
                break
        for exit_vars in frame.exits:
            for name, value in exit_vars.items():
                old = merged.get(name)
                merged[name] = value if old is None else join(old, value)
        frame.exits, frame.jumps = saved_exits, saved_jumps
        # names that the body always assigns keep their last value: the loop is taken to run
        for name, value in after.items():
            old = before.get(name)
            if (
                old is not None
                and old.kind & Kind.NUMBER
                and old.const is None
                and value.kind & (NUMERIC | Kind.CONTAINER)
            ):
                merged[name] = value
        scope.vars = merged
        if node.orelse:
            return self.run(node.orelse)
        return None

    def tag_jumps(self, jumps: list[Jump]) -> None:
        """What the rest of the loop's body changed was chosen by the tests that may have jumped over it."""
        variables = self.scope.vars
        for jump in jumps:
            for name, value in list(variables.items()):
                old = jump.before.get(name)
                if value is old or not value.kind & (NUMERIC | Kind.UNKNOWN) or value.refs:
                    continue
                tags = jump.lost
                if old is not None and not jump.leaves:
                    tags |= self.exclusive(old, value, jump.test, How.PREDICATE)
                if tags and (old is not None or jump.leaves):
                    variables[name] = self.tagged(value, tags)
            if jump.leaves and jump.lost:
                for name, value in list(variables.items()):
                    if value.kind & (NUMERIC | Kind.UNKNOWN) and not value.refs and value.live:
                        variables[name] = self.tagged(value, jump.lost)

    def run_With(self, node: ast.With | ast.AsyncWith) -> str | None:
        pushed: list[Tape] = []
        removed: list[list[Tape]] = []
        for item in node.items:
            value = self.eval(item.context_expr)
            tape = value.ref
            if isinstance(tape, Tape):
                self.tapes.append(tape)
                tape.frames = tuple(self.frames)
                pushed.append(tape)
            elif isinstance(tape, Stopped):
                removed.append(list(self.tapes))
                self.tapes = [t for t in self.tapes if t is not tape.tape]
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
                if isinstance(tape, Tape) and isinstance(item.optional_vars, (ast.Name, ast.Attribute)):
                    tape.label = self.text(item.optional_vars)
        try:
            return self.run(node.body)
        finally:
            for tapes in reversed(removed):
                self.tapes = tapes
            for tape in pushed:
                if tape in self.tapes:
                    self.tapes.remove(tape)

    run_AsyncWith = run_With

    def run_Try(self, node: Any) -> str | None:
        scope = self.scope
        before = dict(scope.vars)
        self.frame.branch_depth += 1
        ended = self.run(node.body)
        if not ended and node.orelse:
            ended = self.run(node.orelse)
        ways = [] if ended else [scope.vars]
        first = scope.vars
        for handler in node.handlers:
            scope.vars = {
                k: join(before[k], first[k]) if k in before and k in first else (first.get(k) or before[k])
                for k in {**before, **first}
            }
            if handler.name:
                scope.vars[handler.name] = Value(Kind.OBJECT)
            if not self.run(handler.body):
                ways.append(scope.vars)
        self.frame.branch_depth -= 1
        scope.vars = self.meet(ways, before, ast.Constant(None), False, NO_LOST, How.PREDICATE) if ways else first
        final = self.run(node.finalbody)
        return final or (ended if not ways else None)

    run_TryStar = run_Try


@dataclass(eq=False)
class Stopped:
    """`tape.stop_recording()`."""

    tape: Tape
