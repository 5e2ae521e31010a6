"""Fitting a written value into its slot: shape, element type."""

from __future__ import annotations

import ast

from tapefix.documents.document import Document
from tapefix.rewrite import imports
from tapefix.rewrite.accumulators.access import Write
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.maker import is_float
from tapefix.rewrite.accumulators.outcome import NotProven
from tapefix.rewrite.edits import EditSet


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


def slot_value(
    job: Job, edits: EditSet, write: Write, axes: list[int], slot_now: str = "", numbers_stay: bool = False
) -> tuple[str, dict[str, ast.AST | str]]:
    """The written value as a template that has the shape of its slot; `axes` are those that the slot does not have.
    `slot_now` is what the slot holds before, whose shape is taken where the sizes can't be named at that place;
    with `numbers_stay` a value that carries no gradient stays a NumPy array.

    NumPy and Variables stretch a value of fewer axes and drop leading axes of size one; a value whose number of
    axes is not known is reshaped, which is right for the second and raises, rather than going wrong, for the first.
    """
    assert write.value is not None
    parts: dict[str, ast.AST | str] = {"value": write.value}
    rank = value_rank(write.value, job)
    made = job.made
    slot = made.rank - len(axes) if made.rank is not None else None
    if slot == 0 and (made.library == "numpy" or rank == 0):
        return "{value}", parts  # NumPy takes nothing but a scalar there
    if rank is not None and rank == slot:
        return "{value}", parts
    if slot is None:
        return _shaped_like(job, edits, write, axes, parts)
    tf = job.tf(edits, write.statement)
    if rank is None and made.library == "numpy" and numbers_stay and not write.use.carries:
        tf = imports.add_import(edits, "numpy", "np", write.statement)  # numbers: they keep NumPy's own type
    assert made.shape is not None
    how = "broadcast_to" if rank is not None and rank < slot else "reshape"
    try:
        job.slot_sizes(0, write.statement)
    except NotProven:
        if not slot_now:
            raise
        return f"{tf}.{how}({{value}}, {tf}.shape({slot_now}))", parts
    sizes = ", ".join(job.source(size) for axis, size in enumerate(made.shape) if axis not in axes)
    return f"{tf}.{how}({{value}}, [{sizes}])", parts


def _shaped_like(
    job: Job, edits: EditSet, write: Write, axes: list[int], parts: dict[str, ast.AST | str]
) -> tuple[str, dict[str, ast.AST | str]]:
    """The value of a slot of a buffer that has the shape of another array."""
    assert write.value is not None
    like = job.made.like
    rank = value_rank(write.value, job)
    if like is None or not isinstance(write.access.node, ast.Subscript):
        return "{value}", parts
    whole = job.facts.rank(like)
    if rank is not None and whole is not None and rank == whole - len(axes):
        return "{value}", parts
    if not (squeezed(write.value, job) or rank == 0):
        return "{value}", parts
    tf = job.tf(edits, write.statement)
    how = "broadcast_to" if rank == 0 else "reshape"
    index = job.source(write.access.node.slice)
    return f"{tf}.{how}({{value}}, {tf}.shape({job.source(like)}[{index}]))", parts
