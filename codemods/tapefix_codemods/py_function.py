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
Safe where the function only computes: it is called on the tensors themselves, and the NumPy calls in its body are said
in TensorFlow. Unsafe where it also branches, loops or calls functions of the program. A dataset that is made of tensors
and iterated at once gives way to the tensors themselves. A roll-out is played under the tape, in a function that is no
longer compiled (unsafe). No rewrite where the function calls other libraries, repeats until a value stands still, or
would run in a graph that can't do what Python does.

See https://www.tensorflow.org/api_docs/python/tf/numpy_function
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.leaving import datasets, python_functions


class PyFunction(Codemod):
    code = "TAP206"
    name = "py-function"
    speaks_for: ClassVar = frozenset({How.PY_FUNCTION, How.DATASET})
    why = "the tape does not look into Python functions and datasets"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return datasets.iterated(model, cut) if cut.how is How.DATASET else python_functions.called_directly(model, cut)
