"""The conditions under which a rung is right. Each raises NotProven with the line that breaks it."""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators.access import Read, Unknown
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import NotProven
from tapefix.rewrite.accumulators.syntax import Function, Scope


def every_use_is_known(job: Job) -> None:
    """Every use of the buffer is seen, and each is a write or read of a kind that the ladder knows."""
    if job.buffer.escapes:
        raise NotProven(f"`{job.name}` {job.buffer.escapes}")
    every_use_is_understood(job)
    _no_use_before_it_is_followed(job)


def _no_use_before_it_is_followed(job: Job) -> None:
    """An array from elsewhere is followed from its first write on; what reads it before would meet something else."""
    kind, name = job.holder
    known = {use.use.spot.node for use in job.uses}
    if kind != "name" or job.made.content != "other" or not known:
        return
    home = job.function_scope(job.made.call)
    first = min(job.syntax.order.get(node, 0) for node in known)
    for node in ast.walk(home):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and node not in known:
            if job.function_scope(node) is home and job.syntax.order[node] < first:
                raise NotProven(f"line {job.line(node)} reads `{name}` before it is filled")


def every_use_is_understood(job: Job) -> None:
    """Each use that is seen is a write or read of a kind that the ladder knows."""
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
    for use in job.own_uses:
        node = use.use.spot.node
        if job.function_scope(node) is not home:
            raise NotProven(f"`{job.name}` is also used by another function, on line {job.line(node)}")
        if kind == "element" or ast.unparse(node) != text:
            raise NotProven(f"`{job.name}` has a second name, `{ast.unparse(node)}`, on line {job.line(node)}")


def only_set(job: Job) -> None:
    """No slot is written by `+=`, a scatter or a whole assignment."""
    for write in job.writes:
        if write.shared:
            raise NotProven(f"line {job.line(write.statement)} writes two slots of `{job.name}` at once")
        if write.operation != "set" or write.form not in ("item", "method") or write.result is not None:
            raise NotProven(
                f"line {job.line(write.statement)} adds to what `{job.name}` holds already or writes it as a whole"
            )


def not_read_before(job: Job, end: ast.stmt) -> None:
    """No read stands before the end of the statement after which the buffer is complete."""
    last = job.syntax.end(end)
    for read in job.own_reads:
        if job.syntax.order[read.use.spot.node] <= last:
            raise NotProven(
                f"`{job.name}` is read on line {job.line(read.use.spot.node)} while it is still being filled"
            )


def bound_once(job: Job, name: str) -> None:
    """The name is not bound again, except by `v = v[i].assign(x)`."""
    home = job.function_scope(job.made.call)
    rebinding = {w.statement for w in job.writes if w.rebinds or (w.form == "augmented" and w.access.whole)}
    rebinding |= {call for read in job.own_reads if (call := given_back(job, read)) is not None}
    for binding in job.syntax.bindings(name, home):
        statement = job.syntax.statement(binding)
        if statement is not job.maker_statement and statement not in rebinding:
            raise NotProven(f"`{name}` is bound again on line {job.line(binding)}")


def given_back(job: Job, read: Read) -> ast.Assign | None:
    """`buf = fill(buf, x)`, where `fill` returns the buffer that it is given."""
    helper = job.handed_to(read)
    statement = read.use.statement
    if helper is None or not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
        return None
    names = {ast.unparse(w.use.spot.node) for w in job.writes if job.function_scope(w.use.spot.node) is helper}
    returned = [n.value for n in ast.walk(helper) if isinstance(n, ast.Return)]
    returned = [v for v in returned if v is None or ast.unparse(v) not in names]
    texts = [ast.unparse(target) for target in statement.targets]
    ends = isinstance(helper.body[-1], ast.Return)
    same = texts == [ast.unparse(read.use.spot.node)]
    return statement if not returned and ends and same and read.access.node in statement.value.args else None


def not_aliased(job: Job) -> None:
    """No second name for the whole buffer is made while it is still written: it would see the later writes."""
    for read in job.own_reads:
        if not read.access.whole or not job.writes or _copied(job, read):
            continue
        if not any(may_follow(job, write.statement, read.use.spot.node) for write in job.writes):
            continue
        if _kept(job, read) and not _name_is_read_before_the_next_write(job, read):
            raise NotProven(f"line {job.line(read.use.spot.node)} keeps `{job.name}` while it is still written")


def _kept(job: Job, read: Read) -> bool:
    """Whether the read's value is stored as it is: bound to a name, put into a container."""
    node: ast.AST = read.access.node
    parent = job.syntax.parent(node)
    while isinstance(parent, ast.Tuple | ast.List | ast.Dict | ast.IfExp | ast.Starred):
        node, parent = parent, job.syntax.parent(parent)
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Attribute) and parent.func.attr in ("append", "extend", "insert", "add")
    return isinstance(parent, ast.Assign | ast.AnnAssign | ast.Yield)


def _name_is_read_before_the_next_write(job: Job, read: Read) -> bool:
    """Whether the second name that `x = v` makes is never read after a later write, so that a copy does as well."""
    binding = job.syntax.parent(read.access.node)
    if not (isinstance(binding, ast.Assign) and len(binding.targets) == 1 and isinstance(binding.targets[0], ast.Name)):
        return False
    name, order = binding.targets[0].id, job.syntax.order
    scope = job.function_scope(binding)
    reads = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    here = set(job.syntax.loops(binding))
    for use in reads:
        if job.function_scope(use) is not scope:
            return False
        around = set(job.syntax.loops(use))
        for write in (w.statement for w in job.writes):
            if job.function_scope(write) is not scope:
                return False
            together = set(job.syntax.loops(write)) & around
            if together - here:
                return False
            if order[use] > order[binding]:
                between = order[binding] < order[write] < order[use] and not job.syntax.inside(use, write)
            else:
                between = bool(here & around) and (order[write] > order[binding] or order[write] < order[use])
                between = between and not job.syntax.inside(use, write)
            if between:
                return False
    return True


def _copied(job: Job, read: Read) -> bool:
    parent = job.syntax.parent(read.access.node)
    return isinstance(parent, ast.Attribute) and parent.attr == "copy"


def may_follow(job: Job, later: ast.AST, earlier: ast.AST) -> bool:
    """Whether `later` may run after `earlier` without the buffer being made anew in between."""
    if job.syntax.order[later] > job.syntax.order[earlier] and not job.syntax.inside(later, earlier):
        return True
    around = set(job.syntax.loops(later)) & set(job.syntax.loops(earlier))
    return any(not job.syntax.inside(job.made.call, loop) for loop in around)


def made_from_seen_content(job: Job) -> None:
    """What a Variable starts from is written at the call that makes it."""
    if job.made.library == "variable" and job.made.array is job.made.call:
        raise NotProven(f"what `{job.name}` starts from is not seen on line {job.line(job.made.call)}")


_OF_WEIGHTS = {"gradient", "jacobian", "watch", "apply_gradients", "minimize"}


def not_a_source(job: Job) -> None:
    """The Variable itself is not what a gradient is wanted for, nor what an optimizer moves."""
    for _, call in asked_for(job):
        raise NotProven(f"line {job.line(call)} asks for a gradient of `{job.name}` itself")


def asked_for(job: Job) -> list[tuple[Read, ast.Call]]:
    """The reads as a source of a gradient, or as something that an optimizer moves, with the call that asks."""
    found: list[tuple[Read, ast.Call]] = []
    for read in job.reads:
        for above in job.syntax.ancestors(read.use.spot.node):
            if isinstance(above, ast.stmt):
                break
            if isinstance(above, ast.Call) and isinstance(above.func, ast.Attribute) and above.func.attr in _OF_WEIGHTS:
                if _among_sources(job, above, read.use.spot.node):
                    found.append((read, above))
    return found


def _among_sources(job: Job, call: ast.Call, node: ast.AST) -> bool:
    """Whether a node stands where the sources do: all arguments but the target of `gradient`."""
    assert isinstance(call.func, ast.Attribute)
    target = call.args[0] if call.args and call.func.attr in ("gradient", "jacobian", "minimize") else None
    return target is None or not job.syntax.inside(node, target)


def the_next_call_does_not_read_it(job: Job, scope: Scope) -> None:
    """No second call of the function that writes the Variable runs in the same tape: it would start from the Variable,
    where what the first one wrote has no history. Raises NotProven."""
    if not isinstance(scope, ast.FunctionDef):
        return
    for call in job.facts.calls(scope):
        node: ast.AST = call
        for above in job.syntax.ancestors(call):
            if isinstance(above, ast.With) and any("GradientTape" in ast.unparse(i.context_expr) for i in above.items):
                break
            repeats = isinstance(above, ast.For | ast.While) and node in above.body
            if repeats or isinstance(above, ast.ListComp | ast.GeneratorExp | ast.DictComp):
                raise NotProven(
                    f"line {job.line(call)} calls the function that writes `{job.name}` again and again, "
                    "and each call starts from what the one before has written"
                )
            if isinstance(above, Function):
                break
            node = above
