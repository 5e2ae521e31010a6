"""A condition, mask or index is the only path to the weights.

`tf.where(condition, a, b)`, boolean masks and indices pass the gradient to what is chosen, never to what chooses.

Before
------
    y = tf.where(score > 0.0, a, b)

After
-----
    soft = tf.sigmoid(score)
    gate = soft + tf.stop_gradient(tf.cast(score > 0.0, soft.dtype) - soft)
    y = gate * a + (1.0 - gate) * b

Fix
---
Unsafe: which soft choice stands for the hard one is a decision (see TAP301). Rows that a mask picks keep their values
and get a weight of one that has the gradient; logits that are masked by a huge number get it as a log-weight.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.selection import repair_selection


class SelectionByCondition(Codemod):
    code = "TAP303"
    name = "selection-by-condition"
    speaks_for: ClassVar = frozenset({How.SELECTION})
    why = "an index or a condition only chooses"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair_selection(model, cut, self.threshold)
