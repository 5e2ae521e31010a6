"""Layers, models and Variables that are made and never used: nothing reads them but lists of weights."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tapefix.documents.document import Document
from tapefix.flow.objects import Api, Instance, Layer, parts_of
from tapefix.flow.syntax import children, nodes_of
from tapefix.flow.values import Source, Value, Var

_WEIGHTS = frozenset({"trainable_variables", "trainable_weights", "variables", "weights"})
_LOADED = frozenset({"load_model", "model_from_json", "clone_model"})  # to see that it can be done
_IDLE_METHODS = frozenset({"build"})
_LISTINGS = frozenset({"layers", "__dict__", "submodules"})
MOST_IDLE_USES = 8
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
    if not any(isinstance(node, ast.Call) and is_made(value) for node, value in seen.items()):
        return
    tree = document.tree
    script = runs_by_itself(tree)
    candidates = [s for s in _assignments(tree) if is_made(seen.get(s.value)) and (script or _is_local(s))]
    if not candidates:
        return
    index = _Index(tree)
    if not _DYNAMIC.isdisjoint(index.loads):
        return
    if any(not is_library(n, seen) for name in _LISTINGS for n in index.attributes.get(name, [])):
        return
    for statement in candidates:
        target = statement.targets[0]
        if isinstance(target, ast.Attribute) and index.own_listings:
            continue
        uses = index.uses_of(target, statement, script)
        if uses is None or len(uses) > MOST_IDLE_USES or _is_throwaway(target):
            continue
        if all(is_idle(use, index.parents) for use in uses):
            name = target.id if isinstance(target, ast.Name) else ast.unparse(target)
            made = seen[statement.value]
            if is_view(made, seen):
                continue
            yield Unused(statement, name, not isinstance(made.ref, Var), tuple(uses))


def is_made(value: Value | None) -> bool:
    """A layer, model or Variable of the program's own making."""
    ref = value.ref if value is not None else None
    if isinstance(ref, Instance):
        return ref.is_keras()
    return isinstance(ref, Var) or (isinstance(ref, Layer) and not ref.opaque and ref.api not in _LOADED)


def is_view(made: Value, seen: dict[ast.AST, Value]) -> bool:
    """A functional model of layers that another model has, too: it has no weights of its own."""
    template = made.ref.template if isinstance(made.ref, Layer) else None
    if template is None:
        return False
    own = _layers_behind(template)
    others = {v.ref for n, v in seen.items() if isinstance(n, ast.Call) and isinstance(v.ref, Layer)} - {made.ref}
    return any(other.template is not None and own & _layers_behind(other.template) for other in others)


def _layers_behind(outputs: Value) -> set[Source]:
    return {dep.source for part in parts_of(outputs) for dep in part.live if not dep.source.assumed}


def _assignments(tree: ast.Module) -> list[ast.Assign]:
    """What one name is given by a call, in the order of the source."""
    found = []
    todo: list[ast.AST] = [tree]
    while todo:
        for child in children(todo.pop()):
            if isinstance(child, ast.Assign):
                if len(child.targets) == 1 and isinstance(child.value, ast.Call):
                    found.append(child)
            elif isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)) and not isinstance(child, ast.Expr):
                todo.append(child)
    return sorted(found, key=lambda s: (s.lineno, s.col_offset))


def _is_local(statement: ast.Assign) -> bool:
    return isinstance(statement.targets[0], ast.Name)


def _is_throwaway(target: ast.expr) -> bool:
    """`_ = Block(...)`: a name that says it will not be used."""
    return isinstance(target, ast.Name) and target.id.startswith("_")


class _Index:
    """Who is named where in a file, from one walk."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.loads: dict[str, list[tuple[ast.AST, ast.Name]]] = {}  # with the scope around each
        self.stores: dict[str, list[tuple[ast.AST, ast.Name]]] = {}
        self.attributes: dict[str, list[ast.Attribute]] = {}
        self.outer: set[str] = set()  # global and nonlocal names
        self.scopes: dict[ast.AST, ast.AST] = {}  # of the assignments
        self.around: dict[ast.AST, ast.AST] = {}  # scope -> the scope around it
        todo: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
        while todo:
            node, scope = todo.pop()
            if isinstance(node, ast.Name):
                table = self.loads if isinstance(node.ctx, ast.Load) else self.stores
                table.setdefault(node.id, []).append((scope, node))
                continue
            if isinstance(node, ast.Attribute):
                self.attributes.setdefault(node.attr, []).append(node)
            elif isinstance(node, ast.Assign):
                self.scopes[node] = scope
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.around[node] = scope
                scope = node
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                self.outer.update(node.names)
            todo += [(child, scope) for child in children(node)]

    @functools.cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: parent for parent in nodes_of(self.tree) for child in children(parent)}

    @functools.cached_property
    def own_listings(self) -> bool:
        """A class takes its weights out of its own list of them: `w, b = self.trainable_variables`."""
        listed = [n for name in _WEIGHTS for n in self.attributes.get(name, []) if isinstance(n.ctx, ast.Load)]
        return any(isinstance(n.value, ast.Name) and n.value.id == "self" and self.is_opened(n) for n in listed)

    def is_opened(self, listed: ast.AST) -> bool:
        """Single weights are taken out of the list."""
        above = self.parents.get(listed)
        while isinstance(above, (ast.BoolOp, ast.IfExp)):
            above = self.parents.get(above)
        if isinstance(above, ast.Assign):
            return any(isinstance(target, (ast.Tuple, ast.List)) for target in above.targets)
        return isinstance(above, (ast.Subscript, ast.Starred))

    def within(self, scope: ast.AST, outer: ast.AST) -> bool:
        while scope is not outer:
            if scope not in self.around:
                return outer is self.tree
            scope = self.around[scope]
        return True

    def uses_of(self, target: ast.expr, statement: ast.Assign, script: bool) -> list[ast.expr] | None:
        """Every place that reads what was bound; None where not every place is known."""
        if isinstance(target, ast.Name):
            scope = self.scopes[statement]
            if isinstance(scope, ast.ClassDef) or (scope is self.tree and not script) or target.id in self.outer:
                return None
            if sum(self.within(s, scope) for s, _ in self.stores.get(target.id, [])) != 1:
                return None
            return [n for s, n in self.loads.get(target.id, []) if self.within(s, scope)]
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            same = self.attributes.get(target.attr, [])
            if not script or sum(not isinstance(n.ctx, ast.Load) for n in same) != 1:
                return None
            return [n for n in same if isinstance(n.ctx, ast.Load)]
        return None


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


def is_idle(use: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    """`x.build(...)` alone on its line, or `x.trainable_variables` as a term of a sum of weights."""
    attribute = parents.get(use)
    if not isinstance(attribute, ast.Attribute):
        return False
    above = parents.get(attribute)
    if attribute.attr in _IDLE_METHODS:
        return isinstance(above, ast.Call) and isinstance(parents.get(above), ast.Expr)
    return attribute.attr in _WEIGHTS and isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add)
