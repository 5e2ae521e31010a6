"""`model.variables` or `model.weights` stands where `model.trainable_variables` is meant.

They also hold what is never trained, such as the moving statistics of a batch normalisation or the seeds of a dropout,
whose gradients are None. The same goes for lists that are put together of the `weights` of layers.

Before
------
    grads = tape.gradient(loss, model.variables)
    optimizer.apply_gradients(zip(grads, model.variables))

After
-----
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))

Fix
---
Safe: every place of the file that pairs these weights with gradients changes with it; other uses of the list stay.
Unsafe where the list is kept and used for something else, too, such as saving.

See https://keras.io/api/layers/base_layer/#trainableweights-property
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.flow.objects import WeightOf, Weights, parts_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished
from tapefix.rewrite.said import last_name

_LISTS = {"variables": "trainable_variables", "weights": "trainable_weights"}
_PAIRING = frozenset({"zip", "apply_gradients", "apply", "gradient", "jacobian"})
_COPIES = frozenset({"list", "tuple"})
#: what may be done with a list of sources that loses what is not trained
_TRAINING = _PAIRING | frozenset({"len", "enumerate", "build", "minimize", "watch", "print"})


class AllWeightsAsSources(Codemod):
    code = "TAP604"
    name = "all-weights-as-sources"
    speaks_for: ClassVar = frozenset({How.ALL_WEIGHTS})
    why = "statistics and other weights that are not trained have no gradient"

    def message(self, model: Model, cut: Cut) -> str:
        return f"`{cut.detail}` also holds what is never trained"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        document = model.document_of(cut.spot)
        asked = [node for node in ast.walk(cut.spot.node) if lists_all(model, node)]
        kept = [node for node in cut.lost if node not in asked]
        owners = {id(owner) for node in (*asked, *kept) for owner in owners_of(model, node)}
        if not owners or not set(kept) <= set(ast.walk(document.tree)):
            return Refusal("the list of sources is made elsewhere; make it of the trainable variables there")
        edits = EditSet(document)
        try:
            for node in ast.walk(document.tree):
                if isinstance(node, ast.Attribute) and lists_all(model, node) and owners & owners_ids(model, node):
                    if node in kept or is_paired(model, document, node):
                        edits.rewrite(node, "{owner}." + _LISTS[node.attr], owner=node.value)
            safe = all(is_for_training(model, document, node) for node in kept)
            message = "take the trainable variables, here and where they are paired with gradients"
            return finished(edits, message, safe=safe)
        except EditConflict as conflict:
            return Refusal(str(conflict))


def lists_all(model: Model, node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _LISTS and bool(owners_of(model, node))


def owners_of(model: Model, node: ast.AST) -> list[object]:
    """The models whose weights a list may hold."""
    value = model.value_of(node)
    return [ref.owner for ref in value.refs if isinstance(ref, Weights)] if value is not None else []


def owners_ids(model: Model, node: ast.AST) -> set[int]:
    return {id(owner) for owner in owners_of(model, node)}


def is_paired(model: Model, document: Document, node: ast.expr) -> bool:
    """An argument of `zip` beside gradients, of the gradient call, or of the optimizer."""
    layout, whole = Layout.of(document), node
    call = layout.parent(whole)
    while isinstance(call, (ast.BinOp, ast.List, ast.Tuple, ast.Starred)):
        whole, call = call, layout.parent(call)
    if not isinstance(call, ast.Call) or called(call) not in _PAIRING:
        return False
    return not any(is_weights(model, other) for other in call.args if called(call) == "zip" and other is not whole)


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_weights(model: Model, node: ast.AST) -> bool:
    """Weights of another model: what they are paired with is copied, not trained."""
    value = model.value_of(node)
    return value is not None and any(
        isinstance(ref, (Weights, WeightOf)) for part in parts_of(value) for ref in part.refs
    )


def is_for_training(model: Model, document: Document, listing: ast.expr) -> bool:
    """Whatever the list that is made there is bound to is only paired with gradients, counted, or gone through."""
    layout = Layout.of(document)
    todo, done = [layout.statement(listing)], set[ast.stmt]()
    while todo:
        statement = todo.pop()
        if statement in done:
            continue
        done.add(statement)
        names = names_bound(layout, statement) - {""}
        if not names:
            return False
        for use in ast.walk(document.tree):
            if last_name(use) not in names or not isinstance(getattr(use, "ctx", None), ast.Load):
                continue
            if lists_all(model, use) or layout.statement(use) in done or is_training_use(layout, use):
                continue
            if not is_handed_on(layout, use):
                return False
            todo.append(layout.statement(use))
    return True


def names_bound(layout: Layout, statement: ast.stmt) -> set[str]:
    """The names by which what the statement makes is known: its targets, or the function that returns it."""
    if isinstance(statement, ast.Assign):
        return {n for target in statement.targets if (n := last_name(target))}
    if isinstance(statement, ast.AugAssign):
        return {last_name(statement.target)}
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return {last_name(n) for n in ast.iter_child_nodes(statement.value.func)}
    if isinstance(statement, ast.Return):
        return {n.name for n in layout.ancestors(statement) if isinstance(n, ast.FunctionDef)}
    return set()


def is_training_use(layout: Layout, use: ast.AST) -> bool:
    above = layout.parent(use)
    if isinstance(above, ast.Call) and above.func is use:
        above = layout.parent(above)
    while isinstance(above, ast.Call) and called(above) in _COPIES:
        above = layout.parent(above)
    return isinstance(above, ast.comprehension) or (isinstance(above, ast.Call) and called(above) in _TRAINING)


def is_handed_on(layout: Layout, use: ast.AST) -> bool:
    """The list goes on under another name or out of the function: as it is, as a copy, or out of a dict."""
    whole, above = use, layout.parent(use)
    while isinstance(above, (ast.Attribute, ast.Call)):
        values = isinstance(above, ast.Attribute) and above.attr == "values"
        copy = isinstance(above, ast.Call) and (above.func is whole or called(above) in _COPIES)
        if not (values or copy):
            return False
        whole, above = above, layout.parent(above)
    return isinstance(above, (ast.Return, ast.Assign)) and above.value is whole
