"""Small questions about syntax that several rules ask: the same expression, its last name, which target gets what."""

from __future__ import annotations

import ast


def same(node: ast.AST, other: ast.AST) -> bool:
    """Whether two expressions say the same, whether they are read or written there."""
    return isinstance(node, type(other)) and ast.unparse(node) == ast.unparse(other)


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name; "" where it is none."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def pairs_of(statement: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment to one target gives to what; `a, b = x, y` counts as two. Nothing for other statements."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts))
    return [(target, value)]
