"""`model.predict` is called in the forward pass.

`predict`, `predict_on_batch`, `evaluate` and `test_on_batch` run outside the tape and return NumPy values.

Before
------
    features = extractor.predict(x)

After
-----
    features = extractor(x, training=False)

Fix
---
Safe: predict runs in inference mode, so does the call.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class PredictInForwardPass(Codemod):
    code = "TAP204"
    name = "predict-in-forward-pass"
    speaks_for: ClassVar = frozenset({How.PREDICT})
    why = "predict() returns NumPy arrays"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("the call's result is used as an array")
