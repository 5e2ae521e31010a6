"""A derivative that is differentiated again is taken where the outer tape does not record it.

A second derivative needs the first one inside the block of the tape that is asked for the second.

Before
------
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    slope = tape.gradient(y, x)
    bend = tape.gradient(slope, x)

After
-----
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        slope = tape.gradient(y, x)
    bend = tape.gradient(slope, x)

Fix
---
Safe where the statements follow the outer tape's block, or come right before it: they move into it, in the same
order. A penalty that is computed before the tape of the whole loss costs no gradient its life and leaves each one
incomplete.

See https://www.tensorflow.org/guide/advanced_autodiff#higher-order_gradients
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.tape_block import recorded_derivative


class DerivativeOutsideOuterTape(Codemod):
    code = "TAP506"
    name = "derivative-outside-outer-tape"
    speaks_for: ClassVar = frozenset({How.DERIVED_OUTSIDE})
    why = "the outer tape records a derivative only if it is taken inside its block"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return recorded_derivative(model, cut)
