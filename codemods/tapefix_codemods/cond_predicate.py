"""`tf.cond`, `tf.case` or `tf.switch_case` chooses by a trained predicate.

The predicate gets no gradient by any selection, and in eager mode neither does the branch that is not taken.

Before
------
    y = tf.cond(p > 0.5, lambda: a(x), lambda: b(x))

After
-----
    soft = tf.sigmoid(p - 0.5)
    gate = soft + tf.stop_gradient(tf.cast(p > 0.5, soft.dtype) - soft)
    y = gate * a(x) + (1.0 - gate) * b(x)

Fix
---
Unsafe: both branches run, and a straight-through gate is one of several ways (see TAP301). `tf.switch_case` by the
position of the largest score weighs all branches by the one-hot row of the choice.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.cond_call import repair_cond


class CondPredicate(Codemod):
    code = "TAP302"
    name = "cond-predicate"
    speaks_for: ClassVar = frozenset({How.PREDICATE_OP})
    why = "tf.cond uses the predicate only to choose"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair_cond(model, cut, self.threshold)
