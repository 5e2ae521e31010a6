"""`round`, `floor`, `ceil` or `sign` stands on the way to the loss.

TensorFlow gives None (round, floor, ceil) or zeros (sign).

Before
------
    y = tf.round(x)

After
-----
    y = x + tf.stop_gradient(tf.round(x) - x)

Fix
---
Unsafe: the straight-through estimator keeps the value and passes the gradient as if nothing were rounded.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.repair import made_straight_through


class Rounding(Codemod):
    code = "TAP402"
    name = "rounding"
    speaks_for: ClassVar = frozenset({How.ROUNDED})
    why = "rounding is flat: its derivative is zero or missing"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return made_straight_through(
            model, cut, self.threshold, "the number before it was rounded", ("leave the rounding out while training",)
        )
