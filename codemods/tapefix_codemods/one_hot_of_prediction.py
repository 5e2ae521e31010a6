"""`one_hot` of a prediction.

The row is made from an integer.

Before
------
    row = tf.one_hot(tf.argmax(scores, -1), n)

After
-----
    probabilities = tf.nn.softmax(scores)
    row = probabilities + tf.stop_gradient(tf.one_hot(tf.argmax(scores, -1), n) - probabilities)

Fix
---
Unsafe: the row stays one-hot, the gradient is that of the probabilities (straight-through).

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.repair import made_straight_through


class OneHotOfPrediction(Codemod):
    code = "TAP405"
    name = "one-hot-of-prediction"
    speaks_for: ClassVar = frozenset({How.ONE_HOT})
    why = "one_hot takes integers"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return made_straight_through(model, cut, self.threshold, "the probabilities", ("a Gumbel-softmax draw",))
