"""Layers, models and Variables that are made and never used: nothing reads them but lists of weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tapefix.documents.document import Document
from tapefix.flow.values import Api, Instance, Layer, Value, Var

_WEIGHTS = frozenset({"trainable_variables", "trainable_weights", "variables", "weights"})
_IDLE_METHODS = frozenset({"build", "summary"})
_LISTINGS = frozenset({"layers", "__dict__", "submodules"})
_DYNAMIC = frozenset({"getattr", "setattr", "vars", "locals", "globals", "eval", "exec"})


@dataclass(frozen=True)
class Unused:
    """One that is made by `statement` and bound to `name`; `idle` are its uses that use nothing."""

    statement: ast.Assign
    name: str
    is_model: bool
    idle: tuple[ast.expr, ...]


def unused(document: Document, seen: dict[ast.AST, Value]) -> Iterator[Unused]:
    """What the program makes in vain; silent where another file, or code that asks for names, may use it."""
    tree = document.tree
    if any(isinstance(n, ast.Name) and n.id in _DYNAMIC for n in ast.walk(tree)):
        return
    if any(isinstance(n, ast.Attribute) and n.attr in _LISTINGS and not is_library(n, seen) for n in ast.walk(tree)):
        return
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    script = runs_by_itself(tree)
    for statement in ast.walk(tree):
        if not (
            isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.value, ast.Call)
        ):
            continue
        made, target = seen.get(statement.value), statement.targets[0]
        if made is None or not isinstance(made.ref, (Layer, Instance, Var)):
            continue
        if (
            isinstance(made.ref, Instance)
            and not made.ref.is_keras()
            or isinstance(made.ref, Layer)
            and made.ref.opaque
        ):
            continue
        uses = uses_of(target, statement, tree, parents, script)
        if uses is None:
            continue
        if all(is_idle(use, parents) for use in uses):
            name = target.id if isinstance(target, ast.Name) else ast.unparse(target)
            yield Unused(statement, name, not isinstance(made.ref, Var), tuple(uses))


def is_library(node: ast.Attribute, seen: dict[ast.AST, Value]) -> bool:
    """`tf.keras.layers`, not the layers of a model."""
    value = seen.get(node)
    return (value is not None and isinstance(value.ref, Api)) or ast.unparse(node.value).endswith("keras")


def runs_by_itself(tree: ast.Module) -> bool:
    """A script: its top level does something, so that no other file is its reason to be."""
    return any(
        isinstance(s, (ast.For, ast.While, ast.With, ast.Expr))
        and not isinstance(getattr(s, "value", None), ast.Constant)
        for s in tree.body
    ) or any(isinstance(s, ast.If) and "__main__" in ast.unparse(s.test) for s in tree.body)


def uses_of(
    target: ast.expr, statement: ast.Assign, tree: ast.Module, parents: dict[ast.AST, ast.AST], script: bool
) -> list[ast.expr] | None:
    """Every place that reads what was bound; None where not every place is known."""
    if isinstance(target, ast.Name):
        scope = parents[statement]
        while not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module, ast.ClassDef)):
            scope = parents[scope]
        if isinstance(scope, ast.ClassDef) or (isinstance(scope, ast.Module) and not script):
            return None
        bound = [
            n
            for n in ast.walk(scope)
            if isinstance(n, ast.Name) and n.id == target.id and not isinstance(n.ctx, ast.Load)
        ]
        exported = any(isinstance(n, (ast.Global, ast.Nonlocal)) and target.id in n.names for n in ast.walk(tree))
        if len(bound) != 1 or exported:
            return None
        return [
            n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == target.id and isinstance(n.ctx, ast.Load)
        ]
    if (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
        and script
    ):
        same = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == target.attr]
        if sum(not isinstance(n.ctx, ast.Load) for n in same) != 1:
            return None
        return [n for n in same if isinstance(n.ctx, ast.Load)]
    return None


def is_idle(use: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    """`x.build(...)` alone on its line, or `x.trainable_variables` as a term of a sum of weights."""
    attribute = parents.get(use)
    if not isinstance(attribute, ast.Attribute):
        return False
    above = parents.get(attribute)
    if attribute.attr in _IDLE_METHODS:
        return isinstance(above, ast.Call) and isinstance(parents.get(above), ast.Expr)
    return attribute.attr in _WEIGHTS and isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add)
