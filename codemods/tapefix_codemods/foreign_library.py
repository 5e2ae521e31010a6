"""A tensor is handed to another library.

SciPy, scikit-learn, PIL, OpenCV and pandas convert a tensor to an array.

Before
------
    p = scipy.special.expit(logits)

After
-----
    p = tf.sigmoid(logits)

Fix
---
Safe where TensorFlow has a function of the same meaning: `scipy.special`, `scipy.linalg`, `cdist` with squares or sums,
the normal density, cosine transforms, means of `statistics`. Otherwise the finding says what to write.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.flow.objects import Foreign
from tapefix.rewrite.leaving import said_in_tensorflow

#: what to write for the functions that people meet most, by the beginning of the dotted name
_ADVICE = {
    "scipy.stats.pearsonr": "write it out: `a, b = a - tf.reduce_mean(a), b - tf.reduce_mean(b)`, then "
    "`tf.reduce_sum(a * b) / (tf.norm(a) * tf.norm(b))`",
    "scipy.stats.wasserstein_distance": "for samples of one size it is "
    "`tf.reduce_mean(tf.abs(tf.sort(a) - tf.sort(b)))`",
    "scipy.stats": "write the density out, or use tensorflow_probability's distribution of that name",
    "scipy.ndimage": "convolve with `tf.nn.conv2d` or `tf.nn.depthwise_conv2d` and an explicit kernel and padding",
    "scipy.signal": "convolve with `tf.nn.conv1d` and the reversed filter, or by `tf.signal.fft`",
    "scipy.interpolate": "interpolate by `tf.gather` of the neighbours and their weighted sum",
    "scipy.integrate": "write the steps of the solver (Runge-Kutta) over tensors",
    "scipy.optimize": "differentiate by the implicit function theorem in a tf.custom_gradient",
    "scipy.sparse": "use `tf.sparse.sparse_dense_matmul`, or the dense matrix and `tf.matmul`",
    "sklearn.metrics": "write the measure with TensorFlow operations; most scores also need a smooth stand-in",
    "sklearn": "write the transformation with TensorFlow operations from its fitted numbers",
    "PIL": "use `tf.image`",
    "cv2": "use `tf.image`, or `tf.nn.depthwise_conv2d` for filters",
    "skimage": "use `tf.image`",
    "pandas": "keep the tensor out of the table; `tf.math.segment_sum` and its kin group and add",
    "librosa": "use `tf.signal`",
    "h5py": "what is stored are numbers; keep the tensors in a list",
    "statistics": "use `tf.reduce_mean`, `tf.math.reduce_std` and their kin",
}


class ForeignLibrary(Codemod):
    code = "TAP208"
    name = "foreign-library"
    speaks_for: ClassVar = frozenset({How.FOREIGN_CALL})
    why = "another library works on numbers"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        call = cut.spot.node
        name = cut.detail
        if isinstance(call, ast.Call):
            value = model.value_of(call.func)
            foreign = [ref.name for ref in (value.refs if value is not None else []) if isinstance(ref, Foreign)]
            name = model.api_of(call.func) or (foreign[0] if len(set(foreign)) == 1 else name)
            outcome = said_in_tensorflow(model, model.document_of(cut.spot), call, name)
            if isinstance(outcome, Fix) or "not in the table" not in outcome.reason:
                return outcome
        known = max((start for start in _ADVICE if name.startswith(start)), key=len, default="")
        advice = _ADVICE.get(known, "use TensorFlow operations of the same meaning")
        return Refusal(f"the library has no gradient; {advice}")
