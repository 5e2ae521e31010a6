"""The forward pass runs before, or outside, the tape.

What was computed before the `with` block is a constant for the tape.

Before
------
    y = model(x)
    with tf.GradientTape() as tape:
        loss = f(y)

After
-----
    with tf.GradientTape() as tape:
        y = model(x)
        loss = f(y)

Fix
---
Display only in this version.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class ForwardOutsideTape(Codemod):
    code = "TAP502"
    name = "forward-outside-tape"
    speaks_for: ClassVar = frozenset({How.OUTSIDE_TAPE})
    why = "the tape records what runs inside its block"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("run the forward pass inside the tape's block")
