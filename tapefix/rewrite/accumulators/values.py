"""Fitting a written value into its slot: shape, element type."""

from __future__ import annotations

import ast

from tapefix.documents.document import Document
from tapefix.rewrite import imports
from tapefix.rewrite.accumulators.access import Index, Write
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.maker import is_float
from tapefix.rewrite.accumulators.outcome import NotProven
from tapefix.rewrite.accumulators.rank_tables import SAME_RANK
from tapefix.rewrite.accumulators.syntax import dotted
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
    if made.dtype == "float32" and types <= {None} and not speaks_of_other_floats(job.document):
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
    """See `_slot_value`; a Variable is read at once: the slot keeps the value of that moment."""
    template, parts = _slot_value(job, edits, write, axes, slot_now, numbers_stay)
    return read_at_once(job, edits, write, template), parts


def read_at_once(job: Job, edits: EditSet, write: Write, template: str) -> str:
    """The template, with a Variable that would be kept as it is made a tensor."""
    if template == "{value}" and write.value is not None and job.facts.may_be_variable(write.value):
        return f"{job.tf(edits, write.statement)}.convert_to_tensor({{value}})"
    return template


def _slot_value(
    job: Job, edits: EditSet, write: Write, axes: list[int], slot_now: str, numbers_stay: bool
) -> tuple[str, dict[str, ast.AST | str]]:
    """The written value as a template that has the shape of its slot; `axes` are those that the slot does not have.
    `slot_now` is what the slot holds before, whose shape is taken where the sizes can't be named at that place;
    with `numbers_stay` a value that carries no gradient stays a NumPy array.

    NumPy and Variables stretch a value of fewer axes and drop leading axes of size one; a value whose number of
    axes is not known may want either.
    """
    assert write.value is not None
    parts: dict[str, ast.AST | str] = {"value": write.value}
    rank = value_rank(write.value, job)
    made = job.made
    slot = made.rank - len(axes) if made.rank is not None else None
    numbers = (
        numbers_stay and made.library == "numpy" and not write.use.carries and not job.facts.is_tensor(write.value)
    )
    if slot == 0 and (made.library == "numpy" or rank == 0):  # NumPy takes nothing but a scalar there
        other = numbers and speaks_of_other_floats(job.document) and made.dtype is not None
        return (f"{_np(edits, write)}.{made.dtype}({{value}})" if other else "{value}"), parts
    within = [size for axis, size in enumerate(made.shape or ()) if axis not in axes]
    if rank is not None and rank == slot and not may_be_stretched(job, write.value, within):
        if numbers and isinstance(write.value, ast.List | ast.Tuple | ast.Name) and not job.facts.is_array(write.value):
            dtype = f", {_np(edits, write)}.{made.dtype}" if made.dtype is not None else ""
            return f"{_np(edits, write)}.asarray({{value}}{dtype})", parts
        return "{value}", parts
    if slot is None:
        return _shaped_like(job, edits, write, axes, parts)
    try:
        job.slot_sizes(0, write.statement)
    except NotProven:
        if not slot_now:
            raise
        return _fitted_like(job, edits, write, rank, slot, slot_now), parts
    assert made.shape is not None
    sizes = ", ".join(job.source(size) for size in within)
    if numbers:  # they keep NumPy's own type
        dtype = f", {_np(edits, write)}.{made.dtype}" if made.dtype is not None else ""
        return f"{_np(edits, write)}.full([{sizes}], {{value}}{dtype})", parts
    if made.library == "numpy" and _may_be_an_array(job, write.value):
        raise NotProven(f"what line {job.line(write.statement)} writes may be an array of another type")
    tf = job.tf(edits, write.statement)
    if rank is not None and rank <= slot:
        return f"{tf}.broadcast_to({{value}}, [{sizes}])", parts
    if rank is not None or slot == 0 or fills_its_slot(job, write, slot):
        return f"{tf}.reshape({{value}}, [{sizes}])", parts
    return f"{tf}.reshape({tf}.broadcast_to({{value}}, [1, {sizes}]), [{sizes}])", parts


def _may_be_an_array(job: Job, value: ast.expr) -> bool:
    """Whether one branch of a value is a NumPy array."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            return any(_may_be_an_array(job, v) or job.facts.is_number(v) for v in (body, orelse))
        case ast.Call() | ast.Name():
            return job.facts.is_array(value)
    return False


def _np(edits: EditSet, write: Write) -> str:
    return imports.add_import(edits, "numpy", "np", write.statement)


def _fitted_like(job: Job, edits: EditSet, write: Write, rank: int | None, slot: int, slot_now: str) -> str:
    """The value in the shape of what the slot holds before."""
    tf = job.tf(edits, write.statement)
    if rank is not None and rank <= slot:
        return f"{tf}.broadcast_to({{value}}, {tf}.shape({slot_now}))"
    if rank is not None or slot == 0 or fills_its_slot(job, write, slot):
        return f"{tf}.reshape({{value}}, {tf}.shape({slot_now}))"
    return f"{tf}.reshape({tf}.broadcast_to({{value}}, {tf}.shape([{slot_now}])), {tf}.shape({slot_now}))"


def fills_its_slot(job: Job, write: Write, slot: int) -> bool:
    """Whether a value whose number of axes is not known has at least those of its slot: it is made by arithmetic from
    a whole slot of the buffer itself, or from something else of as many axes."""
    places = {ast.unparse(read.access.node) for read in job.reads if _same_axes(read.access.index, write.access.index)}

    def holds(node: ast.expr) -> bool:
        match node:
            case ast.BinOp(left=left, right=right):
                return holds(left) or holds(right)
            case ast.UnaryOp(operand=operand):
                return holds(operand)
            case ast.Subscript():
                return ast.unparse(node) in places
        return False

    assert write.value is not None
    return holds(write.value) or job.facts.least_rank(write.value) >= slot


def may_be_stretched(job: Job, value: ast.expr, sizes: list[ast.expr], depth: int = 3) -> bool:
    """Whether a value of as many axes as its slot has an axis of size one where the slot has none: `keepdims=True`,
    `x[:, :1]`, `x[:, None]`, a layer of one unit."""
    if any(job.dims.of(size).value == 1 for size in sizes):
        return False

    def one(node: ast.expr | None) -> bool:
        return node is not None and job.dims.of(node).value == 1

    match value:
        case ast.BinOp(op=ast.MatMult(), right=right):
            return may_be_stretched(job, right, sizes, depth)
        case ast.BinOp(left=left, right=right):
            operands = [o for o in (left, right) if job.facts.rank(o) == len(sizes)]
            return bool(operands) and all(may_be_stretched(job, o, sizes, depth) for o in operands)
        case ast.UnaryOp(operand=operand):
            return may_be_stretched(job, operand, sizes, depth)
        case ast.Subscript(slice=index):
            elements = index.elts if isinstance(index, ast.Tuple) else [index]
            return any(
                (isinstance(e, ast.Constant) and e.value is None)
                or (isinstance(e, ast.Attribute) and e.attr == "newaxis")
                or (isinstance(e, ast.Slice) and e.step is None and e.lower is None and one(e.upper))
                for e in elements
            )
        case ast.Name() if depth:
            last = getattr(job.facts, "last_value", lambda _: None)(value)
            return last is not None and may_be_stretched(job, last, sizes, depth - 1)
        case ast.Call(func=func, args=args, keywords=keywords):
            if any(k.arg == "keepdims" and isinstance(k.value, ast.Constant) and k.value.value for k in keywords):
                return True
            name = (dotted(func) or "").split(".")[-1]
            if name == "expand_dims":
                return True
            if name == "reshape" and len(args) > 1 and isinstance(args[1], ast.List | ast.Tuple):
                return any(one(size) for size in args[1].elts)
            made = job.facts.constructor(func)
            if made is not None and (dotted(made.func) or "").endswith("Dense"):
                units = made.args[0] if made.args else next((k.value for k in made.keywords if k.arg == "units"), None)
                return one(units)
            if args and name in SAME_RANK:
                return may_be_stretched(job, args[0], sizes, depth)
    return False


def _same_axes(a: Index, b: Index) -> bool:
    return [type(e) for e in a] == [type(e) for e in b]


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
