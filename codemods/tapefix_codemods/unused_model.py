"""A layer or model is made and never used, or its output is dropped.

Its weights may still stand in a list of sources or in `trainable_variables`, where each of them gets None; and a
reader looks for a meaning that it does not have. The same is true of a layer that runs for nothing: its output is a
parameter that the function called never looks at, or a name that is given another value before it is read.

Before
------
    model = Net()
    spare = Net()
    loss = f(model(x))

After
-----
    model = Net()
    loss = f(model(x))

Fix
---
Unsafe: perhaps it was meant to be used. Taking it away also changes which random numbers the layers made after it
start from. No rewrite where an output is dropped: using it is another network.

See https://www.tensorflow.org/guide/autodiff#getting_a_gradient_of_none
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from tapefix.codemod import Codemod, Finding, Fix, Refusal, short
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.flow.unused import Unused
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished


class UnusedModel(Codemod):
    code = "TAP606"
    name = "unused-model"
    reads_flow = True
    speaks_for: ClassVar = frozenset({How.DROPPED})
    why = "nothing that is computed depends on it, so that its weights can have no gradient"

    def find(self, model: Model) -> Iterator[Finding]:
        for one in model.unused():
            place = model.document.place(one.statement)
            text = f"`{one.name}` is made and never used"
            yield Finding(self.code, self.name, text, self.why, place, removed(model.document, one))
        yield from super().find(model)

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("what it was meant for is not known: use the output, or leave the layer out")

    def message(self, model: Model, cut: Cut) -> str:
        if cut.detail == "overwritten":
            return f"each pass throws away what the last one made by `{short(model, cut)}`"
        if isinstance(cut.spot.node, ast.arg):
            return f"the output of {names(cut)} is handed over as `{cut.spot.node.arg}`, which is never read"
        return f"nothing reads the output of {names(cut)} after `{short(model, cut)}`"


def names(cut: Cut) -> str:
    """The layers whose output is dropped."""
    known = list(dict.fromkeys(f"`{origin.name}`" for origin in cut.origins if origin.name != "a weight"))
    return " and ".join(known[:2]) or "a layer"


def removed(document: Document, one: Unused) -> Fix | Refusal:
    """Without it, its `build` lines and its terms in sums of weights."""
    edits, layout = EditSet(document), Layout.of(document)
    try:
        edits.delete_statement(one.statement)
        for use in one.idle:
            statement = layout.statement(use)
            if isinstance(statement, ast.Expr):
                edits.delete_statement(statement)
                continue
            attribute = layout.parent(use)
            total = layout.parent(attribute) if attribute is not None else None
            if not isinstance(total, ast.BinOp):
                return Refusal(f"it is used on line {use.lineno}")
            edits.replace(total, document.source(total.left if total.right is attribute else total.right))
        return finished(edits, f"take `{one.name}` away", ("use it where it was meant to be used",), safe=False)
    except EditConflict as conflict:
        return Refusal(str(conflict))
