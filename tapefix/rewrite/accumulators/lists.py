"""Rung 1: the steps go into a list that is stacked when it is complete.

Every slot is written exactly once, in order, and none is read before the end. Where the buffer may have no slots,
what it is made as stays: `tf.stack([], axis=1)` raises.
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
from tapefix.rewrite.accumulators.values import holds_floats, read_at_once, slot_value, value_rank, wanted_cast
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
    if fill.flat and value_rank(write.value, job) is None and job.made.rank == fill.depth:
        return read_at_once(job, edits, write, "{value}"), {"value": write.value}
    axes = list(range(fill.depth)) if fill.flat else [fill.axis]
    return slot_value(job, edits, write, axes, numbers_stay=True)


def stacked(job: Job, edits: EditSet, fill: Filling, name: str) -> str:
    """The complete list as one tensor."""
    tf = job.tf(edits, fill.end)
    steps = f"{name}[::-1]" if fill.backwards else name
    text = f"{tf}.stack({steps})" if fill.axis == 0 else f"{tf}.stack({steps}, axis={fill.axis})"
    if fill.flat:
        text = f"{tf}.reshape({text}, {job.shape_text(edits, fill.end)})"
    cast = wanted_cast(job)
    if cast:
        text = build.expression("{tf}.cast({stack}, {tf}.{dtype})", tf=tf, stack=text, dtype=cast)
    if fill.axis > 0 and may_be_empty(job, fill.axis):
        return build.expression("{text} if {name} else {first}", text=text, name=name, first=first_content(job, fill))
    return text


def may_be_empty(job: Job, axis: int) -> bool:
    """Whether the buffer may have no slots along an axis."""
    if job.made.shape is None:
        return True
    number = job.facts.number(job.made.shape[axis])
    return number is None or number < 1


def first_content(job: Job, fill: Filling) -> str:
    """What the buffer is made as, said where it is complete. Raises NotProven where it means something else there."""
    job.means_the_same(job.made.array, fill.end)
    return job.source(job.made.array)
