"""`bincount`, `count_nonzero`, `unique`, a histogram, or string and image coding stands on the way to the loss.

Counts are integers.

Before
------
    n = tf.math.count_nonzero(x > 0.0, dtype=tf.float32)

After
-----
    soft = tf.reduce_sum(tf.sigmoid(x))
    n = soft + tf.stop_gradient(tf.math.count_nonzero(x > 0.0, dtype=tf.float32) - soft)

Fix
---
Unsafe: the count stays, the gradient is that of a soft count. Histograms, unique values, strings and image codes are
only shown: a soft histogram is a new loss.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.repair import made_straight_through


class CountingOperation(Codemod):
    code = "TAP408"
    name = "counting-operation"
    speaks_for: ClassVar = frozenset({How.COUNTED})
    why = "counts, histograms and strings are integers"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return made_straight_through(
            model, cut, self.threshold, "a soft count", ("the moments of the values in place of their counts",)
        )
