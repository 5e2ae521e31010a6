"""Whether the writes fill every slot of a buffer exactly once, and in which order."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tapefix.rewrite.accumulators.access import Write, leading, single_axis
from tapefix.rewrite.accumulators.dims import Linear
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.loops import Counter, counters, leaves_early, passes
from tapefix.rewrite.accumulators.outcome import NotProven
from tapefix.rewrite.accumulators.syntax import Loop


@dataclass(frozen=True)
class Filling:
    """The writes fill the buffer along `axis` (or along its `depth` first axes, the last one fastest)."""

    axis: int
    depth: int
    backwards: bool
    loops: tuple[Loop, ...]  # of the only group, outermost first; empty where there are several groups
    end: ast.stmt  # the buffer is complete after it

    @property
    def flat(self) -> bool:
        """Whether one list of slots stands for more than one axis."""
        return self.depth > 1


@dataclass(frozen=True)
class _Piece:
    """Slots [start, stop) filled by one statement of the maker's block."""

    start: Linear
    stop: Linear
    upwards: bool
    loops: tuple[Loop, ...]


def filling(job: Job) -> Filling:
    """How the buffer is filled. Raises NotProven where not every slot is written exactly once, in order."""
    if not job.writes:
        raise NotProven(f"nothing is written into `{job.name}`")
    groups = _groups(job)
    last = groups[-1][0]
    places = [leading(w.access.index) for w in job.writes]
    if all(p is not None and len(p) > 1 for p in places):
        return _nested(job, groups)
    axis = _common_axis(job)
    size = job.made.size(axis, job.dims)
    if size is None:
        raise NotProven(f"the size of axis {axis} of `{job.name}` is not known")
    pieces = [_piece(job, statement, writes) for statement, writes in groups]
    backwards = not pieces[0].upwards
    if backwards and len(pieces) > 1:
        raise NotProven(f"`{job.name}` is filled from several places, partly backwards")
    _adjoining(job, pieces, size)
    return Filling(axis, 1, backwards, pieces[0].loops if len(pieces) == 1 else (), last)


def _groups(job: Job) -> list[tuple[ast.stmt, list[Write]]]:
    """The writes by the statement of the maker's block (or of a `with` block in it) that holds them, in order."""
    found: dict[ast.stmt, list[Write]] = {}
    for write in job.writes:
        found.setdefault(_top(job, write), []).append(write)
    return sorted(found.items(), key=lambda item: job.syntax.order[item[0]])


def _top(job: Job, write: Write) -> ast.stmt:
    block = job.syntax.block(job.maker_statement)
    chain = [write.statement, *(a for a in job.syntax.ancestors(write.statement) if isinstance(a, ast.stmt))]
    for position, statement in enumerate(chain):
        if statement in block:
            # step back inwards through `with` blocks: what they hold runs once, like the block itself
            while isinstance(chain[position], ast.With) and position > 0:
                position -= 1
            return chain[position]
    raise NotProven(
        f"line {job.line(write.statement)} writes into `{job.name}` under another condition than line "
        f"{job.line(job.maker_statement)} makes it"
    )


def _common_axis(job: Job) -> int:
    axes = set()
    for write in job.writes:
        place = single_axis(write.access.index, job.made.rank)
        if place is None:
            raise NotProven(f"line {job.line(write.statement)} writes more or less than one slot of one axis")
        axes.add(place[0])
    if len(axes) > 1:
        raise NotProven(f"`{job.name}` is filled along several axes")
    return axes.pop()


def _piece(job: Job, top: ast.stmt, writes: list[Write]) -> _Piece:
    statements = [w.statement for w in writes]
    places = {ast.unparse(single_axis(w.access.index, job.made.rank)[1]) for w in writes}  # type: ignore[index]
    if len(places) > 1:
        raise NotProven(f"the statement on line {job.line(top)} writes several slots of `{job.name}` in one pass")
    position = single_axis(writes[0].access.index, job.made.rank)[1]  # type: ignore[index]
    if isinstance(top, ast.For | ast.While):
        _once_in_each_pass(job, top, statements)
        counter, shift = _counted(job, [top], position, writes[0])
        return _Piece(counter.start + shift, counter.stop + shift, counter.upwards, (top,))
    if passes([top], statements, job.syntax) != 1:
        raise NotProven(f"whether line {job.line(top)} writes into `{job.name}` depends on a condition")
    start = job.dims.of(position)
    return _Piece(start, start + Linear.constant(1), True, ())


def _once_in_each_pass(job: Job, loop: Loop, statements: list[ast.stmt]) -> None:
    if (early := leaves_early(loop)) is not None:
        raise NotProven(f"a pass of the loop may end early on line {job.line(early)}, before `{job.name}` is written")
    if loop.orelse and any(job.syntax.inside(s, branch) for s in statements for branch in loop.orelse):
        raise NotProven(f"`{job.name}` is written in the loop's `else` on line {job.line(loop)}")
    if passes(loop.body, statements, job.syntax) != 1:
        raise NotProven(f"not every pass of the loop on line {job.line(loop)} writes into `{job.name}` exactly once")


def _counted(job: Job, loops: list[Loop], position: ast.expr, write: Write) -> tuple[Counter, Linear]:
    """The counter of one of the loops that a position is made from, and what is added to it."""
    for loop in loops:
        for counter in counters(loop, job.dims):
            shift = _shift(job, position, counter.name)
            if shift is not None:
                return counter, shift
    raise NotProven(
        f"the index `{ast.unparse(position)}` on line {job.line(write.statement)} does not count the passes of a loop"
    )


def _shift(job: Job, position: ast.expr, name: str) -> Linear | None:
    """`c` where the position is `name + c` (or `c + name`, `name - c`)."""
    match position:
        case ast.Name(id=other):
            return Linear.constant(0) if other == name else None
        case ast.BinOp(left=ast.Name(id=other), op=ast.Add(), right=rest) if other == name:
            return job.dims.of(rest)
        case ast.BinOp(left=rest, op=ast.Add(), right=ast.Name(id=other)) if other == name:
            return job.dims.of(rest)
        case ast.BinOp(left=ast.Name(id=other), op=ast.Sub(), right=rest) if other == name:
            return -job.dims.of(rest)
    return None


def _adjoining(job: Job, pieces: list[_Piece], size: Linear) -> None:
    """The pieces follow each other without a gap and cover [0, size)."""
    at = Linear.constant(0)
    for piece in pieces:
        if piece.start != at:
            raise NotProven(f"the slots of `{job.name}` are not written one after the other from the first one")
        at = piece.stop
    if at != size:
        raise NotProven(f"it is not known that every slot of `{job.name}` is written")


def _nested(job: Job, groups: list[tuple[ast.stmt, list[Write]]]) -> Filling:
    """`for i …: for j …: buf[i, j] = x` over the whole of the axes."""
    if len(groups) > 1:
        raise NotProven(f"`{job.name}` is filled from several places")
    top, writes = groups[0]
    write = writes[0]
    positions = leading(write.access.index) or []
    if any(ast.unparse(w.access.node.slice) != ast.unparse(write.access.node.slice) for w in writes):  # type: ignore[attr-defined]
        raise NotProven(f"the loop on line {job.line(top)} writes several slots of `{job.name}` in one pass")
    loops = [loop for loop in job.syntax.loops(write.statement) if job.syntax.inside(loop, top)]
    if len(loops) != len(positions) or not isinstance(top, ast.For | ast.While) or loops[0] is not top:
        raise NotProven(f"`{job.name}` has {len(positions)} indices but {len(loops)} loops fill it")
    inner: list[ast.stmt] = [w.statement for w in writes]
    for number in reversed(range(len(loops))):
        _once_in_each_pass(job, loops[number], inner)
        counter, shift = _counted(job, [loops[number]], positions[number], write)
        size = job.made.size(number, job.dims)
        if (
            not counter.upwards
            or counter.start + shift != Linear.constant(0)
            or size is None
            or counter.stop + shift != size
        ):
            raise NotProven(
                f"it is not known that the loop on line {job.line(loops[number])} covers axis {number} of `{job.name}`"
            )
        inner = [loops[number]]
    return Filling(0, len(positions), False, tuple(loops), top)
