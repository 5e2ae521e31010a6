"""A tensor is handed to another library.

SciPy, scikit-learn, PIL, OpenCV and pandas convert a tensor to an array.

Before
------
    d = scipy.spatial.distance.cdist(a, b)

After
-----
    d = tf.norm(a[:, None] - b[None], axis=-1)

Fix
---
Display only.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model


class ForeignLibrary(Codemod):
    code = "TAP208"
    name = "foreign-library"
    speaks_for: ClassVar = frozenset({How.FOREIGN_CALL})
    why = "another library works on numbers"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        return Refusal("the library has no gradient; use TensorFlow operations of the same meaning")
