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

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.leaving import called


class PredictInForwardPass(Codemod):
    code = "TAP204"
    name = "predict-in-forward-pass"
    speaks_for: ClassVar = frozenset({How.PREDICT})
    why = "predict() returns NumPy arrays"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        call = cut.spot.node
        if not isinstance(call, ast.Call):
            return Refusal("what is written here can't be taken apart")
        if not isinstance(call.func, ast.Attribute) or not cut.detail.startswith(".predict"):
            return Refusal("evaluate and test_on_batch give a number; compute the loss from the model's output")
        return called(model, model.document_of(cut.spot), call)
