"""A value is taken out of TensorFlow in the forward pass.

`.numpy()`, `K.eval`, `K.get_value`, `convert_to_numpy`, `.item()` and `.tolist()` give plain numbers.

Before
------
    loss = cost(prediction.numpy())

After
-----
    loss = cost(prediction)

Fix
---
Safe where all that follows on the way to the target can stay in TensorFlow.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.flow.values import Kind
from tapefix.rewrite.leaving import replaced


class NumpyEscape(Codemod):
    code = "TAP201"
    name = "numpy-escape"
    speaks_for: ClassVar = frozenset({How.TO_NUMPY})
    why = "the numbers leave TensorFlow; the tape can't follow them"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        call = cut.spot.node
        if not isinstance(call, ast.Call):
            return Refusal("what is written here can't be taken apart")
        method = isinstance(call.func, ast.Attribute) and not model.api_of(call.func)
        value = call.func.value if method and isinstance(call.func, ast.Attribute) else call.args[0] if call.args else None
        if value is None:
            return Refusal("nothing is handed over here")
        document = model.document_of(cut.spot)
        message = f"keep `{document.source(value)}` in TensorFlow"
        if cut.detail == ".item()":
            return replaced(document, call, "tf.reshape({value}, [])", message, value=value)
        if model.kind_of(value) & Kind.VARIABLE:
            return replaced(document, call, "tf.convert_to_tensor({value})", message, value=value)
        return replaced(document, call, "{value}", message, value=value)
