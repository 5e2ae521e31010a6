"""A tensor is made a Python number and used as one.

`float()`, `int()`, `complex()` and `bool()` take the number out of the tensor.

Before
------
    total += float(loss)

After
-----
    total += loss

Fix
---
Safe for `float()` and `complex()` on the way to the target.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Finding, Fix, Refusal
from tapefix.flow import Cut, How, Misuse, Model
from tapefix.rewrite.leaving import before_the_tape, numbers, replaced


class PythonNumber(Codemod):
    code = "TAP203"
    name = "python-number"
    speaks_for: ClassVar = frozenset({How.PYTHON_NUMBER})
    why = "a Python number has no history"

    def applies(self, model: Model, cut: Cut) -> bool:
        return not before_the_tape(model, cut)  # TAP209 speaks of those

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return numbers.kept(model, cut)

    def mend(self, model: Model, misuse: Misuse) -> Finding | None:
        call = misuse.spot.node
        if misuse.name != "round" or not isinstance(call, ast.Call) or not call.args:
            return None
        document = model.document_of(misuse.spot)
        outcome = replaced(document, call.args[0], "float({x})", "round the number", x=call.args[0])
        return self.mended(model, misuse, outcome)
