"""A value is taken out of TensorFlow in the forward pass.

`.numpy()`, `K.eval`, `K.get_value`, `convert_to_numpy`, `.item()` and `.tolist()` give plain numbers.

Before
------
    loss = cost(prediction.numpy())

After
-----
    loss = cost(prediction)

Fix
---
Safe where all that follows on the way to the target can stay in TensorFlow.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Finding, Fix, Refusal
from tapefix.flow import Cut, How, Misuse, Model
from tapefix.rewrite.leaving import before_the_tape, escapes, masked


class NumpyEscape(Codemod):
    code = "TAP201"
    name = "numpy-escape"
    speaks_for: ClassVar = frozenset({How.TO_NUMPY})
    why = "the numbers leave TensorFlow; the tape can't follow them"

    def applies(self, model: Model, cut: Cut) -> bool:
        return not before_the_tape(model, cut)  # TAP209 speaks of those

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return escapes.kept(model, cut)

    def mend(self, model: Model, misuse: Misuse) -> Finding | None:
        if misuse.name == "index":
            return self.mended(model, misuse, escapes.indexed(model, misuse))
        if misuse.name != "item":
            return None
        return self.mended(model, misuse, masked(model, model.document_of(misuse.spot), misuse.spot.node))
