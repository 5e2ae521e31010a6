"""The loss is a metric.

Accuracy, F1, IoU and most of `keras.metrics.*` count. `Mean` and `Sum` take numbers that have a gradient, but sum them
up in Variables.

Before
------
    loss = 1.0 - accuracy(y, p)

After
-----
    soft = tf.reduce_mean(1.0 - tf.abs(y - p))
    loss = 1.0 - (soft + tf.stop_gradient(accuracy(y, p) - soft))

Fix
---
Unsafe: the metric's value stays, the gradient is that of its expectation under the predicted probabilities, or of the
values that `Mean` and `Sum` were given. To train on the cross-entropy, or on these values, and to report the metric
beside it is the usual way.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.metrics import repair_metric


class MetricAsLoss(Codemod):
    code = "TAP409"
    name = "metric-as-loss"
    speaks_for: ClassVar = frozenset({How.METRIC})
    why = "a metric counts right answers, or sums up in Variables, where the numbers arrive without their history"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return repair_metric(model, cut, self.threshold)
