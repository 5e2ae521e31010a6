"""A tape that is not persistent is asked for gradients twice.

Such a tape lets go of what it recorded with its first answer; the second question raises a RuntimeError.

Before
------
    with tf.GradientTape() as tape:
        a, b = f(x), g(x)
    da = tape.gradient(a, w)
    db = tape.gradient(b, w)

After
-----
    with tf.GradientTape(persistent=True) as tape:
        a, b = f(x), g(x)
    da = tape.gradient(a, w)
    db = tape.gradient(b, w)

Fix
---
Safe: the tape becomes persistent. It keeps what it recorded until it is deleted, which costs memory.

See https://www.tensorflow.org/guide/autodiff#using_the_tape
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Finding, Fix, Refusal, Related
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.leaving import finished


class TapeUsedTwice(Codemod):
    code = "TAP503"
    name = "tape-used-twice"
    speaks_for: ClassVar = frozenset({How.TAPE_SPENT})
    why = "a tape that is not persistent answers once"

    def message(self, model: Model, cut: Cut) -> str:
        return f"`{cut.origins[0].name}` has already been asked and is not persistent: this raises RuntimeError"

    def finding(self, model: Model, cut: Cut, outcome: Fix | Refusal) -> Finding:
        found = super().finding(model, cut, outcome)
        made = cut.origins[0].spot
        if made is None:
            return found
        place = model.document_of(made).place(made.node)
        related = (Related(place, "the tape is made here"),)
        return Finding(found.code, found.name, found.message, found.why, found.place, outcome, related)

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        made = cut.origins[0].spot
        if made is None or not isinstance(made.node, ast.Call):
            return Refusal("the tape is made elsewhere; make it with persistent=True")
        call, document = made.node, model.document_of(made)
        if any(isinstance(arg, ast.Starred) for arg in call.args) or any(k.arg is None for k in call.keywords):
            return Refusal("what the tape is made with can't be told; make it with persistent=True")
        edits = EditSet(document)
        try:
            asked = [k.value for k in call.keywords if k.arg == "persistent"] + call.args[:1]
            if asked:
                edits.replace(asked[0], "True")
            else:
                start = document.text.index("(", document.span(call.func)[1]) + 1
                edits.replace_span(start, start, "persistent=True" + (", " if call.keywords else ""))
            return finished(edits, "make the tape persistent", ("ask once, for both targets' sources",))
        except EditConflict as conflict:
            return Refusal(str(conflict))
