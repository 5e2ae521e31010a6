"""A constant is made of a Variable or of values that left TensorFlow.

`tf.constant(variable)` copies the numbers; so does `tf.constant(t, shape=...)`.

Before
------
    w = tf.constant(self.w)

After
-----
    w = tf.convert_to_tensor(self.w)

Fix
---
Safe.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class ConstantRewrap(Codemod):
    code = "TAP205"
    name = "constant-rewrap"
    speaks_for: ClassVar = frozenset({How.CONSTANT})
    why = "a constant has no history"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("the values left TensorFlow before")
