"""From edges to causes: for each source without a gradient the line where its path to the target ends.

A pure function of plain data, so that every rule can be tried on a few hand-written edges.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Callable, DefaultDict, Dict, Iterable, List, Optional, Set, Tuple

from .graph import ENTER, EXPORT, OP, PYTHON, READ, STATE, WRITE, Edge, Event, Graph, Question, Reason, Source, Test

Place = Tuple[str, int]
_JOINS = frozenset("Add AddV2 AddN BiasAdd Sum Mean Concat ConcatV2 Pack AccumulateNV2".split())
_SIGNED = frozenset(["Sub"])
_APPLIES = frozenset("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv1D Conv2D Conv3D Einsum".split())
_LINEAR = (
    _JOINS
    | _SIGNED
    | frozenset("Neg Identity Reshape Cast Squeeze ExpandDims Mul RealDiv Div DivNoNan Snapshot".split())
)
_ZEROING = frozenset(["Sign"])
_MEANS = frozenset(["Mean", "Sum"])
_MEANS_IN_NUMPY = frozenset("mean average nanmean sum nansum".split())


class _Paths:
    """The graph, indexed both ways, as one gradient call sees it."""

    def __init__(self, graph: Graph, question: Question) -> None:
        self.graph, self.question = graph, question
        self.terms: List[Edge] = []  # living values that go on as a term of the target without their gradient
        self.forward: DefaultDict[int, List[Edge]] = defaultdict(list)
        self.backward: DefaultDict[int, List[Edge]] = defaultdict(list)
        self.reads: DefaultDict[int, List[Edge]] = defaultdict(list)  # by variable
        for edge in graph.edges:
            self.forward[edge.src].append(edge)
            self.backward[edge.dst].append(edge)
            if edge.kind == READ and edge.src in graph.variable:
                self.reads[graph.variable[edge.src]].append(edge)
        goals = question.goals
        self.useful = self.upstream(goals, lambda edge: True)
        self.by_value = self.upstream(goals, lambda edge: edge.kind not in (WRITE, STATE))
        self.smooth = self.upstream(goals, lambda edge: edge.src not in graph.hard and edge.dst not in graph.hard)

    def downstream(self, starts: Iterable[int], follow: Callable[[Edge], bool]) -> Set[int]:
        return _closure(starts, self.forward, follow, lambda edge: edge.dst)

    def upstream(self, starts: Iterable[int], follow: Callable[[Edge], bool]) -> Set[int]:
        return _closure(starts, self.backward, follow, lambda edge: edge.src)

    def taped(self, edge: Edge) -> bool:
        """The tape recorded this edge, and its operation has a gradient."""
        if self.question.tape not in edge.event.tapes:
            return False
        return edge.kind == READ or (edge.kind == OP and edge.carries)

    def starts(self, source: Source) -> Set[int]:
        """The tensors in which the tape saw the source."""
        if source.variable is None:
            return set() if source.node is None else {source.node}
        return {e.dst for e in self.reads[source.variable] if self.question.tape in e.event.tapes}


def _closure(
    starts: Iterable[int], table: Dict[int, List[Edge]], follow: Callable[[Edge], bool], end: Callable[[Edge], int]
) -> Set[int]:
    got = set(starts)
    todo = list(got)
    while todo:
        for edge in table.get(todo.pop(), ()):
            node = end(edge)
            if node not in got and follow(edge):
                got.add(node)
                todo.append(node)
    return got


def explain(graph: Graph, question: Question) -> List[Reason]:
    """The reasons for every missing, partial or all-zero gradient of one call, the likeliest first."""
    paths = _Paths(graph, question)
    found: List[Reason] = []
    living = paths.downstream([n for s in question.sources for n in paths.starts(s)], paths.taped)
    paths.terms = _terms(paths, living)
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
def _missing(paths: _Paths, index: int, source: Source) -> List[Reason]:
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
    return [_reason("unread", question.asked, index, question)]


def _unwatched(paths: _Paths, index: int, source: Source) -> Reason:
    question = paths.question
    born = paths.graph.born.get(source.node if source.node is not None else -1)
    parameter = any(other.variable is not None for other in question.sources)
    made_inside = born is not None and question.tape in born.tapes
    event = born if born is not None and born.place and (parameter or made_inside) else question.opened
    reason = _reason("unwatched", event, index, question)
    return reason._replace(back=born.place if born is not None else None)


def _late(paths: _Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """The tensor was used before it was watched, and not afterwards."""
    if source.node is None or source.watched_at < 0:
        return []
    uses = [edge for edge in paths.forward.get(source.node, ()) if edge.dst in paths.useful]
    if not uses or any(edge.event.when > source.watched_at for edge in uses):
        return []
    first = min(uses, key=lambda edge: edge.event.when)
    return [_reason("late", first.event, index, paths.question)]


def _cuts(paths: _Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """Edges that leave what the gradient reaches, without it, and still lead to the target."""
    cuts = [
        edge
        for node in reached
        for edge in paths.forward.get(node, ())
        if edge.kind not in (PYTHON, ENTER) and not paths.taped(edge) and edge.dst in paths.useful
    ]
    real = [e for e in cuts if e.kind != STATE] or cuts
    direct = [e for e in real if _by_value(paths, e)] or real
    return [_cut(paths, index, edge) for edge in sorted(direct, key=lambda e: e.event.when)]


def _by_value(paths: _Paths, edge: Edge) -> bool:
    """The way on leads to the target through values, not only through an index or a condition."""
    return edge.dst in paths.smooth or edge.dst in paths.graph.hard


def _cut(paths: _Paths, index: int, edge: Edge) -> Reason:
    unrecorded = edge.kind == OP and paths.question.tape not in edge.event.tapes and edge.dst not in paths.graph.hard
    kind = "after" if unrecorded else edge.kind
    return _reason(kind, edge.event, index, paths.question)._replace(back=_comes_back(paths, edge))


def _comes_back(paths: _Paths, edge: Edge) -> Optional[Place]:
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


def _outside(paths: _Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """The source was read under no tape, or another one, and that value reaches the target."""
    question = paths.question
    if source.variable is None:
        return []
    outside = [
        edge
        for edge in paths.reads[source.variable]
        if question.tape not in edge.event.tapes and edge.dst in paths.by_value
    ]
    opener = {frame.ident for frame in question.opened.stack}
    places: Dict[Place, Reason] = {}
    for edge in outside:
        near = next(((f.filename, f.line) for f in edge.event.stack if f.ident in opener), None)
        reason = _reason("outside", edge.event, index, question, near)
        places[reason.place] = reason._replace(back=question.opened.place)
    return list(places.values())


def _decisions(paths: _Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
    """The source's value only decides which way the program goes."""
    starts = paths.starts(source)
    touched = paths.downstream(starts, lambda edge: True)
    firm = [t for t in _recent(paths) if not t.weak and any(node in touched for node in t.nodes)]
    weak = [t for t in _recent(paths) if t.weak and any(node in touched for node in t.nodes)]
    return _tests(paths, "decides", index, firm or weak)


def _never_read(paths: _Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
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


def _recent(paths: _Paths) -> List[Test]:
    question = paths.question
    return [
        t
        for t in paths.graph.tests
        if question.opened.when <= t.event.when <= question.asked.when and question.tape in t.event.tapes
    ]


def _tests(paths: _Paths, kind: str, index: int, tests: List[Test]) -> List[Reason]:
    places = {t.event.place: t for t in tests if t.event.place}
    return [
        _reason(kind, t.event, index, paths.question)._replace(sure=kind == "decides" and not t.weak)
        for t in places.values()
    ]


def _dead_ends(paths: _Paths, index: int, source: Source, reached: Set[int]) -> List[Reason]:
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
def _zeroed(paths: _Paths, index: int, source: Source) -> List[Reason]:
    """Every way to the target goes through an operation whose gradient is zero everywhere."""
    starts = paths.starts(source)
    free = paths.downstream(starts, lambda e: paths.taped(e) and e.event.op not in _ZEROING)
    if any(goal in free for goal in paths.question.goals):
        return []
    blocked = [
        e for node in free for e in paths.forward.get(node, ()) if e.event.op in _ZEROING and e.dst in paths.useful
    ]
    return [_reason("zero", edge.event, index, paths.question) for edge in blocked]


def _partial(paths: _Paths, index: int, source: Source) -> List[Reason]:
    """A value of the source goes on without its gradient as a term of the target or of a state.

    A value that was taken out as a target, a baseline, a weight or a scale was detached on purpose: it meets what
    still carries the gradient in a subtraction, a product or a quotient, not in a sum.
    """
    if not paths.terms:
        return []
    reached = paths.downstream(paths.starts(source), paths.taped)
    return [_cut(paths, index, edge)._replace(partial=True) for edge in paths.terms if edge.src in reached]


def _terms(paths: _Paths, living: Set[int]) -> List[Edge]:
    """The edges by which a living value leaves under the tape and goes on as a term of the target."""
    tape = paths.question.tape
    return [
        edge
        for node in living
        for edge in paths.forward.get(node, ())
        if edge.kind in (EXPORT, WRITE)
        and tape in edge.event.tapes
        and edge.dst in paths.smooth
        and _is_term(paths, edge, living)
    ]


def _is_term(paths: _Paths, cut: Edge, living: Set[int]) -> bool:
    """The cut value is added to what still carries the gradient, or goes through other weights by itself."""
    meetings = _meetings(paths, cut.dst, living)
    if not meetings:
        return True  # it is the target, or all of it
    upstream: Optional[Set[int]] = None
    for edge in meetings:
        op = edge.event.op
        if op in _JOINS or (op in _SIGNED and _linear_to_target(paths, edge.dst)):
            return True
        if op in _SIGNED and _is_own_mean(paths, cut, edge):
            return True
        if op in _APPLIES and cut.kind == EXPORT:
            if upstream is None:
                upstream = paths.upstream([cut.src], lambda e: True)
            if _other_weights(paths, edge, upstream):
                return True
    return False


def _is_own_mean(paths: _Paths, cut: Edge, edge: Edge) -> bool:
    """The cut value is a mean or sum of the very tensor it is taken from: that is centring, and its gradient counts.

    A maximum taken from its own tensor (a softmax that does not overflow) is detached on purpose: there it cancels out.
    """
    whole = {other.src for other in _inputs(paths, edge)}
    if cut.src in whole:
        return cut.event.via.rpartition(".")[2] in _MEANS_IN_NUMPY
    seen, todo, averaged = {cut.src}, [cut.src], False
    while todo:
        for back in paths.backward.get(todo.pop(), ()):
            if back.kind != OP or back.event.op not in _LINEAR:
                continue
            averaged = averaged or back.event.op in _MEANS
            if back.src in whole:
                return averaged
            if back.src not in seen:
                seen.add(back.src)
                todo.append(back.src)
    return False


def _meetings(paths: _Paths, start: int, living: Set[int]) -> List[Edge]:
    """The first operations at which the cut value meets one that still carries a gradient."""
    seen, todo, found = {start}, [start], []
    while todo:
        for edge in paths.forward.get(todo.pop(), ()):
            if edge.dst in seen or edge.dst not in paths.smooth:
                continue
            if edge.kind == OP and any(other.src in living for other in _inputs(paths, edge)):
                found.append(edge)
                continue
            seen.add(edge.dst)
            todo.append(edge.dst)
    return found


def _inputs(paths: _Paths, edge: Edge) -> List[Edge]:
    return [e for e in paths.backward.get(edge.dst, ()) if e.event is edge.event]


def _linear_to_target(paths: _Paths, node: int) -> bool:
    """From here to the target there are only sums and constant factors."""
    seen, todo = {node}, [node]
    while todo:
        for edge in paths.forward.get(todo.pop(), ()):
            if edge.dst in seen or edge.dst not in paths.smooth:
                continue
            if edge.kind != OP or edge.event.op not in _LINEAR:
                return False
            seen.add(edge.dst)
            todo.append(edge.dst)
    return True


def _other_weights(paths: _Paths, edge: Edge, upstream: Set[int]) -> bool:
    """The operation applies weights from which the cut value was not computed."""
    others = [other for other in _inputs(paths, edge) if other.src != edge.src]
    for other in others:
        for read in paths.backward.get(other.src, ()):
            if read.kind == READ and read.src in paths.graph.variable and read.src not in upstream:
                return True
    return False
