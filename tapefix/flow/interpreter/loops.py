"""Loops: run until nothing new is known, at most a few times."""

from __future__ import annotations

import ast
from typing import Any

from tapefix.flow.facts import How
from tapefix.flow.interpreter.branches import Branches
from tapefix.flow.interpreter.core import Jump
from tapefix.flow.objects import Mapping, Sequence
from tapefix.flow.values import NUMERIC, UNKNOWN, Kind, Value, join, same

MOST_LOOP_PASSES = 2


class Loops(Branches):
    """Runs `for` and `while`."""

    def run_For(self, node: ast.For | ast.AsyncFor) -> str | None:
        iterable = self.eval(node.iter)

        def head() -> None:
            for ref in iterable.refs:
                if isinstance(ref, (Sequence, Mapping)):
                    self.take(ref)
            self.assign(node.target, self.element(iterable, node.iter))

        with self.rounds(iterable):
            return self.loop(node, head)

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
        with self.rounds(UNKNOWN):
            ended = self.loop(node, head)
        head()
        return ended

    def loop(self, node: Any, head: Any) -> str | None:
        frame, scope = self.frame, self.scope
        saved_exits, frame.exits = frame.exits, []
        saved_jumps, saved_guards = frame.jumps, frame.guards
        saved_taken, frame.taken = frame.taken, []
        saved_start, frame.loop_start = frame.loop_start, len(frame.returns)
        before = scope.vars
        merged = dict(before)
        for _ in range(MOST_LOOP_PASSES):
            scope.vars = dict(merged)
            frame.statement = node
            head()
            frame.jumps = []
            stores = self.stores
            frame.loop_depth += 1
            try:
                self.run(node.body)
            finally:
                frame.loop_depth -= 1
                frame.guards = saved_guards
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
            if not changed and stores == self.stores:
                break
        for exit_vars in frame.exits:
            for name, value in exit_vars.items():
                old = merged.get(name)
                merged[name] = value if old is None else join(old, value)
        for jump in frame.jumps:
            if jump.leaves:
                self.tag_left(merged, before, jump)
        frame.exits, frame.jumps, frame.taken = saved_exits, saved_jumps, saved_taken
        frame.loop_start = saved_start
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

    def tag_left(self, variables: dict[str, Value], before: dict[str, Value], jump: Jump) -> None:
        """What a loop made that a test on values may leave early: its later rounds are there on a condition."""
        for name, value in list(variables.items()):
            if isinstance(value.ref, Sequence):
                tags = self.later_rounds([value], self.frame.taken, jump.test, How.PREDICATE)
                if tags and not any(value.ref is one for one in self.frame.taken):
                    value.ref.forget()
                    value.ref.rest = self.tag_inside(value.ref.rest or Value(), tags)
            elif value is not before.get(name) and not value.refs:
                tags = self.later_rounds([value], self.frame.taken, jump.test, How.PREDICATE)
                variables[name] = self.tagged(value, tags) if tags else value

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
