"""Partial cuts that two witnesses tell of: `check` has a finding at the line, and the run lost a value there.

Of a mask, a scale or a decision the run alone does not show whether it was detached on purpose. `check` knows the
text; the run knows that the value depends on the source and leads on to the target.
"""

from __future__ import annotations

from typing import List, Optional, Set, Tuple

from .before import reads_outside, stored
from .graph import EXPORT, OP, PYTHON, READ, STATE, Edge, Event, Source
from .partial import stopped_beside
from .paths import Paths

Place = Tuple[str, int]
_SELECTS = frozenset("Where Select SelectV2".split())
ZEROING = frozenset(["Sign"])  # their gradient is there, and zero


def suspected_cuts(paths: Paths, source: Source) -> List[Tuple[str, Event, Place]]:
    """(kind of the reason, event, place) of each place with a finding at which values of the source are lost."""
    starts = paths.starts(source)
    reached = paths.downstream(starts, paths.taped)
    return _lost(paths, reached) + _decided(paths, starts) + _read_outside(paths, source)


def _suspected(paths: Paths, event: Event) -> bool:
    return event.place in paths.question.suspected


def _lost(paths: Paths, reached: Set[int]) -> List[Tuple[str, Event, Place]]:
    """Edges out of what the gradient reaches, and on through what has no gradient, as far as a finding."""
    found: List[Tuple[str, Event, Place]] = []
    seen = set(reached)
    onward = (edge for node in reached for edge in paths.forward.get(node, ()))
    leaving = (edge for edge in onward if edge.event.op in ZEROING or not paths.taped(edge))
    todo = [edge for edge in leaving if _leads(paths, edge)]
    while todo:
        edge = todo.pop()
        place = edge.event.place
        if place is not None and _suspected(paths, edge.event):
            if edge.kind == OP and (stopped_beside(paths, edge, reached) or _chooses_its_own(paths, edge)):
                continue
            found.append((OP if edge.kind == PYTHON else edge.kind, edge.event, place))
        elif edge.dst not in seen and (edge.dst in paths.graph.hard or edge.kind in (EXPORT, PYTHON)):
            seen.add(edge.dst)
            todo += [follow for follow in paths.forward.get(edge.dst, ()) if _leads(paths, follow)]
    return found


def _chooses_its_own(paths: Paths, cut: Edge) -> bool:
    """The condition chooses between values of what is compared, as a ReLU or a Huber loss does: nothing is lost."""
    hard = paths.graph.hard
    condition = paths.downstream([cut.dst], lambda edge: edge.dst in hard)
    uses = [e for node in condition for e in paths.forward.get(node, ()) if e.dst not in hard and e.dst in paths.useful]
    if not uses or not all(use.event.op in _SELECTS for use in uses):
        return False
    states = {e.src for e in paths.backward.get(cut.src, ()) if e.kind == READ}
    compared = {cut.src} | {e.dst for state in states for e in paths.forward.get(state, ()) if e.kind == READ}
    own = paths.downstream(compared, paths.taped)
    return all(any(e.src in own for e in paths.backward.get(use.dst, ()) if e.src not in hard) for use in uses)


def _leads(paths: Paths, edge: Edge) -> bool:
    return edge.kind != STATE and edge.dst in paths.useful


def _decided(paths: Paths, starts: Set[int]) -> List[Tuple[str, Event, Place]]:
    """Decisions on values of the source between the tape's beginning and the gradient call."""
    first, last = paths.question.opened.when, paths.question.asked.when
    asked = (test for test in paths.graph.tests if test.nodes and first <= test.event.when <= last)
    tests = [test for test in asked if _suspected(paths, test.event)]
    if not tests:
        return []
    touched = paths.downstream(starts, lambda edge: True)
    return [
        ("decides", test.event, test.event.place)
        for test in tests
        if test.event.place is not None and not touched.isdisjoint(test.nodes)
    ]


def _read_outside(paths: Paths, source: Source) -> List[Tuple[str, Event, Place]]:
    """Values of the source from before the tape; the finding may lie at any of the calls that led there."""
    found = []
    for read in reads_outside(paths, source):
        left = stored(paths, read)
        for kind, edge in [("outside", read)] if not left else [("stored", export) for export in left]:
            place = _suspected_caller(paths, edge.event)
            if place is not None:
                found.append((kind, edge.event, place))
    return found


def _suspected_caller(paths: Paths, event: Event) -> Optional[Place]:
    places = ((frame.filename, frame.line) for frame in event.stack)
    return next((place for place in places if place in paths.question.suspected), None)
