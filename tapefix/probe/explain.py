"""From edges to causes: for each source without a gradient the line where its path to the target ends.

A pure function of plain data, so that every rule can be tried on a few hand-written edges.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple

from .before import reads_outside, stored
from .graph import ENTER, OP, PYTHON, READ, STATE, Edge, Event, Graph, Question, Reason, Source, Test
from .partial import terms
from .paths import Paths
from .suspected import ZEROING, suspected_cuts

Place = Tuple[str, int]


def explain(graph: Graph, question: Question) -> List[Reason]:
    """The reasons for every missing, partial or all-zero gradient of one call, the likeliest first."""
    paths = Paths(graph, question)
    found: List[Reason] = []
    living = paths.downstream([n for s in question.sources for n in paths.starts(s)], paths.taped)
    paths.terms = terms(paths, living)
    for index, source in enumerate(question.sources):
        if source.status == "none":
            found += _missing(paths, index, source)
        else:
            if source.status == "zero":
                found += _zeroed(paths, index, source)
            found += _partial(paths, index, source)
    return _merge(found)


def _merge(reasons: List[Reason]) -> List[Reason]:
    """One reason a place and kind, with all its sources; those that explain more sources first."""
    merged: Dict[Tuple[str, Place, bool], Reason] = {}
    for reason in reasons:
        key = (reason.kind, reason.place, reason.partial)
        known = merged.get(key)
        if known is None:
            merged[key] = reason
        else:
            sources = tuple(dict.fromkeys(known.sources + reason.sources))
            merged[key] = known._replace(sources=sources, back=known.back or reason.back)
    return sorted(merged.values(), key=lambda r: (r.partial, -len(r.sources)))


def _reason(kind: str, event: Event, index: int, question: Question, place: Optional[Place] = None) -> Reason:
    where = place or event.place or question.asked.place or ("<unknown>", 0)
    return Reason(kind, event.op, where, (index,), via=event.via)


# ---------------------------------------------------------------------- None
def _missing(paths: Paths, index: int, source: Source) -> List[Reason]:
    """Why this source has no gradient: the first of the rules that has an answer."""
    question = paths.question
    if not source.trainable or source.integer:
        return [_reason("integer" if source.integer else "untrainable", question.asked, index, question)]
    if source.variable is None and not source.watched:
        return [_unwatched(paths, index, source)]
    starts = paths.starts(source)
    reached = paths.downstream(starts, paths.taped)
    for rule in (_late, _cuts, _outside, _decisions, _never_read, _dead_ends):
        reasons = rule(paths, index, source, reached)
        if reasons:
            return reasons
    return [_reason("unread", question.asked, index, question), *_never_used(paths, index, source)]


def _never_used(paths: Paths, index: int, source: Source) -> List[Reason]:
    """Where the weights were made that nothing under the tape has used."""
    if source.variable is None or paths.starts(source):
        return []
    made = paths.graph.made_at.get(source.variable)
    return [_reason("unused", made, index, paths.question)] if made is not None and made.place else []


def _unwatched(paths: Paths, index: int, source: Source) -> Reason:
    question = paths.question
    born = paths.graph.born.get(source.node if source.node is not None else -1)
    parameter = any(other.variable is not None for other in question.sources)
    made_inside = born is not None and question.tape in born.tapes
    event = born if born is not None and born.place and (parameter or made_inside) else question.opened
    reason = _reason("unwatched", event, index, question)
    return reason._replace(back=born.place if born is not None else None)


def _late(paths: Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """The tensor was used before it was watched, and not afterwards."""
    if source.node is None or source.watched_at < 0:
        return []
    uses = [edge for edge in paths.forward.get(source.node, ()) if edge.dst in paths.useful]
    if not uses or any(edge.event.when > source.watched_at for edge in uses):
        return []
    first = min(uses, key=lambda edge: edge.event.when)
    return [_reason("late", first.event, index, paths.question)]


def _cuts(paths: Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """Edges that leave what the gradient reaches, without it, and lead to the target without coming back there.

    What comes back (the mean that a variance stops) reaches the target through a later cut, which is the cause.
    """
    onward = paths.upstream(paths.question.goals, lambda edge: edge.src not in reached)
    cuts = [
        edge
        for node in reached
        for edge in paths.forward.get(node, ())
        if edge.kind not in (PYTHON, ENTER) and not paths.taped(edge) and edge.dst in onward
    ]
    real = [e for e in cuts if e.kind != STATE] or cuts
    direct = [e for e in real if _by_value(paths, e)] or real
    return [_cut(paths, index, edge) for edge in sorted(direct, key=lambda e: e.event.when)]


def _by_value(paths: Paths, edge: Edge) -> bool:
    """The way on leads to the target through values, not only through an index or a condition."""
    return edge.dst in paths.smooth or edge.dst in paths.graph.hard


def _cut(paths: Paths, index: int, edge: Edge) -> Reason:
    unrecorded = edge.kind == OP and paths.question.tape not in edge.event.tapes and edge.dst not in paths.graph.hard
    kind = "after" if unrecorded else edge.kind
    return _reason(kind, edge.event, index, paths.question)._replace(back=_comes_back(paths, edge))


def _comes_back(paths: Paths, edge: Edge) -> Optional[Place]:
    """Where the value that left is used in TensorFlow again."""
    if edge.kind == OP:
        return None
    seen, todo = {edge.dst}, [edge.dst]
    while todo:
        for follow in paths.forward.get(todo.pop(), ()):
            if follow.dst in paths.useful and follow.dst not in seen:
                if follow.kind in (ENTER, READ) and follow.event.place:
                    return follow.event.place
                seen.add(follow.dst)
                todo.append(follow.dst)
    return None


def _outside(paths: Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """The source was read under no tape, or another one, and that value reaches the target."""
    question = paths.question
    opener = {frame.ident for frame in question.opened.stack}
    places: Dict[Place, Reason] = {}
    for edge in reads_outside(paths, source):
        left = stored(paths, edge)
        for export in left:
            reason = _reason("stored", export.event, index, question)
            places[reason.place] = reason._replace(back=_comes_back(paths, export))
        if left:
            continue
        near = next(((f.filename, f.line) for f in edge.event.stack if f.ident in opener), None)
        reason = _reason("outside", edge.event, index, question, near)
        places[reason.place] = reason._replace(back=question.opened.place)
    return list(places.values())


def _decisions(paths: Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """The source's value only decides which way the program goes."""
    starts = paths.starts(source)
    touched = paths.downstream(starts, lambda edge: True)
    firm = [t for t in _recent(paths) if not t.weak and any(node in touched for node in t.nodes)]
    weak = [t for t in _recent(paths) if t.weak and any(node in touched for node in t.nodes)]
    return _tests(paths, "decides", index, firm or weak)


def _never_read(paths: Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """The source was never read under the tape: a branch was not taken, or it belongs to something else."""
    if paths.starts(source) and source.variable is not None:
        return []
    if source.variable is None:
        return []
    made = [e for e in paths.graph.made if paths.question.tape in e.tapes and e.place]
    if made:
        return list({e.place: _reason("made", e, index, paths.question) for e in made}.values())
    tests = _recent(paths)
    firm = [t for t in tests if not t.weak]
    speaking = [t for t in firm if _speaks_of(t, source)] or [t for t in tests if _speaks_of(t, source)]
    return _tests(paths, "undecided", index, speaking or firm or [t for t in tests if not t.mentions])


def _speaks_of(test: Test, source: Source) -> bool:
    """A branch names the source, or one of what the source is one of (`block` of `blocks`)."""
    return any(word in test.mentions or word.rstrip("s") in test.mentions for word in source.words)


def _recent(paths: Paths) -> List[Test]:
    question = paths.question
    return [
        t
        for t in paths.graph.tests
        if question.opened.when <= t.event.when <= question.asked.when and question.tape in t.event.tapes
    ]


def _tests(paths: Paths, kind: str, index: int, tests: List[Test]) -> List[Reason]:
    places = {t.event.place: t for t in tests if t.event.place}
    return [
        _reason(kind, t.event, index, paths.question)._replace(sure=kind == "decides" and not t.weak)
        for t in places.values()
    ]


def _dead_ends(paths: Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """What was computed from the source is not used on: its last value is thrown away or overwritten."""
    question = paths.question
    ends = [
        edge
        for node in reached
        for edge in paths.backward.get(node, ())
        if edge.event.stack and not any(follow.dst in reached for follow in paths.forward.get(node, ()))
    ]
    later = sorted(
        {edge.event for node in paths.useful for edge in paths.backward.get(node, ())}, key=lambda event: event.when
    )
    reasons = []
    for edge in ends:
        after = next((event for event in later if event.when > edge.event.when), question.asked)
        shared = {frame.ident for frame in after.stack}
        near = next(((f.filename, f.line) for f in edge.event.stack if f.ident in shared), None)
        reasons.append(_reason("dead-end", edge.event, index, question, near))
    return reasons


# ---------------------------------------------------------------------- zero and partial
def _zeroed(paths: Paths, index: int, source: Source) -> List[Reason]:
    """Every way to the target goes through an operation whose gradient is zero everywhere."""
    starts = paths.starts(source)
    free = paths.downstream(starts, lambda e: paths.taped(e) and e.event.op not in ZEROING)
    if any(goal in free for goal in paths.question.goals):
        return []
    blocked = [
        e for node in free for e in paths.forward.get(node, ()) if e.event.op in ZEROING and e.dst in paths.useful
    ]
    return [_reason("zero", edge.event, index, paths.question) for edge in blocked]


def _partial(paths: Paths, index: int, source: Source) -> List[Reason]:
    """A value of the source goes on without its gradient as a term of the target or of a state.

    A value that was taken out as a target, a baseline, a weight or a scale was detached on purpose: it meets what
    still carries the gradient in a subtraction, a product or a quotient, not in a sum.
    """
    reasons = [
        _reason(kind, event, index, paths.question, place)._replace(partial=True)
        for kind, event, place in suspected_cuts(paths, source)
    ]
    if paths.terms:
        reached = paths.downstream(paths.starts(source), paths.taped)
        reasons += [_cut(paths, index, edge)._replace(partial=True) for edge in paths.terms if edge.src in reached]
    return reasons
