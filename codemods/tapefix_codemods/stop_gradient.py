"""`stop_gradient` stands on the only path.

The value is detached on purpose, yet its weights are among the sources.

Before
------
    loss = f(tf.stop_gradient(model(x)))

After
-----
    loss = f(model(x))

Fix
---
Display only: the tool can't know which of the two was meant.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class StopGradient(Codemod):
    code = "TAP407"
    name = "stop-gradient"
    speaks_for: ClassVar = frozenset({How.STOPPED})
    why = "stop_gradient says that nothing may pass"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("it was written on purpose: take these weights out of the sources (trainable = False), or the call away")
