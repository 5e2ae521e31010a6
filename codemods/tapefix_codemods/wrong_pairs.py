"""An optimizer is given the wrong things.

`apply_gradients` wants pairs, the gradient first. Gradients alone, pairs the other way round, or the gradients of the
trainable weights beside the list of all weights, where each meets the wrong one from the first statistic on: none of
these trains what it should. `minimize` wants a function; a tensor has lost its way back without a tape.

Before
------
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(model.trainable_variables, grads))

After
-----
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))

Fix
---
Safe: the pairs become those of each gradient and the variable that it was asked for. `minimize` with a tensor is
reported only, since the forward pass must move into a function or a tape.

See https://keras.io/api/optimizers/#applygradients-method
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal, short
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.leaving import finished

_WORDS = {
    "swapped": "pairs variables with gradients the wrong way round",
    "alone": "is a list of gradients without their variables",
    "longer": "also holds what is never trained, and pairs gradients with the wrong weights",
    "minimize": "is given a tensor, where it needs a function or a tape",
}


class WrongPairs(Codemod):
    code = "TAP608"
    name = "wrong-pairs"
    speaks_for: ClassVar = frozenset({How.WRONG_PAIRS})
    why = "an optimizer takes pairs of a gradient and the variable that it was asked for"

    def message(self, model: Model, cut: Cut) -> str:
        return f"`{short(model, cut)}` {_WORDS[cut.detail]}"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        document, node = model.document_of(cut.spot), cut.spot.node
        sources = next(iter(cut.lost), None)
        if cut.detail == "minimize":
            return Refusal("compute the loss under a tape, and give the optimizer its gradients")
        edits = EditSet(document)
        try:
            if cut.detail == "swapped" and isinstance(node, ast.Call):
                edits.rewrite(node, "{zip}({second}, {first})", zip=node.func, first=node.args[0], second=node.args[1])
                return finished(edits, "pair the gradients with their variables")
            assert isinstance(node, ast.expr)
            if sources is None or not is_plain(document, sources):
                return Refusal("pair each gradient with the variable that it was asked for")
            if cut.detail == "alone":
                edits.rewrite(node, "zip({grads}, {sources})", grads=node, sources=document.source(sources))
            else:
                edits.replace(node, document.source(sources))
            return finished(edits, "pair the gradients with their variables")
        except EditConflict as conflict:
            return Refusal(str(conflict))


def is_plain(document: Document, sources: ast.expr) -> bool:
    """A list that can be written again: names and attributes of this document."""
    parts = (ast.Name, ast.Attribute, ast.List, ast.Tuple, ast.BinOp, ast.Add, ast.expr_context)
    return all(isinstance(node, parts) for node in ast.walk(sources)) and any(
        node is sources for node in ast.walk(document.tree)
    )
