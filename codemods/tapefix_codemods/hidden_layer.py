"""A layer is hidden from Keras in a plain object.

Keras finds the layers that are attributes of a layer or model, also in lists and dictionaries. It does not look into
objects of other classes: what these hold is in no list of weights, and is not trained.

Before
------
    class Head:
        def __init__(self):
            self.dense = tf.keras.layers.Dense(1)

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.head = Head()

After
-----
    class Head(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.head = Head()

Fix
---
None is offered: the class becomes a layer, with a `call` of its own, or its layers move into the model.

See https://keras.io/guides/making_new_layers_and_models_via_subclassing/
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal, short
from tapefix.flow import Cut, How, Model


class HiddenLayer(Codemod):
    code = "TAP607"
    name = "hidden-layer"
    speaks_for: ClassVar = frozenset({How.UNTRACKED})
    why = "Keras does not look into objects of plain classes, and lists no weights from there"

    def message(self, model: Model, cut: Cut) -> str:
        return f"`{short(model, cut)}` is kept in a `{cut.detail}`, which Keras does not track"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal(f"derive `{cut.detail}` from tf.keras.layers.Layer, or keep the layer in the model itself")
