"""A Variable that one function writes and its callers read: the tensor that was written is handed back to them.

The function still assigns the Variable, and returns the tensor beside what it returned; each caller that reads the
Variable after the call goes on with that tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapefix.rewrite import names
from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.access import Read, Write
from tapefix.rewrite.accumulators.functional import put, updated
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan, Rung
from tapefix.rewrite.accumulators.reads import redirected
from tapefix.rewrite.accumulators.syntax import Scope, dotted
from tapefix.rewrite.edits import EditSet


def hand_to_callers(job: Job, edits: EditSet, scope: Scope, uses: list[Write | Read], text: str) -> Plan:
    """Edits of the function that writes the Variable, called `text` there, and of its callers. Raises NotProven."""
    writes = [use for use in uses if isinstance(use, Write)]
    write = writes[0]
    outside = [read for read in job.own_reads if job.function_scope(read.use.spot.node) is not scope]
    readers = {
        job.function_scope(read.use.spot.node) for read in outside if read.use.carries and not _reports(job, read)
    }
    if not readers or not isinstance(scope, ast.FunctionDef):
        raise NotProven(
            f"`{job.name}` is not read in the function that writes it, after the write on line "
            f"{job.line(write.statement)}"
        )
    if len(writes) != 1 or write.rebinds or write.statement not in scope.body:
        raise NotProven(f"line {job.line(write.statement)} is not the one write of `{job.name}` in `{scope.name}`")
    returned = _returned(job, scope)
    calls = job.facts.calls_of(scope)
    if calls is None or not job.facts.is_known_here_alone(scope):
        raise NotProven(f"not all calls of `{scope.name}` are seen, which writes `{job.name}` for others to read")
    reading = {reader: _only_call(job, reader, scope, calls) for reader in readers}
    plain = [use for use in uses if isinstance(use, Read)]
    for reader, call in reading.items():
        before = [r for r in _reads_in(job, reader) if job.syntax.before(r.use.spot.node, job.syntax.statement(call))]
        if plain or before:
            guards.the_next_call_does_not_read_it(job, scope)
            guards.the_next_call_does_not_read_it(job, reader)
    _return_it(job, edits, scope, write, text, returned)
    for reader, call in reading.items():
        _go_on_with_it(job, edits, reader, scope, call, pair=returned is not None)
    if returned is not None:
        for call in calls:
            if call not in reading.values() and not isinstance(job.syntax.parent(call), ast.Expr):
                edits.rewrite(call, "{call}[0]", call=call)
    how = f"`{scope.name}` returns the tensor as well, and its callers go on with it; the Variable still gets it"
    return Plan(Applicability.SAFE, (), how, Rung.FUNCTIONAL)


def _reports(job: Job, read: Read) -> bool:
    """Whether the read stands in the module itself and in no `with`, where no tape records it."""
    node = read.use.spot.node
    return job.syntax.function(node) is None and not any(isinstance(a, ast.With) for a in job.syntax.ancestors(node))


def _returned(job: Job, scope: ast.FunctionDef) -> ast.expr | None:
    """What the function returns, at its end alone."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            raise NotProven(f"`{scope.name}`, which writes `{job.name}`, is left and entered again")
        if isinstance(node, ast.Return) and job.syntax.function(node) is scope and node is not scope.body[-1]:
            raise NotProven(f"`{scope.name}`, which writes `{job.name}`, also returns on line {job.line(node)}")
    last = scope.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    if isinstance(last, ast.Return) and (value is None or isinstance(value, ast.Tuple)):
        raise NotProven(f"what `{scope.name}` returns on line {job.line(last)} can't take a further value")
    if scope.returns is not None and not (isinstance(scope.returns, ast.Constant) and scope.returns.value is None):
        raise NotProven(f"`{scope.name}` says what it returns, on line {job.line(scope)}")
    return value


def _only_call(job: Job, reader: Scope, scope: ast.FunctionDef, calls: Iterable[ast.Call]) -> ast.Call:
    """The reader's one call of the writing function: a statement of its own, in no loop."""
    found = [call for call in calls if job.function_scope(call) is reader]
    if len(found) != 1:
        reads = ", ".join(sorted({str(job.line(r.use.spot.node)) for r in _reads_in(job, reader)}))
        raise NotProven(
            f"`{job.name}` is read on line {reads}, by a function that calls `{scope.name}` {len(found)} times"
        )
    call = found[0]
    statement = job.syntax.parent(call)
    bound = isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1
    if not (bound or isinstance(statement, ast.Expr)):
        raise NotProven(f"line {job.line(call)} calls `{scope.name}` within a larger expression")
    if bound and not isinstance(statement.targets[0], ast.Name | ast.Attribute):  # type: ignore[union-attr]
        raise NotProven(f"line {job.line(call)} takes apart what `{scope.name}` returns")
    if job.syntax.loops(call):
        raise NotProven(f"line {job.line(call)} calls `{scope.name}`, which writes `{job.name}`, again and again")
    return call


def _reads_in(job: Job, reader: Scope) -> list[Read]:
    return [read for read in job.own_reads if job.function_scope(read.use.spot.node) is reader]


def _return_it(
    job: Job, edits: EditSet, scope: ast.FunctionDef, write: Write, text: str, returned: ast.expr | None
) -> None:
    """The function gives the tensor that it writes a name, and returns it."""
    value = write.value
    named = isinstance(value, ast.Name) and len(job.syntax.bindings(value.id, scope)) == 1
    if isinstance(value, ast.Name) and named and _sets_all(write):
        name = value.id
    else:
        name = names.fresh(edits, write.statement, _base(text))
        template, parts = updated(job, edits, write, name, typed=text)
        start = "" if _sets_all(write) else _start(job, edits, write.statement, name, text) + "\n"
        put(edits, write, f"{start}{name} = {template}\n{text}.assign({name})", parts, name)
    last = scope.body[-1]
    if returned is None:
        edits.insert_after(last, f"return {name}")
    else:
        edits.rewrite_statement(last, "return {value}, " + name, value=returned)


def _base(text: str) -> str:
    base = text.split(".")[-1].lstrip("_") or "value"
    return f"{base}_value" if base == text else base


def _sets_all(write: Write) -> bool:
    return write.form == "whole" and write.operation == "set"


def _start(job: Job, edits: EditSet, at: ast.stmt, name: str, text: str) -> str:
    """The tensor as it is before the write."""
    return f"{name} = {job.tf(edits, at)}.convert_to_tensor({text})"


def _go_on_with_it(job: Job, edits: EditSet, reader: Scope, scope: ast.FunctionDef, call: ast.Call, pair: bool) -> None:
    """The reader binds the tensor that it gets, and reads it after the call. Raises NotProven."""
    statement = job.syntax.statement(call)
    later = [r for r in _reads_in(job, reader) if job.syntax.order[r.use.spot.node] > job.syntax.end(statement)]
    texts = {ast.unparse(read.use.spot.node) for read in later}
    if len(texts) != 1:
        raise NotProven(f"`{job.name}` goes by several names behind line {job.line(call)}, or is not read there")
    _nobody_else_writes(job, reader, scope, statement)
    text = texts.pop()
    name = names.fresh(EditSet(job.document), statement, _base(text))  # the other function's name is no hindrance
    first = _branch_around(job, statement, later)
    if first is not statement:
        edits.insert_before(first, _start(job, edits, first, name, text))
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        if not pair:
            raise NotProven(f"line {job.line(call)} binds what `{scope.name}` returns, which is nothing")
        edits.rewrite_statement(statement, "{target}, {name} = {call}", target=target, name=name, call=call)
    else:
        edits.rewrite_statement(statement, f"{name} = {{call}}" + ("[1]" if pair else ""), call=call)
    for read in later:
        redirected(job, edits, read, name)


def _branch_around(job: Job, statement: ast.stmt, reads: list[Read]) -> ast.stmt:
    """The statement itself where each read follows on it, else the branch that it stands in, which they follow on."""
    around = [statement, *(a for a in job.syntax.ancestors(statement) if isinstance(a, ast.stmt))]
    for above in around:
        if not isinstance(above, ast.If | ast.With) and above is not statement:
            break
        block = job.syntax.block(above)
        follow = [any(a in block for a in job.syntax.ancestors(read.use.spot.node)) for read in reads]
        if all(follow):
            return above
    line = job.line(reads[0].use.spot.node)
    raise NotProven(f"line {line} may read `{job.name}` without line {job.line(statement)} having run")


def _nobody_else_writes(job: Job, reader: Scope, scope: ast.FunctionDef, after: ast.stmt) -> None:
    """The reader neither writes the Variable itself nor calls another function that does."""
    writing = {job.function_scope(write.statement) for write in job.writes} - {scope}
    if reader in writing:
        raise NotProven(f"`{job.name}` is written by several functions")
    others = {function.name for function in writing if isinstance(function, ast.FunctionDef)}
    for call in ast.walk(reader):
        if isinstance(call, ast.Call) and job.syntax.order[call] > job.syntax.end(after):
            if (dotted(call.func) or "").split(".")[-1] in others:
                raise NotProven(f"line {job.line(call)} calls a function that writes `{job.name}` too")
