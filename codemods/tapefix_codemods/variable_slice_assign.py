"""A slice of a Variable is assigned in the forward pass, so that what is written loses its gradient.

`v[i].assign(x)` and the `scatter_*` methods change the Variable's memory. A tape records reads of a Variable,
not writes: what depends on `v` afterwards depends on `v` alone, and `x` gets None.

Before
------
    v = tf.Variable(tf.zeros([3, 4]))
    for i in range(3):
        v[i].assign(cell(x))

After
-----
    v = []
    for i in range(3):
        v.append(cell(x))
    v = tf.stack(v)

Fix
---
Safe where every slot is written once, in order, and none is read before the end. Otherwise the slots become a
Python list that is rebound, or the write becomes a functional update.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.written_in_place import repair


class VariableSliceAssign(Codemod):
    code = "TAP101"
    name = "variable-slice-assign"
    speaks_for: ClassVar = frozenset({How.VARIABLE_SLICE_WRITE})
    why = "assign() writes a value into the Variable; the tape does not record where it came from"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair(model, cut, self.unsafe)
