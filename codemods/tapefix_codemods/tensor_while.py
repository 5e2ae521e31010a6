"""A `while` runs on a tensor.

The test gives the loop its length; no gradient reaches what made it.

Before
------
    while total < limit and n < most:
        state = step(state)
        n += 1

After
-----
    running = 1.0
    while n < most:
        soft = tf.sigmoid(limit - total)
        gate = soft + tf.stop_gradient(tf.cast(total < limit, soft.dtype) - soft)
        running = running * gate
        state = running * step(state) + (1.0 - running) * state
        n += 1

Fix
---
Unsafe: all passes run, and each change is weighed by a gate that falls to 0 where the loop would have ended. Offered
only where the number of passes has another bound.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.freeze import repair_while


class TensorWhile(Codemod):
    code = "TAP304"
    name = "tensor-while"
    speaks_for: ClassVar = frozenset({How.PREDICATE_LOOP})
    why = "a loop's test only decides when to stop"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair_while(model, cut, self.threshold)
