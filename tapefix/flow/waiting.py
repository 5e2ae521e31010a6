"""Which statements of a module have to run before a name of it can be asked for.

A module that is imported is run piece by piece: most of what it defines is of no use to the file that imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapefix.flow.syntax import nodes_of

#: the key of statements that may bind any name: `from module import *`
ANY = "*"


class Waiting:
    """The statements of a module that have not run yet."""

    def __init__(self, tree: ast.Module) -> None:
        self._left = dict.fromkeys(tree.body)
        self._by_name: dict[str, list[ast.stmt]] = {}
        for statement in tree.body:
            for name in set(_names(statement)):
                self._by_name.setdefault(name, []).append(statement)

    def take(self, name: str) -> list[ast.stmt]:
        """What has to run, in its order, before a name can be looked up; all that is left for `ANY`."""
        if name == ANY:
            found = list(self._left)
        else:
            found = [s for s in self._by_name.pop(name, ()) or self._by_name.pop(ANY, ()) if s in self._left]
        for statement in found:
            del self._left[statement]
        return found


def _names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from _imported(statement)
    elif isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
        for node in nodes_of(statement):  # it may change what any of these stands for
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from _imported(node)


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in statement.names:
        yield alias.asname or alias.name.split(".")[0]
