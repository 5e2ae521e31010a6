"""A `tf.Variable` is made from tensors in the forward pass.

A new Variable is a new leaf of the computation: it has no history, so that what it was made of gets None.

Before
------
    kernel = tf.Variable(tf.concat([a, b], 0))

After
-----
    kernel = tf.concat([a, b], 0)

Fix
---
Safe where the value is only read.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.written_in_place import repair


class VariableMadeInForwardPass(Codemod):
    code = "TAP103"
    name = "variable-made-in-forward-pass"
    speaks_for: ClassVar = frozenset({How.VARIABLE_MADE})
    why = "tf.Variable() copies the numbers of its initial value into a new leaf"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair(model, cut)
