"""A source is a tensor that the tape does not watch.

`tape.gradient(y, x)` is None where `x` is no Variable and `tape.watch(x)` did not come before its use.

Before
------
    with tf.GradientTape() as tape:
        y = f(x)

After
-----
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)

Fix
---
Display only in this version.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class UnwatchedSource(Codemod):
    code = "TAP501"
    name = "unwatched-source"
    speaks_for: ClassVar = frozenset({How.UNWATCHED})
    why = "a tape watches Variables by itself; a plain tensor must be watched before it is used"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("watch the tensor at the beginning of the tape's block, or make it a tf.Variable if it is to be trained")
