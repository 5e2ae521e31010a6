"""What is differentiated is computed after the tape's block has ended.

The tape records only what runs inside its block: a loss that is put together behind it has no gradient.

Before
------
    with tf.GradientTape() as tape:
        y = model(x)
    loss = f(y)
    grads = tape.gradient(loss, model.trainable_variables)

After
-----
    with tf.GradientTape() as tape:
        y = model(x)
        loss = f(y)
    grads = tape.gradient(loss, model.trainable_variables)

Fix
---
Safe: the statements that follow the block move into it, in the same order. Where the target is computed in the
gradient call itself, it gets a name at the end of the block.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.tape_block import lengthened_over, target_named


class ComputedAfterTape(Codemod):
    code = "TAP504"
    name = "computed-after-tape"
    speaks_for: ClassVar = frozenset({How.AFTER_TAPE})
    why = "the tape stopped recording at the end of its block"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        asked = cut.targets[0].spot.node if cut.targets else None
        if asked is not None and any(node is asked for node in ast.walk(cut.spot.node)):
            return target_named(model, cut)
        return lengthened_over(model, cut)
