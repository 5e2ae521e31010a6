"""A source is of integer type.

TensorFlow differentiates by floating-point values only. `tf.Variable(3)` is an int32, and an image of uint8 cannot be
watched; that a model casts them to float later does not help.

Before
------
    w = tf.Variable(3)
    with tf.GradientTape() as tape:
        y = f(tf.cast(w, tf.float32))
    slope = tape.gradient(y, w)

After
-----
    w = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = f(tf.cast(w, tf.float32))
    slope = tape.gradient(y, w)

Fix
---
Safe where the source is only cast to a float, handed to a model, or asked for: it is made a float from the beginning.
Unsafe where it is computed with as an integer. Where it is an index, none is offered.

See https://www.tensorflow.org/guide/autodiff#3_took_gradients_through_an_integer_or_string
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal, short
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.float_source import made_float


class IntegerSource(Codemod):
    code = "TAP505"
    name = "integer-source"
    speaks_for: ClassVar = frozenset({How.INTEGER_SOURCE})
    why = "only floating-point values have gradients"

    def message(self, model: Model, cut: Cut) -> str:
        node, text = cut.spot.node, short(model, cut)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "watch":
            text = model.document_of(cut.spot).source(node.args[0]) if node.args else text
        return f"`{text}` is a source of integer type"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return made_float(model, cut)
