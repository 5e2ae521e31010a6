"""`argmax`, `argsort` or the indices of `top_k` stand on the way to the loss.

Positions are integers.

Before
------
    i = tf.argmax(scores, -1)

After
-----
    i = tf.reduce_sum(tf.nn.softmax(scores) * tf.range(n), -1)

Fix
---
Unsafe: soft-argmax, straight-through one-hot or Gumbel-softmax.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.repair import made_straight_through


class IndexOfPrediction(Codemod):
    code = "TAP401"
    name = "index-of-prediction"
    speaks_for: ClassVar = frozenset({How.INDEX_OF})
    why = "an index is an integer; it has no gradient"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return made_straight_through(
            model, cut, self.threshold, "the mean over the probabilities", ("a Gumbel-softmax draw",)
        )
