"""Rung 3: a Python list with one element per slot; writes rebind an element, reads stack what they need.

Right where every index along the written axes is a Python whole number: slots may be written twice, added
to, read back, skipped, or filled in any order, and untouched ones keep their first content. The list is
mutable like the buffer, so that attributes, elements of containers and helpers' arguments go along.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tapefix.rewrite import imports
from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.access import At, Element, Read, Span, Write, single_axis
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan, Rung
from tapefix.rewrite.accumulators.reads import as_tensor
from tapefix.rewrite.accumulators.values import holds_floats, slot_value, speaks_of_other_floats, wanted_cast
from tapefix.rewrite.build import expression
from tapefix.rewrite.edits import EditSet


@dataclass(frozen=True)
class Layout:
    """Which axes of the buffer the list stands for: axis `axis`, or the `depth` first ones."""

    axis: int
    depth: int

    def axes(self) -> list[int]:
        return [self.axis] if self.depth == 1 else list(range(self.depth))


def plan_slots(job: Job, edits: EditSet) -> Plan:
    """Edits for rung 3. Raises NotProven."""
    holds_floats(job)
    guards.every_use_is_known(job)
    guards.not_a_source(job)
    guards.made_from_seen_content(job)
    guards.not_aliased(job)
    if job.kept_in_a_container and all(isinstance(w.use.spot.node, ast.Subscript) for w in job.writes):
        raise NotProven(f"`{job.name}` is an element of a container, where a tensor can take its place")
    layout = _layout(job)
    for write in job.writes:
        _index_is_python(job, write, layout)
        if write.result is not None:
            raise NotProven(f"line {job.line(write.statement)} uses the result of the write")
        if write.form == "augmented" and write.access.whole:
            raise NotProven(f"line {job.line(write.statement)} changes all of `{job.name}` at once")
    _outlives_no_trace(job)
    for read in job.own_reads:
        if guards.given_back(job, read) is not None:
            raise NotProven(f"line {job.line(read.use.statement)} binds what the function gives back")
    own_name = job.holder[0] == "name" and _local(job)
    if own_name:
        guards.bound_once(job, job.holder[1])
    end = _complete_after(job) if own_name else None
    edits.replace(job.made.call, first_slots(job, edits, layout))
    for write in job.writes:
        _rewrite_write(job, edits, write, layout)
    after_end = job.syntax.end(end) if end is not None else -1
    late = [r for r in job.own_reads if end is not None and _follows(job, r, after_end)]
    if _only_cells(job, late, layout):
        end, late = None, []
    if end is not None:
        edits.insert_after(end, f"{job.holder[1]} = {whole(job, edits, end, job.holder[1], layout)}")
    for read in job.reads:
        if read in late or not job.stands_for(read):
            as_tensor(job, edits, read)
        else:
            _rewrite_read(job, edits, read, layout)
    how = "a nested list of cells" if layout.depth > 1 else "a list of slots"
    return Plan(
        Applicability.SAFE,
        (),
        f"keep {how}, rebind an element at each write, tf.stack them where all are read",
        Rung.SLOTS,
    )


def _follows(job: Job, read: Read, after: int) -> bool:
    home = job.function_scope(job.made.call)
    return job.syntax.order[read.use.spot.node] > after and job.function_scope(read.use.spot.node) is home


# what the list stands for


def _layout(job: Job) -> Layout:
    """The axes that every write picks a position of. Raises NotProven where the writes don't agree."""
    found: set[Layout] = set()
    for write in job.writes:
        if write.form in ("whole", "fill") or (write.form == "augmented" and write.access.whole):
            continue
        if write.form == "scatter":
            raise NotProven(f"line {job.line(write.statement)} scatters rows into `{job.name}`")
        found.add(_layout_of(job, write))
    if not found:
        raise NotProven(f"`{job.name}` is only written as a whole")
    if len(found) > 1:
        lines = ", ".join(str(job.line(w.statement)) for w in job.writes[:3])
        raise NotProven(f"`{job.name}` is written along different axes (lines {lines})")
    return found.pop()


def _layout_of(job: Job, write: Write) -> Layout:
    index = write.access.index
    positions = 0
    while positions < len(index) and isinstance(index[positions], At):
        positions += 1
    if positions > 1 and all(_everything(e) for e in index[positions:]):
        return Layout(0, positions)
    place = single_axis(index, job.made.rank)
    if place is None:
        raise NotProven(f"line {job.line(write.statement)} writes a part of `{job.name}` that is not one slot")
    if place[0] < 0:
        raise NotProven(f"the number of axes of `{job.name}` is not known (line {job.line(job.made.call)})")
    return Layout(place[0], 1)


def _everything(element: Element) -> bool:
    return (isinstance(element, Span) and element.whole) or not isinstance(element, Span | At)


def _index_is_python(job: Job, write: Write, layout: Layout) -> None:
    """Positions are whole numbers, and no loop of the graph runs over them."""
    if write.form in ("whole", "fill") or write.access.whole:
        return
    for axis in layout.axes():
        element = write.access.index[axis]
        assert isinstance(element, At)
        if not job.facts.is_position(element.node):
            raise NotProven(f"the index `{job.source(element.node)}` on line {job.line(element.node)} may be an array")
    for loop in job.syntax.loops(write.statement):
        if job.facts.graph_loop(loop):
            raise NotProven(f"the loop on line {job.line(loop)} is a loop of the graph, where a list can't be written")


def _local(job: Job) -> bool:
    """Whether the buffer has one name in the function that makes it, and is at most an argument of others."""
    home = job.function_scope(job.made.call)
    helpers = {job.handed_to(read) for read in job.own_reads}
    for use in job.own_uses:
        scope = job.function_scope(use.use.spot.node)
        if scope is home:
            if ast.unparse(use.use.spot.node) != job.holder[1]:
                return False
        elif scope not in helpers or not isinstance(use.use.spot.node, ast.Name):
            return False
    return True


def _outlives_no_trace(job: Job) -> None:
    """A list that is kept in an attribute or a global must not be written while a graph is traced."""
    home = job.function_scope(job.made.call)
    for write in job.writes:
        scope = job.function_scope(write.statement)
        if scope is not home and job.facts.traced(write.statement):
            raise NotProven(
                f"`{ast.unparse(write.use.spot.node)}` is written on line {job.line(write.statement)} inside a graph "
                "and outlives it"
            )


def _complete_after(job: Job) -> ast.stmt | None:
    """The statement of the maker's block after which nothing is written, where that is one that always runs."""
    block = job.syntax.block(job.maker_statement)
    home = job.function_scope(job.made.call)
    filled = [w.statement for w in job.writes if job.function_scope(w.statement) is home]
    filled += [read.use.statement for read in job.own_reads if job.handed_to(read) is not None]
    last = max(filled, key=lambda statement: job.syntax.order[statement])
    for statement in (last, *job.syntax.ancestors(last)):
        if statement in block:
            return statement
    return None


def _only_cells(job: Job, reads: list[Read], layout: Layout) -> bool:
    """Whether the reads pick single slots, which the list gives as well as a tensor would."""
    return all(_is_cell(read, layout) or _is_length(job, read, layout) for read in reads)


# first content


def first_slots(job: Job, edits: EditSet, layout: Layout) -> str:
    """The list of the buffer's first content."""
    made = job.made
    number = {"zeros": "0.0", "empty": "0.0", "ones": "1.0"}.get(made.content)
    if made.content == "full" and made.fill is not None and job.facts.pure(made.fill):
        number = job.source(made.fill)
    scalars = made.rank is not None and made.rank == layout.depth and number is not None
    plain = made.dtype == "float32" or (made.library == "numpy" and not speaks_of_other_floats(job.document))
    if scalars and plain:
        assert made.shape is not None
        assert number is not None
        text = expression("[{number}] * {size}", number=number, size=job.source(made.shape[-1]))
        for size in reversed(made.shape[:-1]):
            text = expression("[{inner} for _ in range({size})]", inner=text, size=job.source(size))
        return text
    array = job.source(made.array)
    if made.library == "variable":
        tf = job.tf(edits, job.maker_statement)
        axis = f", axis={layout.axis}" if layout.axis else ""
        text = expression(f"{tf}.unstack({{array}}{axis})", array=array)
        for _ in range(layout.depth - 1):
            text = expression(f"[{tf}.unstack(row) for row in {{inner}}]", inner=text)
        return text
    if layout.depth > 1:
        text = array
        for _ in range(layout.depth - 1):
            text = expression("[list(row) for row in {inner}]", inner=text)
        return text
    if layout.axis == 0:
        return expression("list({array})", array=array)
    return _slots_of_axis(job, layout, array)


def _slots_of_axis(job: Job, layout: Layout, array: str) -> str:
    """Slots along an inner axis: a comprehension over arrays without that axis."""
    made = job.made
    call = made.array
    if made.shape is None or not isinstance(call, ast.Call) or not call.args or made.rank is None:
        raise NotProven(f"the shape of `{job.name}` (line {job.line(made.call)}) is not written out")
    others = [job.source(size) for axis, size in enumerate(made.shape) if axis != layout.axis]
    shape = "(" + ", ".join(others) + ("," if len(others) == 1 else "") + ")"
    start, end = job.document.span(call)
    first, last = job.document.span(call.args[0])
    one = array[: first - start] + shape + array[last - start : end - start]
    return expression("[{one} for _ in range({size})]", one=one, size=job.source(made.shape[layout.axis]))


# writes


def _rewrite_write(job: Job, edits: EditSet, write: Write, layout: Layout) -> None:
    target = _holder_text(job, write)
    if write.form in ("whole", "fill"):
        _reset(job, edits, write, layout, target)
        return
    slot = f"{target}{_positions(job, write, layout)}"
    assert write.value is not None
    if write.operation == "set":
        template, parts = slot_value(job, edits, write, layout.axes(), slot, numbers_stay=True)
        if write.form == "item" and template == "{value}":
            edits.replace(write.access.node, slot)
        elif write.shared:
            raise NotProven(f"line {job.line(write.statement)} writes two slots of `{job.name}` at once")
        else:
            edits.rewrite_statement(write.statement, f"{slot} = {template}", **parts)
        return
    sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[write.operation]
    edits.rewrite_statement(write.statement, f"{slot} = {slot} {sign} {{value}}", value=write.value)


def _holder_text(job: Job, write: Write) -> str:
    return job.source(write.use.spot.node)


def _positions(job: Job, use: Write | Read, layout: Layout) -> str:
    nodes = [use.access.index[axis] for axis in layout.axes()]
    return "".join(f"[{job.source(e.node)}]" for e in nodes if isinstance(e, At))


def _reset(job: Job, edits: EditSet, write: Write, layout: Layout, target: str) -> None:
    """`v.assign(x)`, `a.fill(x)`, `a[:] = x`: every slot anew."""
    assert write.value is not None
    place = target if isinstance(write.use.spot.node, ast.Attribute) else f"{target}[:]"
    if write.operation != "set":
        raise NotProven(f"line {job.line(write.statement)} changes all of `{job.name}` at once")
    tf = job.tf(edits, write.statement)
    if layout.depth == 1 and _is_like_itself(write) and isinstance(write.use.spot.node, ast.Attribute):
        like = write.value.func.attr  # type: ignore[attr-defined]
        edits.rewrite_statement(write.statement, f"{place} = [{tf}.{like}(slot) for slot in {target}]")
    elif job.facts.is_number(write.value):
        filled = _filled(job, edits, write, layout, target)
        edits.rewrite_statement(write.statement, f"{place} = {filled}", value=write.value)
    elif layout.depth == 1 and write.call is not None and write.form == "whole":
        axis = f", axis={layout.axis}" if layout.axis else ""
        edits.rewrite_statement(write.statement, f"{place} = {tf}.unstack({{value}}{axis})", value=write.value)
    else:
        raise NotProven(f"line {job.line(write.statement)} writes all of `{job.name}` at once")


def _filled(job: Job, edits: EditSet, write: Write, layout: Layout, target: str) -> str:
    """Every slot set to one number, as a template over `{value}`."""
    made = job.made
    if made.rank is not None and made.rank == layout.depth:
        text = "slot"
        for _ in range(layout.depth - 1):
            text = f"[{{value}} for _ in {text}]" if text == "slot" else f"[{text} for slot in slot]"
        return f"[{{value}}] * len({target})" if layout.depth == 1 else f"[{text} for slot in {target}]"
    if layout.depth > 1:
        raise NotProven(f"line {job.line(write.statement)} writes all of `{job.name}` at once")
    np = imports.add_import(edits, "numpy", "np", write.statement)
    return f"[{np}.full_like(slot, {{value}}) for slot in {target}]"


def _is_like_itself(write: Write) -> bool:
    match write.value:
        case ast.Call(func=ast.Attribute(attr="zeros_like" | "ones_like"), args=[inner]):
            return ast.unparse(inner) == ast.unparse(write.use.spot.node)
    return False


# reads


def whole(job: Job, edits: EditSet, at: ast.stmt, name: str, layout: Layout) -> str:
    """All slots as one tensor."""
    tf = job.tf(edits, at)
    text = f"{tf}.stack({name}, axis={layout.axis})" if layout.axis else f"{tf}.stack({name})"
    cast = wanted_cast(job)
    return f"{tf}.cast({text}, {tf}.{cast})" if cast else text


def _rewrite_read(job: Job, edits: EditSet, read: Read, layout: Layout) -> None:
    node = read.use.spot.node
    assert isinstance(node, ast.expr)
    if _inside_reset(job, read):
        return
    if _is_length(job, read, layout) or job.handed_to(read) is not None:
        return
    index = read.access.index
    axes = layout.axes()
    if not _is_cell(read, layout):
        text = whole(job, edits, read.use.statement, job.source(node), layout)
        as_tensor(job, edits, read, text)
        return
    for axis in axes:
        element = index[axis]
        assert isinstance(element, At)
        if not job.facts.is_position(element.node):
            raise NotProven(f"the index `{job.source(element.node)}` on line {job.line(element.node)} may be an array")
    for loop in job.syntax.loops(node):
        if job.facts.graph_loop(loop):
            raise NotProven(f"`{job.name}` is read on line {job.line(node)} in a loop of the graph")
    rest = [e for a, e in enumerate(index) if a not in axes]
    while rest and isinstance(rest[-1], Span) and rest[-1].whole:
        rest.pop()
    inner = "".join(f"[{{at{a}}}]" for a in axes)
    parts: dict[str, ast.AST | str] = {"buffer": node}
    for axis in axes:
        element = index[axis]
        assert isinstance(element, At)
        parts[f"at{axis}"] = element.node
    tail = f"[{', '.join(_text(job, e) for e in rest)}]" if rest else ""
    edits.rewrite(read.access.node, f"{{buffer}}{inner}{tail}", **parts)


def _is_cell(read: Read, layout: Layout) -> bool:
    index, axes = read.access.index, layout.axes()
    cells = len(index) > axes[-1] and all(isinstance(index[a], At) for a in axes)
    return cells and all(_whole_span(index[a]) for a in range(axes[-1]) if a not in axes)


def _whole_span(element: Element) -> bool:
    return isinstance(element, Span) and element.whole


def _text(job: Job, element: Element) -> str:
    match element:
        case At(node=node):
            return job.source(node)
        case Span(node=node):
            return job.source(node)
    raise NotProven("an index picks with an array, `...` or a new axis")


def _inside_reset(job: Job, read: Read) -> bool:
    """Whether the read is the inner `v` of `v.assign(tf.zeros_like(v))`, which its write takes care of."""
    return any(
        w.form == "whole"
        and w.statement is read.use.statement
        and _is_like_itself(w)
        and isinstance(w.use.spot.node, ast.Attribute)
        for w in job.writes
    )


def _is_length(job: Job, read: Read, layout: Layout) -> bool:
    """`len(buf)` is the list's own length."""
    parent = job.syntax.parent(read.access.node)
    return (
        layout.axis == 0
        and not read.access.index
        and isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Name)
        and parent.func.id == "len"
    )
