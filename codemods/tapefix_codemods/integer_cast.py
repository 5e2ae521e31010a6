"""A value is cast to an integer or bool type.

Integers and truth values are not differentiable.

Before
------
    whole = tf.cast(tf.cast(x, tf.int32), tf.float32)

After
-----
    whole = x + tf.stop_gradient(tf.cast(tf.cast(x, tf.int32), tf.float32) - x)

Fix
---
Unsafe: the value stays, the gradient is that of the number before the cast (straight-through), at the place where the
integer becomes a number again. A table that is looked up by it gets the slope between neighbours. Where the integer
goes elsewhere, the place is only shown.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.repair import made_straight_through


class IntegerCast(Codemod):
    code = "TAP404"
    name = "integer-cast"
    speaks_for: ClassVar = frozenset({How.INTEGER_CAST})
    why = "an integer has no gradient"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return made_straight_through(
            model, cut, self.threshold, "the number before the cast", ("leave the cast out while training",)
        )
