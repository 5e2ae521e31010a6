"""A Variable that outlives the forward pass: its writes stay, its reads are redirected to the tensor that was written.

The function that writes it works on a tensor of its own, which starts as the Variable's value, takes every
write, answers every read, and is assigned to the Variable at each write so that whoever reads it later finds it.
"""

from __future__ import annotations

import ast

from tapefix.rewrite import names
from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.access import Read, Write
from tapefix.rewrite.accumulators.functional import put, updated
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan, Rung
from tapefix.rewrite.accumulators.reads import as_tensor, redirected
from tapefix.rewrite.accumulators.state_returned import hand_to_callers
from tapefix.rewrite.accumulators.syntax import Function, Scope, dotted
from tapefix.rewrite.accumulators.values import holds_floats
from tapefix.rewrite.edits import EditSet


def plan_state_of_one_function(job: Job, edits: EditSet) -> Plan:
    """As `plan_state`, for a Variable that nobody but the function that writes it reads. Raises NotProven."""
    scope = _writing_function(job)
    if scope is job.function_scope(job.made.call):
        raise NotProven(f"`{job.name}` is made by the function that writes it")
    for read in job.own_reads:
        if job.function_scope(read.use.spot.node) is not scope and read.use.carries:
            raise NotProven(f"`{job.name}` is also read by another function, on line {job.line(read.use.spot.node)}")
    return plan_state(job, edits)


def plan_state(job: Job, edits: EditSet) -> Plan:
    """Edits that keep the Variable and redirect its reads. Raises NotProven."""
    if job.made.library != "variable":
        raise NotProven(f"`{job.name}` is not a Variable")
    holds_floats(job)
    guards.every_use_is_understood(job)
    guards.not_a_source(job)
    guards.not_aliased(job)
    scope = _writing_function(job)
    uses: list[Write | Read] = [u for u in job.own_uses if _in(job, u, scope)]
    text = _one_text(job, uses)
    if not _some_read_follows_a_write(job, uses):
        return hand_to_callers(job, edits, scope, uses, text)
    first = _first_statement(job, uses)
    _nobody_else_writes_in_between(job, scope, first)
    base = text.split(".")[-1].lstrip("_") or "value"
    name = names.fresh(edits, first, f"{base}_value" if base == text else base)
    tf = job.tf(edits, first)
    starts_anew = _starts_anew(uses, first)
    forgets = starts_anew and _forgets(job, uses, first)
    if not forgets:
        starts_anew = starts_anew and not job.syntax.loops(first)
        first = first if starts_anew else _before_its_loops(job, first)
        guards.the_next_call_does_not_read_it(job, scope)
    if not starts_anew:
        edits.insert_before(first, f"{name} = {tf}.convert_to_tensor({text})")
    for use in uses:
        if isinstance(use, Read):
            _redirect(job, edits, use, first if starts_anew else None, name)
            continue
        template, parts = updated(job, edits, use, name, typed=text)
        put(edits, use, f"{name} = {template}\n{text}.assign({name})", parts, name)
    for read in job.later_reads:
        as_tensor(job, edits, read)
    how = "go on with the tensor that was written; the Variable still gets it"
    return Plan(Applicability.SAFE, (), how, Rung.FUNCTIONAL)


def _in(job: Job, use: Write | Read, scope: Scope) -> bool:
    return job.function_scope(use.use.spot.node) is scope


def _writing_function(job: Job) -> Scope:
    """The one function whose writes carry a gradient. What other functions read is still the Variable."""
    carrying = [w for w in job.writes if w.use.carries and not _resets(w)]
    scopes = {job.function_scope(w.statement) for w in carrying}
    if len(scopes) != 1:
        lines = ", ".join(sorted({str(job.line(w.statement)) for w in carrying}))
        raise NotProven(
            f"several functions write into `{job.name}` (lines {lines})"
            if lines
            else f"nothing is written into `{job.name}`"
        )
    scope = scopes.pop()
    return scope


def _resets(write: Write) -> bool:
    """Whether a write puts constants: `v.assign(tf.zeros_like(v))`."""
    match write.value:
        case ast.Call(func=func) if write.form == "whole" and write.operation == "set":
            return (dotted(func) or "").split(".")[-1] in ("zeros", "zeros_like", "ones", "ones_like", "fill")
    return False


def _one_text(job: Job, uses: list[Write | Read]) -> str:
    """How the function writes the Variable, always alike."""
    texts = {ast.unparse(use.use.spot.node) for use in uses}
    if len(texts) > 1:
        raise NotProven(f"`{job.name}` goes by several names: {', '.join(f'`{t}`' for t in sorted(texts))}")
    text = texts.pop()
    node = uses[0].use.spot.node
    if not isinstance(node, ast.Name | ast.Attribute) or dotted(node) is None:
        raise NotProven(f"`{text}` is an element of a container")
    if isinstance(node, ast.Name) and job.is_taken_from_a_container(node):
        raise NotProven(f"`{text}` is one of several Variables in a container, on line {job.line(node)}")
    for use in uses:
        if isinstance(use, Write) and use.rebinds:
            raise NotProven(f"line {job.line(use.statement)} binds `{text}` again")
    return text


def _some_read_follows_a_write(job: Job, uses: list[Write | Read]) -> bool:
    """Whether what is written is read again in the same function; else its callers read it, or nobody."""
    written = [use.statement for use in uses if isinstance(use, Write)]
    for use in uses:
        if isinstance(use, Write) and use.result is not None:
            return True
        if isinstance(use, Read) and any(guards.may_follow(job, use.use.spot.node, w) for w in written):
            return True
    return False


def _first_statement(job: Job, uses: list[Write | Read]) -> ast.stmt:
    """The first statement with a use, in the innermost block that holds all of them."""
    statements = [use.use.statement for use in uses]
    chains = [[s, *(a for a in job.syntax.ancestors(s) if isinstance(a, ast.stmt))] for s in statements]
    for candidate in reversed(chains[0]):  # from the outermost block inwards
        block = job.syntax.block(candidate)
        if all(any(step in block for step in chain) for chain in chains):
            found = block
    inside = [next(step for step in chain if step in found) for chain in chains]
    return min(inside, key=lambda s: job.syntax.order[s])


def _before_its_loops(job: Job, first: ast.stmt) -> ast.stmt:
    """The outermost loop around the first use, so that each pass goes on with what the one before has written."""
    loops = job.syntax.loops(first)
    return loops[0] if loops else first


def _starts_anew(uses: list[Write | Read], first: ast.stmt) -> bool:
    """Whether the first use is an unconditional write of the whole, so that what was there before does not count."""
    writes = [u for u in uses if isinstance(u, Write) and u.statement is first]
    return bool(writes) and writes[0].form == "whole" and writes[0].operation == "set"


def _forgets(job: Job, uses: list[Write | Read], first: ast.stmt) -> bool:
    """Whether the first write takes nothing over from the Variable but its shape: `v.assign(tf.zeros_like(v))`."""
    for use in uses:
        if isinstance(use, Read) and use.use.statement is first:
            parent = job.syntax.parent(use.access.node)
            if isinstance(parent, ast.Attribute) and parent.attr in ("shape", "dtype"):
                continue
            name = dotted(parent.func) or "" if isinstance(parent, ast.Call) else ""
            if name.split(".")[-1] not in ("zeros_like", "ones_like", "shape"):
                return False
    return True


def _nobody_else_writes_in_between(job: Job, scope: Scope, first: ast.stmt) -> None:
    """No function that writes the Variable too is called after the tensor took its value."""
    others = {
        function.name
        for write in job.writes
        if isinstance(function := job.syntax.function(write.statement), ast.FunctionDef) and function is not scope
    }
    start = job.syntax.order[first]
    for call in ast.walk(scope):
        if not isinstance(call, ast.Call) or job.syntax.order[call] < start:
            continue
        if (dotted(call.func) or "").split(".")[-1] in others:
            raise NotProven(f"line {job.line(call)} calls a function that writes `{job.name}` too")
    if isinstance(scope, Function) and any(
        isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in ast.walk(scope)
    ):
        raise NotProven(
            f"the function on line {job.line(scope)} is left and entered again while it writes `{job.name}`"
        )


def _redirect(job: Job, edits: EditSet, read: Read, reset: ast.stmt | None, name: str) -> None:
    """The read now reads the tensor; inside the write that starts it anew it still reads the Variable."""
    if reset is not None and read.use.statement is reset:
        return
    redirected(job, edits, read, name)
