"""`argmax`, `argsort` or the indices of `top_k` stand on the way to the loss.

Positions are integers.

Before
------
    row = tf.gather(table, tf.argmax(scores, -1))

After
-----
    probabilities = tf.nn.softmax(scores)
    soft = tf.tensordot(probabilities, table, 1)
    row = soft + tf.stop_gradient(tf.gather(table, tf.argmax(scores, -1)) - soft)

Fix
---
Unsafe: what is made of the position stays, the gradient is that of its mean over the probabilities (straight-through);
what `top_k` or `argsort` picks gets a weight of one with the gradient of the scores. An order that is used as numbers
(ranks) has no such counterpart and is only shown: soft ranks or a loss on pairs are other losses.

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
