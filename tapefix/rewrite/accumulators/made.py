"""`tf.Variable(tensor)` in the forward pass that nothing writes into: the wrapper goes, the tensor stays."""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan
from tapefix.rewrite.accumulators.reads import as_tensor
from tapefix.rewrite.accumulators.syntax import dotted
from tapefix.rewrite.edits import EditSet

#: arguments of tf.Variable that a tensor has no need of
_IDLE = {
    "initial_value",
    "value",
    "initializer",
    "synchronization",
    "aggregation",
    "trainable",
    "name",
    "validate_shape",
    "caching_device",
    "dtype",
    "shape",
}


def plan_unwrapped(job: Job, edits: EditSet) -> Plan:
    """Edits that take a Variable away from around a tensor. Raises NotProven."""
    if job.writes:
        raise NotProven(f"line {job.line(job.writes[0].statement)} writes into `{job.name}`")
    guards.every_use_is_known(job)
    guards.made_from_seen_content(job)
    tapes = {tape_block(job, call) for _, call in guards.asked_for(job)}
    unwrap(job, edits)
    for tape, block in tapes:
        watch(job, edits, tape, block)
    for read in job.reads:
        as_tensor(job, edits, read)
    watched = ", watched by the tape that asks for its gradient" if tapes else ""
    return Plan(Applicability.SAFE, (), f"use the tensor itself in place of a new Variable{watched}")


def tape_block(job: Job, call: ast.Call) -> tuple[str, ast.With]:
    """The tape that is asked for a gradient of the Variable, and its block. Raises NotProven where that is not seen."""
    assert isinstance(call.func, ast.Attribute)
    tape = dotted(call.func.value)
    scope = job.function_scope(job.made.call)
    if tape is not None and call.func.attr in ("gradient", "jacobian") and job.holder[0] == "name":
        for block in ast.walk(scope):
            if isinstance(block, ast.With) and job.function_scope(block) is scope:
                names = [ast.unparse(i.optional_vars) for i in block.items if i.optional_vars is not None]
                if tape in names and job.syntax.before(block, call):
                    return tape, block
    raise NotProven(f"line {job.line(call)} asks for a gradient of `{job.name}` itself")


def watch(job: Job, edits: EditSet, tape: str, block: ast.With) -> None:
    """A tape watches Variables by itself, tensors only when told to: where its block begins, or the tensor is made."""
    statement = f"{tape}.watch({job.holder[1]})"
    if job.syntax.inside(job.maker_statement, block):
        edits.insert_after(job.maker_statement, statement)
    else:
        edits.insert_before(block.body[0], statement)


def unwrap(job: Job, edits: EditSet) -> None:
    """Replaces `tf.Variable(x, dtype=d)` by `tf.cast(x, d)`, without a type by `x` or, where `x` is a list or may be
    a Variable that changes later, by `tf.convert_to_tensor(x)`."""
    call = job.made.call
    assert isinstance(call, ast.Call)
    unknown = [k.arg or "**" for k in call.keywords if k.arg not in _IDLE]
    if unknown or not all(isinstance(a, ast.Constant) and isinstance(a.value, bool) for a in call.args[1:]):
        which = ", ".join(unknown) or "after the first"
        raise NotProven(f"the arguments `{which}` on line {job.line(call)} mean something to a Variable")
    dtype = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    tf = job.tf(edits, job.maker_statement)
    inner = job.made.array
    if dtype is not None and not _already(job, inner, dtype):
        edits.rewrite(call, tf + ".cast({inner}, {dtype})", inner=inner, dtype=dtype)
    elif _computed(inner):
        edits.rewrite(call, "{inner}", inner=inner)
    else:
        edits.rewrite(call, tf + ".convert_to_tensor({inner})", inner=inner)


def _already(job: Job, inner: ast.expr, dtype: ast.expr) -> bool:
    from tapefix.rewrite.accumulators.maker import dtype_name

    known = job.facts.dtype(inner)
    return known is not None and known == dtype_name(dtype)


def _computed(inner: ast.expr) -> bool:
    """Whether an expression computes a tensor of its own: an operation on tensors, not a name, a list or a number."""
    match inner:
        case ast.BinOp() | ast.UnaryOp() | ast.Subscript():
            return True
        case ast.Call(func=func):
            return not (dotted(func) or "").startswith(("np.", "numpy.", "lambda"))
    return False
