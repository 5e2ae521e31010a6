"""Rung 1: the steps go into a list that is stacked when it is complete.

Every slot is written exactly once, in order, and none is read before the end. (A buffer without slots gives
an empty array; `tf.stack([])` raises.)
"""

from __future__ import annotations

import ast

from tapefix.rewrite import build
from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.access import Write
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan, Rung
from tapefix.rewrite.accumulators.reads import as_tensor
from tapefix.rewrite.accumulators.sequence import Filling, filling
from tapefix.rewrite.accumulators.values import holds_floats, slot_value, value_rank, wanted_cast
from tapefix.rewrite.edits import EditSet


def plan_list(job: Job, edits: EditSet) -> Plan:
    """Edits for rung 1. Raises NotProven."""
    holds_floats(job)
    guards.every_use_is_known(job)
    guards.not_a_source(job)
    guards.used_in_one_function_by_one_name(job)
    guards.only_set(job)
    fill = filling(job)
    for loop in fill.loops:
        if job.facts.graph_loop(loop):
            raise NotProven(f"the loop on line {job.line(loop)} is a loop of the graph, where a list can't grow")
    kind, name = job.holder
    if kind == "name":
        guards.bound_once(job, name)
    guards.not_read_before(job, fill.end)
    edits.replace(job.made.call, "[]")
    for write in job.writes:
        append(job, edits, write, fill, name)
    edits.insert_after(fill.end, f"{name} = {stacked(job, edits, fill, name)}")
    for read in job.reads:
        as_tensor(job, edits, read)
    axis = "" if fill.axis == 0 else f", axis={fill.axis}"
    message = f"collect the steps in a list, then tf.stack(...{axis})"
    return Plan(Applicability.SAFE, (), message, Rung.LIST)


def append(job: Job, edits: EditSet, write: Write, fill: Filling, name: str) -> None:
    assert write.value is not None
    value, parts = fitted(job, edits, write, fill)
    edits.rewrite_statement(write.statement, f"{name}.append({value})", **parts)


def fitted(job: Job, edits: EditSet, write: Write, fill: Filling) -> tuple[str, dict[str, ast.AST | str]]:
    """The written value as a template that has the shape of its slot, or gets it when all are reshaped at the end."""
    assert write.value is not None
    if value_rank(write.value, job) is None and reshaped_at_the_end(job, fill):
        return "{value}", {"value": write.value}
    axes = list(range(fill.depth)) if fill.flat else [fill.axis]
    return slot_value(job, edits, write, axes)


def reshaped_at_the_end(job: Job, fill: Filling) -> bool:
    """Whether the stacked list gets the buffer's shape, which takes away leading axes of size one in the slots."""
    if fill.flat:
        return True
    return fill.axis == 0 and job.made.shape is not None and _doubtful(job, fill)


def _doubtful(job: Job, fill: Filling) -> bool:
    slot = job.made.rank - 1 if job.made.rank is not None else None
    if slot == 0 and job.made.library == "numpy":
        return False
    ranks = {value_rank(w.value, job) for w in job.writes if w.value is not None}
    return ranks != {slot} and ranks <= {None, slot}


def stacked(job: Job, edits: EditSet, fill: Filling, name: str) -> str:
    """The complete list as one tensor."""
    tf = job.tf(edits, fill.end)
    steps = f"{name}[::-1]" if fill.backwards else name
    text = f"{tf}.stack({steps})" if fill.axis == 0 else f"{tf}.stack({steps}, axis={fill.axis})"
    if fill.flat or reshaped_at_the_end(job, fill):
        text = f"{tf}.reshape({text}, {job.shape_text(edits, fill.end)})"
    cast = wanted_cast(job)
    return build.expression("{tf}.cast({stack}, {tf}.{dtype})", tf=tf, stack=text, dtype=cast) if cast else text
