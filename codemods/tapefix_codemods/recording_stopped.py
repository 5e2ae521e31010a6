"""What leads to the target is computed where the tape was told not to record.

`tape.stop_recording()` is for what nobody differentiates: updates, logs, the gradient call itself.

Before
------
    with tf.GradientTape() as tape:
        with tape.stop_recording():
            y = model(x)
        loss = f(y)

After
-----
    with tf.GradientTape() as tape:
        y = model(x)
        loss = f(y)

Fix
---
Safe: the statements come out of the block that stops the recording, in the same order; the forward value stays.
What else stands in that block stays there.

See https://www.tensorflow.org/api_docs/python/tf/GradientTape#stop_recording
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.stopped_recording import recorded


class RecordingStopped(Codemod):
    code = "TAP507"
    name = "recording-stopped"
    speaks_for: ClassVar = frozenset({How.NOT_RECORDED})
    why = "nothing inside stop_recording is on the tape"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return recorded(model, cut)
