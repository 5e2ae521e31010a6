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

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Finding, Fix, Refusal
from tapefix.flow import Cut, How, Misuse, Model
from tapefix.rewrite.leaving import attribute_in_tensorflow, replaced, said_in_tensorflow, written_call


class NumpyFunction(Codemod):
    code = "TAP202"
    name = "numpy-function"
    speaks_for: ClassVar = frozenset({How.NUMPY_CALL})
    why = "a NumPy function converts its arguments to numbers"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        call = cut.spot.node
        if not isinstance(call, ast.Call):
            return Refusal("the NumPy function is not called here")
        name = model.api_of(call.func)
        return said_in_tensorflow(model, model.document_of(cut.spot), call, name or cut.detail.replace("np.", "numpy."))

    def mend(self, model: Model, misuse: Misuse) -> Finding | None:
        document = model.document_of(misuse.spot)
        node = misuse.spot.node
        if isinstance(node, ast.BinOp) and misuse.name == "complex":
            left = model.value_of(node.left)
            real = node.right if left is not None and isinstance(left.const, complex) else node.left
            template = (
                "tf.complex({x}, tf.zeros_like({x}))" if isinstance(real, ast.Name) else "tf.cast({x}, tf.complex64)"
            )
            outcome = replaced(document, real, template, "make the tensor complex", x=real)
            return self.mended(model, misuse, outcome)
        if not isinstance(node, ast.Attribute):
            return None
        if misuse.name == "dtype":
            template = (
                "{dtype}.as_numpy_dtype" if model.is_tensor(node.value) else "tf.as_dtype({dtype}).as_numpy_dtype"
            )
            return self.mended(model, misuse, replaced(document, node, template, "say the type to NumPy", dtype=node))
        call = next((c for c in ast.walk(document.tree) if isinstance(c, ast.Call) and c.func is node), None)
        if call is None:
            outcome = attribute_in_tensorflow(document, node)
        else:
            outcome = written_call(model, document, call, f"ndarray.{node.attr}")
        return Finding(self.code, self.name, misuse.message, self.why, document.place(call or node), outcome)
