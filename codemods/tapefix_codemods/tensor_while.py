"""A `while` runs on a tensor.

The test gives the loop its length; no gradient reaches what made it.

Before
------
    while p < 0.5:
        ...

After
-----
    for _ in range(limit):
        ... # weighed by the probability of getting there

Fix
---
Display only.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.freeze import repair_while


class TensorWhile(Codemod):
    code = "TAP304"
    name = "tensor-while"
    speaks_for: ClassVar = frozenset({How.PREDICATE_LOOP})
    why = "a loop's test only decides when to stop"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair_while(model, cut, self.threshold)
