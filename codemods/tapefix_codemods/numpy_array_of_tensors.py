"""An array is made from tensors.

`np.array`, `np.stack`, `np.concatenate` and `np.append` turn tensors into numbers.

Before
------
    features = np.array([mean, spread])

After
-----
    features = tf.stack([mean, spread])

Fix
---
Safe where TensorFlow has the same function.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.leaving import said_in_tensorflow


class NumpyArrayOfTensors(Codemod):
    code = "TAP105"
    name = "numpy-array-of-tensors"
    speaks_for: ClassVar = frozenset({How.ARRAY_MADE})
    why = "np.array() and its kin convert each tensor to numbers"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        call = cut.spot.node
        if not isinstance(call, ast.Call):
            return Refusal("what is written here can't be taken apart")
        name = model.api_of(call.func) or cut.detail.replace("np.", "numpy.")
        return said_in_tensorflow(model, model.document_of(cut.spot), call, name)
