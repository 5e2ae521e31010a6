"""Branches: both ways are run, and meet."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tapefix.flow.facts import How
from tapefix.flow.interpreter.assignments import Assignments
from tapefix.flow.interpreter.core import Jump, PredicatedReturn, Stopped
from tapefix.flow.objects import Api, ClassObject, Function, Generator, Instance, Layer, Mapping, Sequence
from tapefix.flow.values import MISSING, NO_DEPS, NO_LOST, NONE, UNKNOWN, Kind, Lost, Tape, Value, join, join_all

_CONTAINERS = frozenset({"list", "tuple", "dict", "set"})
_NO_TENSORS = frozenset({"ndarray", "int", "float", "str", "Number", "generic", "bytes", "bool"})


def is_told_apart(asked: ast.Call, value: Value, holds: bool) -> bool:
    """The question whether something is a tensor has the answer no."""
    function = ast.unparse(asked.func)
    if function.endswith(("is_tensor", "is_tf_type")):
        return not holds
    if function != "isinstance" or len(asked.args) != 2:
        return False
    kinds = asked.args[1].elts if isinstance(asked.args[1], ast.Tuple) else [asked.args[1]]
    names = {ast.unparse(kind).rsplit(".", 1)[-1] for kind in kinds}
    if holds and (value.kind & (Kind.TENSOR | Kind.CONTAINER) == Kind.TENSOR or isinstance(value.node, ast.BinOp)):
        return names <= _NO_TENSORS | _CONTAINERS
    return names <= _NO_TENSORS if holds else "Tensor" in names


class Branches(Assignments):
    """Runs `if`, `match`, `try` and `with`."""

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

    def run_If(self, node: ast.If) -> str | None:
        test = self.eval(node.test)
        truth = self.truth(test)
        ways = [self.guards_of(node.test, test, holds) for holds in (True, False)]
        if truth is None:
            ways = [self.judging(node.test, test, holds, ways[not holds]) for holds in (True, False)]
        else:
            self.frame.guards = {**self.frame.guards, **ways[not truth]}
            return self.run(node.body if truth else node.orelse)
        on_data, lost = self.predicate(test, node.test, How.PREDICATE)
        return self.branch(
            node.test,
            [(node.body, self.narrow(node.test, True)), (node.orelse, self.narrow(node.test, False))],
            on_data,
            lost,
            ways=ways,
        )

    def narrow(self, test: ast.expr, holds: bool) -> dict[str, Value]:
        """What a test tells about names: that a name is None, or no tensor."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.narrow(test.operand, not holds)
        if isinstance(test, ast.BoolOp):
            told = [self.narrow(part, holds) for part in test.values] if isinstance(test.op, ast.And) == holds else []
            return {name: value for part in told for name, value in part.items()}
        if isinstance(test, ast.Name):
            asked = self.scope.vars.get(test.id, UNKNOWN).node  # `given = tf.is_tensor(x)`
            return self.without_tensor(asked, holds) if isinstance(asked, ast.Call) else {}
        if isinstance(test, ast.Call):
            return self.without_tensor(test, holds)
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

    def without_tensor(self, asked: ast.Call, holds: bool) -> dict[str, Value]:
        """A name that is no tensor where `tf.is_tensor(x)` or `isinstance(x, np.ndarray)` has this outcome."""
        name = asked.args[0].id if asked.args and isinstance(asked.args[0], ast.Name) else ""
        value = self.scope.vars.get(name)
        if value is None or not value.live or not is_told_apart(asked, value, holds):
            return {}
        return {name: value.with_(live=NO_DEPS, kind=Kind.ARRAY, ref=None, alts=())}

    def branch(
        self,
        test: ast.expr,
        bodies: list[tuple[list[ast.stmt], dict[str, Value]]],
        on_data: bool,
        lost: frozenset[Lost],
        how: How = How.PREDICATE,
        ways: list[dict[Any, Any]] | None = None,
    ) -> str | None:
        frame, scope = self.frame, self.scope
        before, guards = scope.vars, frame.guards
        run = object()
        held = [{**guards, **(ways[i] if ways else {}), run: i} for i in range(len(bodies))]
        outcomes: list[tuple[str | None, dict[str, Value], list[tuple[Any, Value]]]] = []
        marks = [len(frame.returns)]
        frame.branch_depth += 1
        for (body, narrowed), here in zip(bodies, held):
            scope.vars = {**before, **narrowed}
            frame.guards = here
            self.branch_log.append([])
            try:
                ended = self.run(body)
            finally:
                log = self.branch_log.pop()
            outcomes.append((ended, scope.vars, log))
            marks.append(len(frame.returns))
        frame.branch_depth -= 1
        frame.guards = guards
        self.settle(outcomes, before, held)
        self.either_added([log for _, _, log in outcomes])
        if ways and len([1 for ended, _, _ in outcomes if ended is None]) == 1:
            # the other way has left: what holds on this one holds from here on
            frame.guards = {**guards, **ways[[ended for ended, _, _ in outcomes].index(None)]}
        if (
            on_data
            and any(ended in ("continue", "break") for ended, _, _ in outcomes)
            and any(ended is None for ended, _, _ in outcomes)
        ):
            broke = any(ended == "break" for ended, _, _ in outcomes)
            frame.jumps.append(Jump(test, lost, dict(before), broke))
        if on_data and marks[-1] > marks[0]:
            taken = frame.taken if frame.loop_depth else None
            choice = PredicatedReturn(test, lost, marks[0], marks[1], marks[-1], taken, frame.loop_start)
            frame.predicated.append(choice)
        going = [(vars_, log) for ended, vars_, log in outcomes if ended is None]
        if not going:
            scope.vars = outcomes[0][1]
            kinds = {ended for ended, _, _ in outcomes}
            return "return" if kinds == {"return"} else outcomes[0][0]
        scope.vars = self.meet([vars_ for vars_, _ in going], before, test, on_data and len(going) > 1, lost, how)
        if on_data:
            self.meet_mutations([log for _, log in going], test, lost, how)
        return None

    @staticmethod
    def either_added(logs: list[list[tuple[Any, Value]]]) -> None:
        """Layers that one way or the other adds to a model stand in each other's place."""
        for model in {c for log in logs for c, _ in log if isinstance(c, Layer)}:
            first, *others = [[v for c, v in log if c is model] for log in logs]
            for added in others:
                model.children = [child for child in model.children if not any(child is one for one in added)]
                for ours, theirs in zip(first, added):
                    model.children = [join(ours, theirs) if child is ours else child for child in model.children]
                model.children += added[len(first) :]

    def settle(self, outcomes: list[Any], before: dict[str, Value], held: list[dict[Any, Any]]) -> None:
        """Variables that got a name on one way are read as they are there."""
        outer = self.holding()
        for (_, variables, _), here in zip(outcomes, held):
            for name, value in variables.items():
                if value is not before.get(name):
                    variables[name] = self.settled(value, {**outer, **here})

    def each_way(self, ways: list[Callable[[], Value]], guards: list[dict[Any, Any]]) -> list[Value]:
        """The values of expressions of which one is taken."""
        frame, saved, run = self.frame, self.frame.guards, object()
        held = [{**saved, **own, run: i} for i, own in enumerate(guards)]
        values = []
        for way, here in zip(ways, held):
            frame.guards = here
            try:
                values.append(way())
            finally:
                frame.guards = saved
        outer = self.holding()
        return [self.settled(value, {**outer, **here}) for value, here in zip(values, held)]

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
            elif value.lost and value.live and len(values) == len(ways) > 1 and not self.may_train(test):
                value = self.by_mode(value, values)
            merged[name] = value
        return merged

    def by_mode(self, value: Value, values: list[Value]) -> Value:
        """What a flag that is not known has one mode lose, and another keep, is a mode and not a slip."""
        kept = {d.source for v in values for d in v.live if d.source not in {x.source for x in v.lost}}
        if not kept:
            return value
        return value.with_(lost=frozenset(x.weakened() if x.source in kept else x for x in value.lost))

    def may_train(self, test: ast.expr) -> bool:
        return "train" in self.text(test).lower()

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

    def run_With(self, node: ast.With | ast.AsyncWith) -> str | None:
        pushed: list[Tape] = []
        removed: list[list[Tape]] = []
        stopped: list[Stopped] = []
        for item in node.items:
            value = self.eval(item.context_expr)
            if isinstance(value.ref, Generator):  # of a context manager
                value = self.next_of(value.ref, item.context_expr)
            tape = value.ref
            if isinstance(tape, Tape):
                self.tapes.append(tape)
                tape.frames = tuple(self.frames)
                self.begin_tape(tape, node)
                pushed.append(tape)
            elif isinstance(tape, Stopped):
                removed.append(list(self.tapes))
                self.tapes = [t for t in self.tapes if t is not tape.tape]
                stopped.append(tape)
                self.stopped.append(tape)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
                if isinstance(tape, Tape) and isinstance(item.optional_vars, (ast.Name, ast.Attribute)):
                    tape.label = self.text(item.optional_vars)
        try:
            return self.run(node.body)
        finally:
            for tapes in reversed(removed):
                self.tapes = tapes
            for one in stopped:
                self.stopped.remove(one)
            for tape in pushed:
                self.end_tape(tape)

    run_AsyncWith = run_With

    @staticmethod
    def begin_tape(tape: Tape, node: ast.AST) -> None:
        tape.ended, tape.entered = 0, node
        tape.asked.clear()

    def end_tape(self, tape: Tape) -> None:
        if tape in self.tapes:
            self.tapes.remove(tape)
        self.clock += 1
        tape.ended = self.clock

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
