"""Sources are listed before the model has any weights.

A layer makes its weights when it is first called. `model.trainable_variables` asked for before that is an empty list,
or lacks what comes later; it does not grow.

Before
------
    model = Net()
    weights = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = f(model(x))
    grads = tape.gradient(loss, weights)

After
-----
    model = Net()
    with tf.GradientTape() as tape:
        loss = f(model(x))
    grads = tape.gradient(loss, model.trainable_variables)

Fix
---
Safe: the weights are listed where they are used, after the model has been called. What cannot be written there is
reported only.

See https://keras.io/api/layers/base_layer/
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.flow.objects import Instance
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished
from tapefix.rewrite.said import pairs_of, same

_ADVICE = "build the model before its weights are listed, or list them after its first call"


class SourcesBeforeBuild(Codemod):
    code = "TAP603"
    name = "sources-before-build"
    speaks_for: ClassVar = frozenset({How.NOT_BUILT})
    why = "layers make their weights when they are first called, and a list made before does not hold them"

    def message(self, model: Model, cut: Cut) -> str:
        return f"`{model.document_of(cut.spot).source(cut.spot.node)}` is listed before the weights are made"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        document, listing = model.document_of(cut.spot), cut.spot.node
        layout = Layout.of(document)
        statement = layout.statement(listing)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return Refusal(_ADVICE)
        target = statement.targets[0]
        scope = scope_of(document, target)
        if scope is None or bound(scope, target) != 1:
            return Refusal(f"`{document.source(target)}` may be another list elsewhere; {_ADVICE}")
        owners = owners_in(statement.value)
        if owners is None:
            return Refusal(f"what is listed can't be written where it is used; {_ADVICE}")
        if read_elsewhere(model, document, scope, target):
            return Refusal(f"`{document.source(target)}` is read outside of its class; {_ADVICE}")
        texts = {owner: settled(document, scope, owner, statement) for owner in owners}
        if not all(texts.values()):
            return Refusal(f"the model may be another one where the list is used; {_ADVICE}")
        listed = written(document, statement.value, texts)
        edits = EditSet(document)
        try:
            uses = [n for n in ast.walk(scope) if same(n, target) and isinstance(n.ctx, ast.Load)]  # type: ignore[attr-defined]
            for use in uses:
                assert isinstance(use, ast.expr)
                edits.replace(use, listed)
            edits.delete_statement(statement)
            return finished(edits, "list the weights where they are used, after the first call")
        except EditConflict as conflict:
            return Refusal(str(conflict))


def scope_of(document: Document, target: ast.expr) -> ast.AST | None:
    """Where a target is known: the function or module of a name, the class of an attribute of self."""
    above = list(Layout.of(document).ancestors(target))
    if isinstance(target, ast.Name):
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        inner = next((node for node in above if isinstance(node, (*functions, ast.ClassDef))), document.tree)
        return inner if not isinstance(inner, ast.ClassDef) else None
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        return next((node for node in above if isinstance(node, ast.ClassDef)), None)
    return None


def bound(scope: ast.AST, target: ast.expr) -> int:
    """How often the target is bound in its scope; parameters of the same name count."""
    stores = sum(same(n, target) and isinstance(n.ctx, ast.Store) for n in ast.walk(scope))  # type: ignore[attr-defined]
    names = sum(isinstance(n, ast.arg) and n.arg == getattr(target, "id", None) for n in ast.walk(scope))
    changed = sum(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and same(n.func.value, target)
        for n in ast.walk(scope)
    )
    return stores + names + changed


def owners_in(value: ast.expr) -> list[ast.expr] | None:
    """The models whose weights are listed, and single Variables beside them; None where anything else is listed."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return gathered([owners_in(value.left), owners_in(value.right)])
    if isinstance(value, (ast.List, ast.Tuple)):
        return gathered([owners_in(e.value) if isinstance(e, ast.Starred) else single(e) for e in value.elts])
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("list", "tuple"):
        return owners_in(value.args[0]) if len(value.args) == 1 else None
    if isinstance(value, ast.Attribute) and isinstance(value.value, (ast.Name, ast.Attribute)):
        return [value.value]
    return None


def single(element: ast.expr) -> list[ast.expr] | None:
    """A Variable that is listed by itself."""
    return [element] if isinstance(element, (ast.Name, ast.Attribute)) else None


def gathered(parts: list[list[ast.expr] | None]) -> list[ast.expr] | None:
    known = [part for part in parts if part is not None]
    return [one for part in known for one in part] if len(known) == len(parts) else None


def read_elsewhere(model: Model, document: Document, scope: ast.AST, target: ast.expr) -> bool:
    """Whether the attribute of an object is read outside of its class, or may be."""
    if not isinstance(target, ast.Attribute) or not isinstance(scope, ast.ClassDef):
        return False
    inside = set(ast.walk(scope))
    for node in ast.walk(document.tree):
        if not isinstance(node, ast.Attribute) or node.attr != target.attr or node in inside:
            continue
        value = model.value_of(node.value)
        refs = value.refs if value is not None else []
        if not refs or any(isinstance(ref, Instance) and is_made_of(ref, scope) for ref in refs):
            return True
    return False


def is_made_of(instance: Instance, scope: ast.ClassDef) -> bool:
    return instance.cls is not None and any(cls.node is scope for cls in instance.cls.mro())


def settled(document: Document, scope: ast.AST, owner: ast.expr, statement: ast.stmt) -> str:
    """What the model is called wherever the list is used; "" where that can't be told."""
    if isinstance(owner, ast.Attribute):
        again = sum(same(n, owner) and isinstance(n.ctx, ast.Store) for n in ast.walk(scope))  # type: ignore[attr-defined]
        return document.source(owner) if isinstance(owner.value, ast.Name) and again <= 1 else ""
    assert isinstance(owner, ast.Name)
    functions = (node for node in Layout.of(document).ancestors(statement) if isinstance(node, ast.FunctionDef))
    within = next(functions, document.tree)
    if isinstance(scope, ast.ClassDef):
        return kept_as(within, owner) if within is not document.tree else owner.id
    stores = [n for n in ast.walk(scope) if same(n, owner) and isinstance(n.ctx, ast.Store)]  # type: ignore[attr-defined]
    given = any(isinstance(n, ast.arg) and n.arg == owner.id for n in ast.walk(scope))
    return owner.id if len(stores) <= 1 and not given else ""


def kept_as(method: ast.AST, owner: ast.Name) -> str:
    """The attribute of self that a method gives the model, where it is one."""
    for node in ast.walk(method):
        for one, item in pairs_of(node):
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and same(item, owner):
                return ast.unparse(one)
    return ""


def written(document: Document, value: ast.expr, texts: dict[ast.expr, str]) -> str:
    """The list, with each model by the name that it has everywhere."""
    start, end = document.span(value)
    pieces, done = [], start
    for owner in sorted(texts, key=lambda o: document.span(o)):
        first, last = document.span(owner)
        pieces += [document.text[done:first], texts[owner]]
        done = last
    return "".join([*pieces, document.text[done:end]])
