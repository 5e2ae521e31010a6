"""Repairs of values that leave TensorFlow: NumPy calls, conversions and ndarray methods said in TensorFlow."""

from __future__ import annotations

from tapefix.rewrite.leaving.masked import masked
from tapefix.rewrite.leaving.models import called
from tapefix.rewrite.leaving.numbers import scalar
from tapefix.rewrite.leaving.numpy_calls import (
    attribute_in_tensorflow,
    said_in_tensorflow,
    tensors_in,
    written,
    written_call,
)
from tapefix.rewrite.leaving.stored import before_the_tape
from tapefix.rewrite.leaving.writing import finished, put, replaced

__all__ = [
    "attribute_in_tensorflow",
    "before_the_tape",
    "called",
    "finished",
    "masked",
    "put",
    "replaced",
    "said_in_tensorflow",
    "scalar",
    "tensors_in",
    "written",
    "written_call",
]
