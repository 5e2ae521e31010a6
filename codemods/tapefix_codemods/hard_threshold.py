"""A comparison is used as a number.

`tf.cast(x > t, tf.float32)` is flat on both sides of the threshold.

Before
------
    hard = tf.cast(x > t, tf.float32)

After
-----
    soft = tf.sigmoid(x - t)
    hard = soft + tf.stop_gradient(tf.cast(x > t, tf.float32) - soft)

Fix
---
Unsafe: straight-through or soft.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.repair import made_straight_through


class HardThreshold(Codemod):
    code = "TAP403"
    name = "hard-threshold"
    speaks_for: ClassVar = frozenset({How.COMPARED})
    why = "a comparison gives true or false; it has no gradient"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return made_straight_through(
            model, cut, self.threshold, "a sigmoid of the difference", ("a sigmoid with another slope",)
        )
