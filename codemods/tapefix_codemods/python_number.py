"""A tensor is made a Python number and used as one.

`float()`, `int()`, `complex()` and `bool()` take the number out of the tensor.

Before
------
    total += float(loss)

After
-----
    total += loss

Fix
---
Safe for `float()` and `complex()` on the way to the target.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.leaving import replaced, scalar


class PythonNumber(Codemod):
    code = "TAP203"
    name = "python-number"
    speaks_for: ClassVar = frozenset({How.PYTHON_NUMBER})
    why = "a Python number has no history"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        call = cut.spot.node
        if not isinstance(call, ast.Call) or not call.args:
            return Refusal("the number is written into a text")
        value, document = call.args[0], model.document_of(cut.spot)
        message = f"keep `{document.source(value)}` a tensor"
        if cut.detail == "complex()":
            return replaced(document, call, "tf.cast({value}, tf.complex64)", message, value=value)
        if cut.detail != "float()":
            return Refusal(f"{cut.detail} makes a whole number or a truth value, which has no gradient")
        template = "{value}" if scalar(model, document, value) else "tf.reshape({value}, [])"
        return replaced(document, call, template, message, value=value)
