"""`tf.cond`, `tf.case` or `tf.switch_case` chooses by a trained predicate.

The predicate gets no gradient by any selection.

Before
------
    y = tf.cond(p > 0.5, a, b)

After
-----
    gate = hard + soft - tf.stop_gradient(soft)
    y = gate * a() + (1.0 - gate) * b()

Fix
---
Unsafe: a straight-through gate is one of several ways.

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
