"""A constant is made of a Variable or of values that left TensorFlow.

`tf.constant(variable)` copies the numbers; so does `tf.constant(t, shape=...)`.

Before
------
    w = tf.constant(self.w)

After
-----
    w = tf.convert_to_tensor(self.w)

Fix
---
Safe.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Finding, Fix, Refusal
from tapefix.flow import Cut, How, Misuse, Model
from tapefix.rewrite.leaving import replaced


class ConstantRewrap(Codemod):
    code = "TAP205"
    name = "constant-rewrap"
    speaks_for: ClassVar = frozenset({How.CONSTANT})
    why = "a constant has no history"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        call = cut.spot.node
        if not isinstance(call, ast.Call):
            return Refusal("what is written here can't be taken apart")
        document = model.document_of(cut.spot)
        value = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "value"), None)
        if value is None:
            return Refusal("nothing is handed over here")
        given = {k.arg: k.value for k in call.keywords if k.arg not in ("value", "name")}
        if len(call.args) > 1:
            given["dtype"] = call.args[1]
        template = "tf.convert_to_tensor({value})"
        if "dtype" in given:
            template = "tf.cast({value}, {dtype})"
        if "shape" in given:
            template = template.replace("tf.convert_to_tensor({value})", "{value}")
            template = f"tf.reshape({template}, {{shape}})"
        return replaced(document, call, template, "use the value itself", value=value, **given)

    def mend(self, model: Model, misuse: Misuse) -> Finding | None:
        call = misuse.spot.node
        if misuse.name != "constant" or not isinstance(call, ast.Call):
            return None
        document = model.document_of(misuse.spot)
        outcome = replaced(document, call.func, "tf.convert_to_tensor", "stack the tensors")
        return Finding(self.code, self.name, misuse.message, self.why, document.place(call), outcome)
