"""Fitting a written value into its slot: shape, element type."""

from __future__ import annotations

import ast

from tapefix.documents.document import Document
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.maker import is_float
from tapefix.rewrite.accumulators.outcome import NotProven


def value_rank(value: ast.expr, job: Job) -> int | None:
    return job.facts.rank(value)


def squeezed(value: ast.expr, job: Job, depth: int = 4) -> bool:
    """Whether a value is `tf.squeeze(x)` without an axis: a batch of one loses its batch axis there."""
    match value:
        case ast.Call(func=ast.Attribute(attr="squeeze"), args=[_], keywords=[]):
            return True
        case ast.Name() if depth:
            last = getattr(job.facts, "last_value", lambda _: None)(value)
            return last is not None and squeezed(last, job, depth - 1)
    return False


def speaks_of_other_floats(document: Document) -> bool:
    """Whether the document names a float type besides float32, so that no tensor's type goes without saying."""
    return any(word in document.text for word in ("float64", "float16", "double", "mixed_precision", "np.float_"))


def wanted_cast(job: Job) -> str | None:
    """The type to cast the stacked tensor to, where the values' own type may differ from the buffer's.

    A NumPy buffer without a type is float64, yet wherever it meets a tensor of another type TensorFlow takes
    the tensor's (`array * tensor`, layers, losses), so the values' own type is the one that goes on working.
    A type that is written out is kept, unless it is float32 in a program that knows no other.
    """
    made = job.made
    if made.library != "numpy" or not made.dtype_written or made.dtype is None:
        return None
    types = {job.facts.dtype(write.value) for write in job.writes if write.value is not None}
    if types == {made.dtype}:
        return None
    if made.dtype == "float32" and types == {None} and not speaks_of_other_floats(job.document):
        return None
    return made.dtype


def holds_floats(job: Job) -> None:
    """Refuses a buffer of whole numbers: what is written into it is truncated there, and has no gradient anyhow."""
    if not is_float(job.made.dtype):
        raise NotProven(
            f"`{job.name}` (line {job.line(job.made.call)}) holds {job.made.dtype} values, "
            "so what is written into it is rounded and has no gradient"
        )
