"""A Python `if` on a tensor chooses the branch.

The test's value is never part of the result: what made it gets None. In eager mode the branch that is not taken
is not on the tape, so its weights get None too. The same goes for a ternary, an early return, `match`, an entry of a
list or dictionary that is called, and a `break` that a tensor decides.

Before
------
    for row, p in zip(rows, chances):
        if p > 0.5:
            out.append(a(row[None]))
        else:
            out.append(b(row[None]))
    y = tf.concat(out, 0)

After
-----
    soft = tf.sigmoid(chances - 0.5)
    gate = soft + tf.stop_gradient(tf.cast(chances > 0.5, soft.dtype) - soft)
    y = gate * a(rows) + (1.0 - gate) * b(rows)

Fix
---
Unsafe: both branches run, and the gradient of the choice is one of several. The gate has the value of the decision
(straight-through), so that the loss stays; `[tool.tapefix.gates] threshold = "soft"` takes the sigmoid itself. A
number that is 0 or 1 already is the mask. Where only data or chance decides, `tf.where` selects. A loop over samples
is said once for the whole batch where its body is sure to treat each sample alike; otherwise it stays. Inputs of
operations that are not defined everywhere are guarded in the branch that is not chosen. A branch with effects beyond
its value stays as it is.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.merge import repair_if


class TensorIf(Codemod):
    code = "TAP301"
    name = "tensor-if"
    speaks_for: ClassVar = frozenset({How.PREDICATE})
    why = "a Python `if` uses the value only to choose; the choice has no gradient"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair_if(model, cut, self.threshold)
