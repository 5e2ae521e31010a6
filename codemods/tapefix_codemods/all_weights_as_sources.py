"""`model.variables` or `model.weights` stands where `model.trainable_variables` is meant.

They also hold what is never trained, such as the moving statistics of a batch normalisation, whose gradients are None.

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

See https://keras.io/api/layers/base_layer/#trainableweights-property
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.flow.values import Weights
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished

_LISTS = {"variables": "trainable_variables", "weights": "trainable_weights"}
_PAIRING = frozenset({"zip", "apply_gradients", "apply", "gradient", "jacobian"})


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
        owners = {id(owner) for node in asked for owner in owners_of(model, node)}
        if not owners:
            return Refusal("the list of sources is made elsewhere; make it of the trainable variables there")
        edits = EditSet(document)
        try:
            for node in ast.walk(document.tree):
                if isinstance(node, ast.Attribute) and lists_all(model, node) and owners & owners_ids(model, node):
                    if is_paired(document, node):
                        edits.rewrite(node, "{owner}." + _LISTS[node.attr], owner=node.value)
            return finished(edits, "take the trainable variables, here and where they are paired with gradients")
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


def is_paired(document: Document, node: ast.AST) -> bool:
    """An argument of `zip`, of the gradient call, or of the optimizer."""
    call = Layout.of(document).parent(node)
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in _PAIRING
