"""`tf.py_function`, `tf.numpy_function` or a dataset stands on the way to the loss.

`tf.numpy_function` has no gradient; `tf.py_function` has one only while its body stays in TensorFlow.

Before
------
    y = tf.numpy_function(f, [x], tf.float32)

After
-----
    y = f(x)

Fix
---
Safe where the body stays in TensorFlow.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class PyFunction(Codemod):
    code = "TAP206"
    name = "py-function"
    speaks_for: ClassVar = frozenset({How.PY_FUNCTION, How.DATASET})
    why = "the tape does not look into Python functions and datasets"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("the function's body works on NumPy arrays; write it with TensorFlow operations, or give it a gradient by tf.custom_gradient")
