"""Values of a source from before the tape, or from outside it, that lead to the target."""

from __future__ import annotations

from typing import List, Set

from .graph import EXPORT, OP, Edge, Source
from .paths import Paths


def reads_outside(paths: Paths, source: Source) -> List[Edge]:
    """The reads of a Variable that the tape did not record and whose value leads to the target, the last of each line.

    An episode of a thousand steps reads a weight a thousand times on the same line.
    """
    if source.variable is None:
        return []
    tape = paths.question.tape
    reads = (e for e in paths.reads[source.variable] if tape not in e.event.tapes and e.dst in paths.by_value)
    last = {tuple((frame.filename, frame.line) for frame in read.event.stack): read for read in reads}
    return list(last.values())


def stored(paths: Paths, read: Edge) -> List[Edge]:
    """Where the value of such a read leaves TensorFlow, and leads to the target as a number.

    A tape opened earlier would not help there.
    """
    found: List[Edge] = []
    seen: Set[int] = {read.dst}
    todo = [read.dst]
    while todo:
        for edge in paths.forward.get(todo.pop(), ()):
            if paths.question.tape in edge.event.tapes or edge.dst in seen or edge.dst not in paths.smooth:
                continue
            if edge.kind == EXPORT:
                found.append(edge)
            elif edge.kind == OP:
                seen.add(edge.dst)
                todo.append(edge.dst)
    return found
