"""A NumPy or math function is applied to a tensor.

`np.*` and `math.*` convert a tensor to numbers before they work on it.

Before
------
    spread = np.std(x)

After
-----
    spread = tf.math.reduce_std(x)

Fix
---
Safe where TensorFlow has a function of the same meaning.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class NumpyFunction(Codemod):
    code = "TAP202"
    name = "numpy-function"
    speaks_for: ClassVar = frozenset({How.NUMPY_CALL})
    why = "a NumPy function converts its arguments to numbers"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("TensorFlow has no function of the same meaning")
