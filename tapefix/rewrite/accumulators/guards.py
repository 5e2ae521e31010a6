"""The conditions under which a rung is right. Each function raises NotProven with the line that breaks its condition."""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators.access import Read, Unknown, Write
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import NotProven


def every_use_is_known(job: Job) -> None:
    if job.buffer.escapes:
        raise NotProven(f"`{job.name}` {job.buffer.escapes}")
    for use in job.uses:
        if isinstance(use, Unknown):
            raise NotProven(f"line {job.line(use.use.statement)}: {use.reason}")


def held_by_one_local_name(job: Job) -> str:
    kind, text = job.holder
    if kind != "name":
        raise NotProven(f"the buffer made on line {job.line(job.made.call)} is not held by a local name")
    return text


def used_in_one_function_by_one_name(job: Job) -> None:
    """All uses stand in the function that makes the buffer and call it by the name it was bound to."""
    kind, text = job.holder
    home = job.function_scope(job.made.call)
    for use in job.uses:
        node = use.use.spot.node
        if job.function_scope(node) is not home:
            raise NotProven(f"`{job.name}` is also used by another function, on line {job.line(node)}")
        if kind == "element" or ast.unparse(node) != text:
            raise NotProven(f"`{job.name}` has a second name, `{ast.unparse(node)}`, on line {job.line(node)}")


def only_set(job: Job) -> None:
    """No slot is written by `+=`, a scatter or a whole assignment."""
    for write in job.writes:
        if write.operation != "set" or write.form not in ("item", "method"):
            raise NotProven(f"line {job.line(write.statement)} adds to what `{job.name}` holds already or writes it as a whole")


def not_read_before(job: Job, end: ast.stmt) -> None:
    """No read stands before the end of the statement after which the buffer is complete, or is run before it by a loop."""
    last = job.syntax.end(end)
    for read in job.reads:
        if job.syntax.order[read.use.spot.node] <= last:
            raise NotProven(f"`{job.name}` is read on line {job.line(read.use.spot.node)} while it is still being filled")


def bound_once(job: Job, name: str) -> None:
    """The name is not bound again, except by `v = v[i].assign(x)`."""
    home = job.function_scope(job.made.call)
    rebinding = {write.statement for write in job.writes if write.rebinds}
    for binding in job.syntax.bindings(name, home):
        statement = job.syntax.statement(binding)
        if statement is not job.maker_statement and statement not in rebinding:
            raise NotProven(f"`{name}` is bound again on line {job.line(binding)}")


def reads(job: Job) -> list[Read]:
    return job.reads


def writes(job: Job) -> list[Write]:
    return job.writes
