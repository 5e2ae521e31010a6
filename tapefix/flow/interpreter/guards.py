"""Flags that hold where a program stands: what was written where one held is not there where it did not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tapefix.flow.syntax import children, nodes_of

#: flags that change from one round to the next: what one round wrote, another one reads
_OF_A_ROUND = re.compile(r"first|last|start|begin|init|reset|done|new|warm|empty|step|has_")
_TRAINING = re.compile(r"train|learning_phase")
#: what tells that a model is only asked, and the same said the other way round
_EVALUATES = re.compile(
    r"(self\.)?_?(is_)?(test(ing)?|eval(uate|uating|uation)?|infer(ence|ring)?|predict(ing)?)(_mode)?"
)
_TRAINS = re.compile(r"(self\.)?_?(is_)?train(ing)?(_mode|_phase)?")
_MODE = re.compile(r"[\w.]*mode\w* == (.+)")
_MODE_TRAINS = re.compile(r"\W?(\w+\.)*train\w*\W?", re.IGNORECASE)
_MODE_EVALUATES = re.compile(r"\W?(\w+\.)*(test|eval|pred|infer|val)\w*\W?", re.IGNORECASE)
_BEGINS = re.compile(r"\w*init(iali[sz]ed|ed|_required|_done|_needed)?|_?(is_)?built")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def flags_of(test: ast.expr, holds: bool = True) -> Iterator[tuple[str, bool]]:
    """The flags that a test tells where its outcome is `holds`, as their text and what they are there."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from flags_of(test.operand, not holds)
    elif isinstance(test, ast.BoolOp):
        yield ast.unparse(test), holds
        if isinstance(test.op, ast.And) == holds:
            for operand in test.values:
                yield from flags_of(operand, holds)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        yield from _compared(test.left, test.ops[0], test.comparators[0], holds)
    elif isinstance(test, (ast.Name, ast.Attribute)) or (
        isinstance(test, ast.Call) and _TRAINING.search(ast.unparse(test))
    ):
        yield ast.unparse(test), holds


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr, holds: bool) -> Iterator[tuple[str, bool]]:
    if isinstance(op, (ast.Is, ast.Eq)):
        same = holds
    elif isinstance(op, (ast.IsNot, ast.NotEq)):
        same = not holds
    else:
        return
    text = ast.unparse(left)
    if isinstance(right, ast.Constant) and isinstance(right.value, bool):
        if same or right.value:
            yield text, same and right.value
    elif isinstance(right, ast.Constant) and right.value is None:
        if same and _TRAINING.search(text):
            yield text, False
    elif isinstance(right, ast.Constant) and isinstance(right.value, str):
        yield f"{text} == {right.value!r}", same
    elif isinstance(right, ast.Attribute) and right.attr.isupper():
        yield f"{text} == {ast.unparse(right)}", same


def evaluates(test: ast.expr, holds: bool) -> bool:
    """Where a test has this outcome nothing is trained: `if not training:`, `if mode == "test":`."""
    for text, truth in flags_of(test, holds):
        mode = _MODE.fullmatch(text)
        if mode is not None and (_MODE_EVALUATES if truth else _MODE_TRAINS).fullmatch(mode[1]):
            return True
        if (_EVALUATES if truth else _TRAINS).fullmatch(text):
            return True
    return False


def begins(test: ast.expr) -> bool:
    """It is asked whether something has its first values."""
    names = (n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in nodes_of(test))
    return any(_BEGINS.fullmatch(name) for name in names)


def is_settled(text: str, rebound: frozenset[str]) -> bool:
    """The flag keeps its value through a forward pass."""
    names = {n for part in re.findall(r"[A-Za-z_][\w.]*", text) for n in (part, part.split(".")[0])}
    return not names & rebound and (bool(_TRAINING.search(text)) or not _OF_A_ROUND.search(text))


def rebound_names(function: ast.AST | None) -> frozenset[str]:
    """What a function binds in a loop, and the attributes that it sets anywhere."""
    found: set[str] = set()
    todo: list[tuple[ast.AST, bool]] = [] if function is None else [(function, False)]
    while todo:
        node, looped = todo.pop()
        if isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                found.add(ast.unparse(node))
        elif isinstance(node, ast.Name):
            if looped and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            continue
        looped = looped or isinstance(node, _LOOPS)
        todo += [(child, looped) for child in children(node)]
    return frozenset(found)
