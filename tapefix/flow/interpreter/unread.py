"""What is computed and never read: names that are not looked at, parameters that are not used, passes overwritten."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tapefix.flow.facts import How, Spot
from tapefix.flow.interpreter.choices import Choices
from tapefix.flow.objects import Function, Instance, Layer, Sequence, flat, own_nodes
from tapefix.flow.syntax import nodes_of
from tapefix.flow.values import Lost, Source, Tape, Value

_DYNAMIC = frozenset({"locals", "vars", "globals", "eval", "exec"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor)
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module


@dataclass(eq=False)
class Reads:
    """Which names a function reads, and which stores nobody reads."""

    loads: Counter[str] = field(default_factory=Counter)
    parameters: frozenset[str] = frozenset()  # never read
    dead: set[ast.Assign] = field(default_factory=set)  # of one name: never read, or overwritten before
    overwritten: set[ast.Assign] = field(default_factory=set)  # by the next pass of the loop around


def reads_of(scope: Scoped) -> Reads:
    """Of a function, or of a module's top level."""
    reads = Reads(loads_in(scope))
    if not _DYNAMIC.isdisjoint(reads.loads):
        return reads
    nodes = list(own_nodes(scope))
    shared = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    for node in nodes:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            shared |= set(loads_in(node))  # read when it is called
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if not is_stub(scope):
            args = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
            reads.parameters = frozenset(a.arg for a in args if not reads.loads[a.arg] and not a.arg.startswith("_"))
    blocks = [] if isinstance(scope, ast.Lambda) else [scope.body]
    for node in nodes:
        blocks += [b for b in (getattr(node, "body", None), getattr(node, "orelse", None)) if isinstance(b, list)]
        if isinstance(node, _LOOPS):
            reads.overwritten |= {s for s in overwritten_in(node) if name_of(s) not in shared}
    for block in blocks:
        reads.dead |= {s for s in dead_in(block, reads.loads) if name_of(s) not in shared}
    return reads


def loads_in(node: ast.AST) -> Counter[str]:
    found: Counter[str] = Counter()
    for part in nodes_of(node):
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Store):
            found[part.id] += 1
        elif isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
            found[part.target.id] += 1
    return found


def is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """There is nothing in it that could read: an interface."""
    return all(
        isinstance(s, (ast.Pass, ast.Raise)) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in function.body
    )


def name_of(statement: ast.stmt) -> str:
    """The one name that an assignment binds, or ""."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    return ""


def dead_in(block: list[ast.stmt], loads: Counter[str]) -> Iterator[ast.Assign]:
    """Assignments of a name that is never read, or given another value before it is."""
    read: dict[ast.stmt, Counter[str]] = {}  # by a later statement: looked at once for all names before it
    for i, statement in enumerate(block):
        name = name_of(statement)
        if not name or not isinstance(statement, ast.Assign):
            continue
        if not loads[name]:
            yield statement
            continue
        for later in block[i + 1 :]:
            if later not in read:
                read[later] = loads_in(later)
            if read[later][name]:
                break
            if name_of(later) == name:
                yield statement
                break
            if not isinstance(later, (ast.Assign, ast.Expr)) and any(
                isinstance(n, ast.Name) and n.id == name for n in ast.walk(later)
            ):
                break


def overwritten_in(loop: ast.For | ast.AsyncFor) -> Iterator[ast.Assign]:
    """What the looped-over layers make of something else in each pass, and only the last pass leaves behind."""
    if any(isinstance(n, (ast.Break, ast.Return, ast.Yield)) for n in ast.walk(loop)):
        return
    looped = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    statements = list(straight(loop.body))
    for i, statement in enumerate(statements):
        name = name_of(statement)
        if not name or not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        if looped.isdisjoint(loads_in(statement.value.func)) or loads_in(statement)[name]:
            continue
        if any(isinstance(n, ast.Name) and n.id == name for s in statements[:i] for n in ast.walk(s)):
            continue
        rest = loads_in(loop)[name] - sum(loads_in(s)[name] for s in statements[i + 1 :] if name_of(s) == name)
        if not rest:
            yield statement


def straight(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run in every pass."""
    for statement in block:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from straight(statement.body)
        else:
            yield statement


class Unread(Choices):
    """Remembers where the outputs of layers are dropped."""

    reads: dict[ast.AST, Reads]
    #: by the tape and the call of the layer: the place where nobody reads its output
    dropped: dict[tuple[Tape, ast.AST], Spot]

    def reads_here(self) -> Reads:
        function = self.frame.function
        return self.reads_in(function.node if function is not None else self.module.document.tree)

    def reads_in(self, scope: Scoped) -> Reads:
        if scope not in self.reads:
            self.reads[scope] = reads_of(scope)
        return self.reads[scope]

    def drop(self, value: Value, place: ast.AST) -> None:
        self.drop_at(value, self.spot(place))

    def places_of(self, source: Source, tape: Tape) -> list[Spot]:
        """Where the outputs of a layer that ran under a tape were dropped; none where not every output was."""
        calls = tape.ran.get(source, ())
        if not isinstance(source, Layer) or not all((tape, call) in self.dropped for call in calls):
            return []
        return list({spot.node: spot for spot in (self.dropped[tape, call] for call in calls)}.values())

    def unread(self, statement: ast.Assign, value: Value) -> Value:
        """The value of an assignment, if nobody reads it noted as dropped."""
        if not self.tapes or not flat(value).live:
            return value
        reads = self.reads_here()
        if statement in reads.dead:
            self.drop(value, statement)
        elif statement in reads.overwritten and len(statement.targets) == 1:
            return self.overwritten(statement, value)
        elif len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Tuple):
            self.drop_elements(statement, statement.targets[0].elts, value, reads)
        return value

    def drop_elements(self, statement: ast.Assign, targets: list[ast.expr], value: Value, reads: Reads) -> None:
        """Some of the outputs may go unread: an output is dropped where nothing else of the same call is read."""
        unread = [isinstance(t, ast.Name) and not reads.loads[t.id] for t in targets]
        items = value.ref.items if isinstance(value.ref, Sequence) else None
        if all(unread):
            self.drop(value, statement)
        elif any(unread) and items is not None and len(items) == len(targets):
            kept = {d.spot.node for item, gone in zip(items, unread) if not gone for d in flat(item).live}
            for item, gone in zip(items, unread):
                live = frozenset(d for d in flat(item).live if d.spot.node not in kept)
                if gone and live:
                    self.drop(Value(item.kind, live), statement)

    def overwritten(self, statement: ast.Assign, value: Value) -> Value:
        """What one pass makes, the next throws away: all layers but the last have no part in the result."""
        called = self.seen.get(statement.value.func) if isinstance(statement.value, ast.Call) else None
        if value.refs or called is None or not any(isinstance(ref, (Layer, Instance)) for ref in called.refs):
            return value
        made = [d for d in value.live if any(f is self.frame and s.node is statement for f, s in d.trail)]
        if not made:
            return value
        site = self.site(How.DROPPED, statement, "overwritten")
        return value.with_(lost=value.lost | {Lost(site, d.source, d.tapes) for d in made})

    def drop_unused(self, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> None:
        """Arguments that the function never looks at, where the caller has no other use for them."""
        if not self.tapes or not isinstance(node, ast.Call) or not isinstance(function.node, ast.FunctionDef):
            return
        if any(isinstance(a, ast.Starred) for a in node.args):
            return
        if not any(isinstance(d.source, Layer) for v in (*args, *keywords.values()) for d in flat(v).live):
            return
        spec = function.node.args
        for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
            if arg.arg not in self.reads_in(function.node).parameters:
                continue
            names = [a.arg for a in [*spec.posonlyargs, *spec.args]]
            at = names.index(arg.arg) if arg.arg in names else len(args)
            value = keywords.get(arg.arg) or (args[at] if at < len(args) else None)
            given = next((k.value for k in node.keywords if k.arg == arg.arg), None)
            position = at - (len(args) - len(node.args))
            if given is None and 0 <= position < len(node.args):
                given = node.args[position]
            if value is not None and given is not None and self.used_once(given):
                self.drop_at(value, Spot(function.scope.module.filename, arg, function.node))

    def drop_at(self, value: Value, spot: Spot) -> None:
        for dep in flat(value).live:
            if isinstance(dep.source, Layer):
                for tape in dep.tapes:
                    self.dropped.setdefault((tape, dep.spot.node), spot)

    def used_once(self, given: ast.expr) -> bool:
        if isinstance(given, ast.Name):
            return self.reads_here().loads[given.id] == 1
        return isinstance(given, ast.Call)
