"""A value is cast to an integer or bool type.

Integers and truth values are not differentiable.

Before
------
    i = tf.cast(x, tf.int32)

After
-----
    i = x

Fix
---
Display only, or unsafe straight-through.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class IntegerCast(Codemod):
    code = "TAP404"
    name = "integer-cast"
    speaks_for: ClassVar = frozenset({How.INTEGER_CAST})
    why = "an integer has no gradient"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("an integer has no gradient; keep the value in floating point, or interpolate between the neighbours of the index")
