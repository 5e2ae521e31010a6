"""Whether two questions to one tape are both answered in one run of the program, told from where they stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tapefix.flow.facts import Spot
from tapefix.flow.values import Tape

_CHOOSING = (ast.If, ast.Try, ast.Match)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_SHORT = (ast.IfExp, ast.BoolOp, ast.Lambda)


@dataclass(frozen=True)
class Asked:
    """A gradient call, and the frames that were active with their statements, outermost first."""

    node: ast.AST
    trail: tuple[tuple[Any, Spot], ...]


@dataclass(frozen=True)
class Arm:
    """A block of a compound statement on the way to a statement."""

    compound: ast.stmt
    index: int  # which of its blocks
    body: list[ast.stmt]

    @property
    def chosen(self) -> bool:
        """Whether it runs depends on a test, or on an error."""
        return isinstance(self.compound, _CHOOSING)

    @property
    def leaves(self) -> bool:
        return isinstance(self.body[-1], _LEAVING)

    def holds(self, node: ast.AST | None) -> bool:
        return any(node is n for one in self.body for n in ast.walk(one))

    @property
    def expects_error(self) -> bool:
        """Its errors are caught or awaited: `try`, `with self.assertRaises(...)`."""
        if isinstance(self.compound, ast.Try):
            return bool(self.compound.handlers) and self.index == 0
        return isinstance(self.compound, ast.With) and any(
            "aises" in ast.unparse(item.context_expr) for item in self.compound.items
        )


def both_answered(first: Asked, second: Asked) -> bool:
    """One run of the program surely can meet both: neither excludes the other, and at most one is on a condition."""
    depth = 0
    for (one, _), (other, _) in zip(first.trail, second.trail, strict=False):
        if one is not other:
            break
        depth += 1
    if not depth or any(arm.expects_error for frame, spot in second.trail for arm in way_in(frame, spot.node)):
        return False
    frame, here = first.trail[depth - 1]
    there = second.trail[depth - 1][1]
    ways = way_in(frame, here.node), way_in(frame, there.node)
    if here.node is there.node:
        return same_statement(first, second, here.node, ways[0], depth)
    same = 0
    for one, other in zip(*ways, strict=False):
        if one.compound is not other.compound:
            break
        if one.index != other.index:
            if one.chosen:
                return False
            break
        same += 1
    mine, theirs = ways[0][same:], ways[1][same:]
    if isinstance(here.node, _LEAVING) or any(arm.leaves for arm in mine if arm.chosen):
        return False
    conditions = [
        any(arm.chosen for arm in [*way, *deeper])
        for way, deeper in (
            (mine, ways_below(first, depth)),
            (theirs, ways_below(second, depth)),
        )
    ]
    return not all(conditions)


def same_statement(first: Asked, second: Asked, statement: ast.AST, way: list[Arm], depth: int) -> bool:
    """Two questions in one statement, or one in two passes of a loop."""
    if isinstance(statement, ast.Return) or any(isinstance(n, _SHORT) for n in ast.walk(statement)):
        return False
    if any(arm.chosen for arm in [*ways_below(first, depth), *ways_below(second, depth)]):
        return False
    if first.node is not second.node and len(first.trail) == len(second.trail) == depth:
        return True
    loops = [i for i, arm in enumerate(way) if isinstance(arm.compound, _LOOPS)]
    if not loops:
        return False
    inside = way[loops[-1] :]
    return not any(arm.chosen for arm in inside) and not inside[0].leaves


def is_repeated(ask: Asked, tape: Tape) -> bool:
    """The question stands in a loop or comprehension, and the tape is opened outside of it."""
    return bool(ask.trail) and (_in_loop(ask, tape) or _in_comprehension(ask))


def _in_loop(ask: Asked, tape: Tape) -> bool:
    below = [i for i, (frame, _) in enumerate(ask.trail) if tape.frames and frame is tape.frames[-1]]
    statement = ask.trail[-1][1].node
    if not below or isinstance(statement, ast.Return) or any(isinstance(n, _SHORT) for n in ast.walk(statement)):
        return False
    arms = [arm for frame, spot in ask.trail[below[0] :] for arm in way_in(frame, spot.node)]
    loops = [i for i, arm in enumerate(arms) if isinstance(arm.compound, _LOOPS) and not arm.holds(tape.entered)]
    if not loops:
        return False
    inside = arms[loops[-1] :]
    return not any(arm.chosen or arm.expects_error for arm in inside) and not inside[0].leaves and inside[0].index == 0


def _in_comprehension(ask: Asked) -> bool:
    for node in ast.walk(ask.trail[-1][1].node):
        if not isinstance(node, _COMPREHENSIONS):
            continue
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner = {id(n) for part in parts for n in ast.walk(part)}
        if id(ask.node) in inner:
            iters = [one.iter for one in node.generators]
            single = all(isinstance(i, (ast.List, ast.Tuple)) and len(i.elts) < 2 for i in iters)
            short = any(isinstance(n, _SHORT) for part in parts for n in ast.walk(part))
            return not single and not short and not any(one.ifs for one in node.generators)
    return False


def ways_below(ask: Asked, depth: int) -> list[Arm]:
    return [arm for frame, spot in ask.trail[depth:] for arm in way_in(frame, spot.node)]


def way_in(frame: Any, statement: ast.AST) -> list[Arm]:
    """The blocks around a statement in the function or module of a frame, outermost first."""
    root = frame.function.node if frame.function is not None else frame.scope.module.document.tree
    body = root.body if isinstance(root.body, list) else []
    return _way(body, statement) or []


def _way(body: list[ast.stmt], statement: ast.AST) -> list[Arm] | None:
    row = getattr(statement, "lineno", 0)
    for one in body:
        if one is statement:
            return []
        if one.lineno <= row <= (one.end_lineno or row):
            for index, block in enumerate(_blocks(one)):
                found = _way(block, statement)
                if found is not None:
                    return [Arm(one, index, block), *found]
    return None


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if block:
            yield block
    for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        yield part.body
