"""A Python `if` on a tensor chooses the branch.

The test's value is never part of the result: what made it gets None. In eager mode the branch that is not taken
is not on the tape, so its weights get None too.

Before
------
    if s == 0:
        y = a(x)
    else:
        y = b(x)

After
-----
    mask = tf.cast(s, x.dtype)
    y = (1.0 - mask) * a(x) + mask * b(x)

Fix
---
Unsafe: both branches run, and the gradient of the choice is one of several.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.merge import repair_if


class TensorIf(Codemod):
    code = "TAP301"
    name = "tensor-if"
    speaks_for: ClassVar = frozenset({How.PREDICATE})
    why = "a Python `if` uses the value only to choose; the choice has no gradient"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair_if(model, cut, self.threshold)
