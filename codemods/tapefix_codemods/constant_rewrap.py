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
from tapefix.rewrite.leaving import replaced, scalar


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
        value = _value(call)
        if value is None:
            return Refusal("nothing is handed over here")
        given = {
            str(k.arg): k.value for k in call.keywords if k.arg not in (*_VALUE, "name", "trainable", "verify_shape")
        }
        if len(call.args) > 1:
            given["dtype"] = call.args[1]
        unknown = set(given) - {"dtype", "shape"}
        if unknown:
            return Refusal(f"`{min(unknown)}=` has no meaning for the tensor itself; leave the call out by hand")
        template = "tf.convert_to_tensor({value})"
        if "dtype" in given:
            template = "tf.cast({value}, {dtype})"
        if "shape" in given:
            template = template.replace("tf.convert_to_tensor({value})", "{value}")
            # a constant of one number is repeated, any other is laid out anew
            function = "tf.broadcast_to" if scalar(model, document, value) or _reshaped(value) else "tf.reshape"
            template = f"{function}({template}, {{shape}})"
        return replaced(document, call, template, "use the value itself", value=value, **given)

    def mend(self, model: Model, misuse: Misuse) -> Finding | None:
        call = misuse.spot.node
        if not isinstance(call, ast.Call):
            return None
        document = model.document_of(misuse.spot)
        if misuse.name == "constant" and ast.unparse(call.func).endswith("ragged.constant"):
            if len(call.args) != 1 or call.keywords:
                return None
            template = "tf.ragged.stack([tf.stack(row) for row in {rows}])"
            outcome = replaced(document, call, template, "stack the rows", rows=call.args[0])
        elif misuse.name == "constant":
            outcome = replaced(document, call.func, "tf.convert_to_tensor", "stack the tensors")
        elif misuse.name == "retyped":
            value = _value(call)
            dtype = (
                call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "dtype"), None)
            )
            if value is None or dtype is None or any(k.arg == "shape" for k in call.keywords):
                return None
            outcome = replaced(document, call, "tf.cast({value}, {dtype})", "cast the tensor", value=value, dtype=dtype)
        else:
            return None
        return self.mended(model, misuse, outcome)


_VALUE = ("value", "initial_value")
_OF_NO_MATTER = ("name", "trainable", "verify_shape")


def _value(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else next((k.value for k in call.keywords if k.arg in _VALUE), None)


def _reshaped(node: ast.expr) -> bool:
    """`tf.reshape(x, [])`: one number by its shape."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("reshape")
        and len(node.args) == 2
        and isinstance(node.args[1], (ast.List, ast.Tuple))
        and not node.args[1].elts
    )
