"""A whole Variable is assigned in the forward pass and then used as a value.

`v.assign(x)` stores numbers: what reads `v` afterwards gets a value without a history, so that whatever made `x`
gets None. Where the Variable is state that must be kept, the write stays and the read goes to the tensor; a function
that only writes returns it to the one that reads.

Before
------
    self.state.assign(self.cell(x, self.state))
    return self.head(self.state)

After
-----
    state = self.cell(x, self.state)
    self.state.assign(state)
    return self.head(state)

Fix
---
Safe where the reads that follow the write are all known. Unsafe for a step of an inner optimisation: what reads the
Variables after it reads the stepped values, which the Variables themselves need no longer hold.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.stepped import stepped
from tapefix.rewrite.weights import of_a_model
from tapefix.rewrite.written_in_place import repair


class VariableAssign(Codemod):
    code = "TAP102"
    name = "variable-assign"
    speaks_for: ClassVar = frozenset({How.VARIABLE_WRITE})
    why = "assign() writes a value into the Variable; the tape does not record where it came from"

    def applies(self, model: Model, cut: Cut) -> bool:
        return not of_a_model(model, cut)  # TAP207 speaks of the weights of a model

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        outcome = repair(model, cut, self.unsafe)
        if isinstance(outcome, Fix):
            return outcome
        functional = stepped(model, cut)
        return functional if isinstance(functional, Fix) else outcome
