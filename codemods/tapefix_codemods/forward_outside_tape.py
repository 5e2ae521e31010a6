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
(which then gets the inputs in place of the outputs), where a constructor computes a table from Variables (which
becomes a property), where a generator yields the outputs (it then yields the inputs), or where a function that the
tape runs only hands on a value (it then computes it). What makes Variables is never moved into a step.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.accumulators.syntax import syntax_of
from tapefix.rewrite.into_closure import moved_into_closures
from tapefix.rewrite.into_tape import handed_over, moved, why_not_again
from tapefix.rewrite.on_demand import computed_on_demand, made_with_the_object
from tapefix.rewrite.tape_block import Block, block_of, widened
from tapefix.rewrite.yielded import fed_by_the_loop, is_yielded


class ForwardOutsideTape(Codemod):
    code = "TAP502"
    name = "forward-outside-tape"
    speaks_for: ClassVar = frozenset({How.OUTSIDE_TAPE})
    why = "the tape records what runs inside its block"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        minimised = {target.spot.node for target in cut.targets if target.what == "minimize"}
        if minimised:
            outside = model.of(How.OUTSIDE_TAPE)
            return moved_into_closures(
                model, [other for other in outside if minimised & {target.spot.node for target in other.targets}]
            )
        block = block_of(model, cut)
        if isinstance(block, Refusal):
            closed = moved_into_closures(model, [cut])
            return closed if isinstance(closed, Fix) else block
        cuts = [other for other in model.of(How.OUTSIDE_TAPE) if _same(block_of(model, other), block)]
        if is_yielded(cut):
            return fed_by_the_loop(model, cut, block)
        first = widened(model, cuts, block)
        if isinstance(first, Fix):
            return first
        for rewrite in (
            moved(model, cuts, block),
            handed_over(model, cuts, block),
            computed_on_demand(model, cut),
            moved_into_closures(model, cuts),
        ):
            if isinstance(rewrite, Fix):
                return rewrite
        if made_with_the_object(cut):
            return computed_on_demand(model, cut)
        problem = why_not_again(model, syntax_of(model.document_of(cut.spot)).statement(cut.spot.node))
        return Refusal(problem) if problem else first


def _same(one: Block | Refusal, other: Block) -> bool:
    return isinstance(one, Block) and one.statement is other.statement
