"""A NumPy buffer is filled with tensors.

`buffer[i] = t` converts the tensor to numbers. Everything that reads the buffer afterwards is a constant.

Before
------
    out = np.zeros((n, d), np.float32)
    for i in range(n):
        out[i] = layer(x[i])

After
-----
    out = []
    for i in range(n):
        out.append(layer(x[i]))
    out = tf.stack(out)

Fix
---
Safe where every slot is written once, in order; see TAP101 for the other forms.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.written_in_place import repair


class NumpyBuffer(Codemod):
    code = "TAP104"
    name = "numpy-buffer"
    speaks_for: ClassVar = frozenset({How.ARRAY_WRITE})
    why = "a NumPy array stores numbers; the tensor's history is left behind"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair(model, cut, self.unsafe)
