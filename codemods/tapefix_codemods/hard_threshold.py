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


class HardThreshold(Codemod):
    code = "TAP403"
    name = "hard-threshold"
    speaks_for: ClassVar = frozenset({How.COMPARED})
    why = "a comparison gives true or false; it has no gradient"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("the comparison has no gradient; use a sigmoid of the difference, alone or straight-through")
