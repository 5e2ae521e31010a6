"""Computed weights are put into a model by `set_weights` or `assign`.

The numbers are copied; the path from what they were computed from ends there: the meta-learner's rates and weights, the
hypernetwork, the flat vector get no gradient.

Before
------
    model.set_weights(fast)
    loss = f(model(x))

After
-----
    loss = f(model.stateless_call(fast, model.non_trainable_variables, x)[0])

Fix
---
Safe for `get_weights()` that is only read: `model.weights` are the same values with their history. Unsafe where a
tf.Module is run as a copy that holds the computed tensors in place of its Variables, and where the
model is run on computed weights by Keras 3's `stateless_call`: the model itself no longer holds them afterwards.

See https://keras.io/api/models/model/
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite import weights


class WeightsCopied(Codemod):
    code = "TAP207"
    name = "weights-copied"
    speaks_for: ClassVar = frozenset({How.WEIGHTS_COPIED, How.VARIABLE_WRITE})
    why = "get_weights, set_weights and assign copy numbers between Variables"

    def applies(self, model: Model, cut: Cut) -> bool:
        return cut.how is How.WEIGHTS_COPIED or weights.of_a_model(model, cut)

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return weights.run_on_computed(model, cut)
