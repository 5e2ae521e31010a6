"""A random draw from a prediction.

`tf.random.categorical` and its kin give integers.

Before
------
    row = tf.gather(table, tf.random.categorical(logits, 1)[:, 0])

After
-----
    probabilities = tf.nn.softmax(logits)
    soft = tf.tensordot(probabilities, table, 1)
    row = soft + tf.stop_gradient(tf.gather(table, tf.random.categorical(logits, 1)[:, 0]) - soft)

Fix
---
Unsafe: the draw stays, the gradient is that of the mean over the distribution (straight-through). A Gumbel-softmax
draw or the score-function estimator are the other ways.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.repair import made_straight_through


class Sampled(Codemod):
    code = "TAP406"
    name = "sampled"
    speaks_for: ClassVar = frozenset({How.SAMPLED})
    why = "a draw has no gradient with respect to the probabilities"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return made_straight_through(
            model,
            cut,
            self.threshold,
            "the distribution",
            ("a Gumbel-softmax draw", "the score-function estimator (REINFORCE)"),
        )
