"""Computed weights are put into a model by `set_weights` or `assign`.

The numbers are copied; the path from what they were computed from ends there.

Before
------
    model.set_weights(fast)
    loss = f(model(x))

After
-----
    prediction, _ = model.stateless_call(fast, model.non_trainable_variables, x)
    loss = f(prediction)

Fix
---
Unsafe: the model no longer holds the new weights afterwards.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class WeightsCopied(Codemod):
    code = "TAP207"
    name = "weights-copied"
    speaks_for: ClassVar = frozenset({How.WEIGHTS_COPIED})
    why = "get_weights and set_weights copy numbers between Variables"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("run the model on the computed weights by keras.Model.stateless_call, or write its forward pass as a function of the weights")
