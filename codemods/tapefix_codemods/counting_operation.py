"""`bincount`, `unique`, a histogram, or string and image coding stands on the way to the loss.

Counts are integers.

Before
------
    h = tf.histogram_fixed_width(x, r, n)

After
-----
    h = tf.reduce_sum(tf.nn.relu(1.0 - tf.abs(x[:, None] - centres) / width), 0)

Fix
---
Display only: a soft histogram is a new loss.

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
