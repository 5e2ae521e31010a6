"""A random draw from a prediction.

`tf.random.categorical`, Bernoulli and Poisson draws, and `sample` of a distribution that is not reparameterised.

Before
------
    i = tf.random.categorical(logits, 1)

After
-----
    row = gumbel_softmax(logits)

Fix
---
Unsafe: Gumbel-softmax or a score-function estimator.

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
