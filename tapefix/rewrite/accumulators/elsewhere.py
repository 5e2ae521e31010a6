"""A buffer that functions of other files fill: they go on as they are, given a list of slots instead.

`out[i] = x` says the same of a list as of an array, so that only the file that makes the buffer changes: the list is
made there, and stacked when the last of those functions has filled it.
"""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.access import At, Read, Unknown, Write, uses_of
from tapefix.rewrite.accumulators.facts import Facts
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan, Rung
from tapefix.rewrite.accumulators.reads import as_tensor
from tapefix.rewrite.accumulators.slots import Layout, first_slots, whole
from tapefix.rewrite.accumulators.values import holds_floats
from tapefix.rewrite.edits import EditSet

_ROWS = Layout(0, 1)


def plan_filled_elsewhere(job: Job, edits: EditSet, others: dict[str, Facts]) -> Plan:
    """Edits of the file that makes the buffer; `others` are the files that use it too. Raises NotProven."""
    holds_floats(job)
    if job.buffer.escapes or job.made.library != "numpy" or job.made.rank is None:
        raise NotProven(f"what becomes of `{job.name}` is not all seen")
    name = guards.held_by_one_local_name(job)
    for filename, facts in others.items():
        _a_list_does_as_well(job, filename, facts)
    handed = [use for use in job.uses if isinstance(use, Read) and _is_handed_on(job, use)]
    later = [use for use in job.uses if use not in handed and use.use.spot.node in job.syntax.order]
    if not handed:
        raise NotProven(f"`{name}` is not handed to the function that fills it")
    for use in [*handed, *later]:
        if isinstance(use, Unknown | Write):
            raise NotProven(f"`{name}` is also written on line {job.line(use.use.statement)}")
        if job.function_scope(use.use.spot.node) is not job.function_scope(job.made.call):
            raise NotProven(f"`{name}` is also used by another function, on line {job.line(use.use.spot.node)}")
    guards.bound_once(job, name)
    last = max((use.use.statement for use in handed), key=lambda statement: job.syntax.order[statement])
    block = job.syntax.block(job.maker_statement)
    end = next((s for s in (last, *job.syntax.ancestors(last)) if s in block), None)
    if not isinstance(end, ast.stmt):
        raise NotProven(f"line {job.line(last)} may run without line {job.line(job.made.call)}")
    for use in later:
        if job.syntax.order[use.use.spot.node] < job.syntax.end(end):
            raise NotProven(f"`{name}` is read on line {job.line(use.use.spot.node)} while it is still being filled")
    edits.replace(job.made.call, first_slots(job, edits, _ROWS))
    edits.insert_after(end, f"{name} = {whole(job, edits, end, name, _ROWS)}")
    for use in later:
        assert isinstance(use, Read)
        as_tensor(job, edits, use)
    return Plan(Applicability.SAFE, (), "hand over a list of slots, then tf.stack it", Rung.SLOTS)


def _is_handed_on(job: Job, read: Read) -> bool:
    """Whether a use is an argument of a call that is a statement of its own: `fill(out, x)`."""
    node = read.use.spot.node
    if node not in job.syntax.order or read.access.index:
        return False
    call = job.syntax.parent(node)
    call = job.syntax.parent(call) if isinstance(call, ast.keyword) else call
    return isinstance(call, ast.Call) and isinstance(job.syntax.parent(call), ast.Expr)


def _a_list_does_as_well(job: Job, filename: str, facts: Facts) -> None:
    """Each use in another file sets or reads one slot by a whole number, with a value of the slot's axes."""
    assert job.made.rank is not None
    syntax = facts.syntax
    short = filename.replace("\\", "/").rsplit("/", 1)[-1]
    for use in uses_of(job.buffer, syntax):
        node = use.use.spot.node
        if node not in syntax.order or (isinstance(use, Read) and isinstance(syntax.parent(node), ast.arguments)):
            continue
        place = f"{short}, line {use.use.statement.lineno}"
        if isinstance(use, Unknown):
            raise NotProven(f"{place}: {use.reason}")
        if any(facts.graph_loop(loop) for loop in syntax.loops(node)):
            raise NotProven(f"{place}, stands in a loop of the graph")
        match use.access.index:
            case (At(node=position),) if facts.is_position(position):
                pass
            case _:
                raise NotProven(f"{place}, uses more than one slot of `{job.name}` at a time")
        if isinstance(use, Write):
            assert use.value is not None
            if use.form != "item" or use.operation != "set" or use.shared:
                raise NotProven(f"{place}, changes a slot of `{job.name}` in place")
            if facts.rank(use.value) != job.made.rank - 1 and job.made.rank > 1:
                raise NotProven(f"{place}, may write a value of another shape than a slot of `{job.name}`")


__all__ = ["plan_filled_elsewhere"]
