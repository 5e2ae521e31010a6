"""Rung 2: a tf.TensorArray where AutoGraph turns the loop into a loop of the graph.

Every slot is written exactly once (the order does not matter) and none is read before the end.
"""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.access import At
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan, Rung
from tapefix.rewrite.accumulators.reads import as_tensor
from tapefix.rewrite.accumulators.sequence import Filling, filling
from tapefix.rewrite.accumulators.values import holds_floats, slot_value, speaks_of_other_floats
from tapefix.rewrite.build import expression
from tapefix.rewrite.edits import EditSet


def plan_tensor_array(job: Job, edits: EditSet) -> Plan:
    """Edits for rung 2. Raises NotProven."""
    holds_floats(job)
    guards.every_use_is_known(job)
    guards.not_a_source(job)
    guards.used_in_one_function_by_one_name(job)
    guards.only_set(job)
    name = guards.held_by_one_local_name(job)
    guards.bound_once(job, name)
    fill = filling(job)
    if not any(job.facts.graph_loop(loop) for loop in fill.loops):
        raise NotProven(f"no loop of the graph fills `{name}`")
    guards.not_read_before(job, fill.end)
    tf = job.tf(edits, job.maker_statement)
    size = _size(job, tf, fill)
    edits.replace(job.made.call, f"{tf}.TensorArray({_dtype(job, tf)}, size={size})")
    axes = list(range(fill.depth)) if fill.flat else [fill.axis]
    for write in job.writes:
        value, parts = slot_value(job, edits, write, axes)
        positions = [write.access.index[axis] for axis in axes]
        position = _flat_position(job, [e.node for e in positions if isinstance(e, At)])
        edits.rewrite_statement(write.statement, f"{name} = {name}.write({position}, {value})", **parts)
    edits.insert_after(fill.end, f"{name} = {_stacked(job, edits, tf, fill, name)}")
    for read in job.reads:
        as_tensor(job, edits, read)
    message = "write the steps into a tf.TensorArray and stack it (the loop is one of the graph)"
    return Plan(Applicability.SAFE, (), message, Rung.TENSOR_ARRAY)


def _dtype(job: Job, tf: str) -> str:
    """The element type: that of the values, which TensorFlow asks for."""
    made = job.made
    known = {job.facts.dtype(w.value) for w in job.writes if w.value is not None} - {None}
    if len(known) == 1:
        return f"{tf}.{known.pop()}"
    if made.library == "variable":
        if made.dtype is not None:
            return f"{tf}.{made.dtype}"
        if made.like is not None:
            return f"{job.source(made.like)}.dtype"
    elif made.dtype == "float32" or not speaks_of_other_floats(job.document):
        return f"{tf}.float32"
    raise NotProven(f"the element type of what is written into `{job.name}` is not known")


def _size(job: Job, tf: str, fill: Filling) -> str:
    made = job.made
    if made.shape is not None:
        text = job.source(made.shape[fill.axis])
        for size in made.shape[1 : fill.depth]:
            text = expression("{a} * {b}", a=text, b=job.source(size))
        return text
    assert made.like is not None
    if fill.flat:
        raise NotProven(f"the sizes of `{job.name}` (line {job.line(made.call)}) are not written out")
    return f"{tf}.shape({job.source(made.like)})[{fill.axis}]"


def _flat_position(job: Job, positions: list[ast.expr]) -> str:
    text = job.source(positions[0])
    for axis, position in enumerate(positions[1:], 1):
        assert job.made.shape is not None
        size = job.source(job.made.shape[axis])
        text = expression("{a} * {n} + {b}", a=text, n=size, b=job.source(position))
    return text


def _stacked(job: Job, edits: EditSet, tf: str, fill: Filling, name: str) -> str:
    text = f"{name}.stack()"
    if fill.flat:
        return f"{tf}.reshape({text}, {job.shape_text(edits, fill.end)})"
    if fill.axis == 0:
        return text
    rank = job.made.rank
    if rank is None and job.made.like is not None:
        rank = job.facts.rank(job.made.like)
    if rank is None:
        lengths = {len(w.access.index) for w in job.writes}
        if len(lengths) > 1 or fill.axis >= max(lengths):
            raise NotProven(f"the number of axes of `{name}` is not known")
        rank = lengths.pop()
    order = [*range(1, fill.axis + 1), 0, *range(fill.axis + 1, rank)]
    return f"{tf}.transpose({text}, {order})"
