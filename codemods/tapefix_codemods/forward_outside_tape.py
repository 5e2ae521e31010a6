"""The forward pass runs before, or outside, the tape.

What was computed before the `with` block is a constant for the tape: roll-outs played before it, outputs of the
model handed to a training step, objects built once from Variables.

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
Safe where the block can open before the forward pass: nothing runs twice or in another order. Unsafe where the
forward pass stands before a loop (it then runs in every step) or in the caller of the function that opens the tape
(which then gets the inputs in place of the outputs).

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.flow.values import Function
from tapefix.rewrite.into_tape import handed_over, moved
from tapefix.rewrite.tape_block import Block, block_of, widened


class ForwardOutsideTape(Codemod):
    code = "TAP502"
    name = "forward-outside-tape"
    speaks_for: ClassVar = frozenset({How.OUTSIDE_TAPE})
    why = "the tape records what runs inside its block"

    def applies(self, model: Model, cut: Cut) -> bool:
        return not _only_makes_a_generator(model, cut)

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        block = block_of(model, cut)
        if isinstance(block, Refusal):
            return block
        cuts = [other for other in model.of(How.OUTSIDE_TAPE) if _same(block_of(model, other), block)]
        first = widened(model, cuts, block)
        if isinstance(first, Fix):
            return first
        for other in (moved(model, cuts, block), handed_over(model, cuts, block)):
            if isinstance(other, Fix):
                return other
        return first


def _same(one: Block | Refusal, other: Block) -> bool:
    return isinstance(one, Block) and one.statement is other.statement


def _only_makes_a_generator(model: Model, cut: Cut) -> bool:
    """Whether the statement calls a generator function: its body runs where the generator is consumed."""
    for node in ast.walk(cut.spot.node):
        value = model.value_of(node.func) if isinstance(node, ast.Call) else None
        for ref in value.refs if value is not None else []:
            if isinstance(ref, Function) and any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(ref.node)):
                return True
    return False
