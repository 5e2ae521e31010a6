"""Partial cuts: values that go on to the target without their gradient, beside a way that keeps it."""

from __future__ import annotations

from typing import List, Optional, Set

from .graph import EXPORT, OP, READ, WRITE, Edge
from .paths import Paths

_JOINS = frozenset("Add AddV2 AddN BiasAdd Sum Mean Concat ConcatV2 Pack AccumulateNV2".split())
_SIGNED = frozenset(["Sub"])
_FACTORS = frozenset("Mul RealDiv Div DivNoNan".split())
_APPLIES = frozenset("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv1D Conv2D Conv3D Einsum".split())
_LINEAR = (
    _JOINS
    | _SIGNED
    | frozenset("Neg Identity Reshape Cast Squeeze ExpandDims Mul RealDiv Div DivNoNan Snapshot".split())
)
ROUNDS = frozenset("Round Rint Floor Ceil".split())
_MEANS = frozenset(["Mean", "Sum"])
_MEANS_IN_NUMPY = frozenset("mean average nanmean sum nansum".split())


def terms(paths: Paths, living: Set[int]) -> List[Edge]:
    """The edges by which a living value loses its gradient under the tape and goes on as a term of the target."""
    tape = paths.question.tape
    recorded: Optional[Set[int]] = None
    found = []
    for node in living:
        for edge in paths.forward.get(node, ()):
            rounds = edge.kind == OP and edge.event.op in ROUNDS
            if not (rounds or edge.kind in (EXPORT, WRITE)) or tape not in edge.event.tapes:
                continue
            if edge.dst not in paths.smooth or (edge.kind == WRITE and _initialises(paths, edge)):
                continue
            if rounds:
                if recorded is None:
                    recorded = paths.upstream(paths.question.goals, paths.taped)
                if edge.dst not in recorded or _has_own_gradient(paths, edge.dst, living):
                    continue  # stopped on purpose further on, or within a function with a gradient of its own
                if _is_fraction(paths, edge, living):
                    continue
            if _is_term(paths, edge, living):
                found.append(edge)
    return found + _counts(paths, living)


def _counts(paths: Paths, living: Set[int]) -> List[Edge]:
    """Edges by which a living value becomes an integer or a truth value that is counted in a term of the target.

    A mask, an index or a chosen action meets what carries the gradient in other ways than a sum.
    """
    hard = paths.graph.hard
    found = []
    for node in living:
        for edge in paths.forward.get(node, ()):
            if edge.kind != OP or edge.dst not in hard or paths.question.tape not in edge.event.tapes:
                continue
            if edge.dst not in paths.useful or stopped_beside(paths, edge, living):
                continue
            numbers = [
                e for n in _through(paths, edge.dst, hard) for e in paths.forward.get(n, ()) if e.dst not in hard
            ]
            used = [e for e in numbers if e.dst in paths.smooth]
            if used and all(_is_counted(paths, e, living) for e in used):
                found.append(edge)
    return found


def _through(paths: Paths, start: int, among: Set[int]) -> Set[int]:
    return paths.downstream([start], lambda edge: edge.dst in among)


def _is_counted(paths: Paths, number: Edge, living: Set[int]) -> bool:
    """The number is a term of the target by itself: it meets the gradient in sums alone."""
    if number.kind != OP or any(other.src in living for other in _inputs(paths, number)):
        return False
    meetings = _meetings(paths, number.dst, living)
    return bool(meetings) and all(
        edge.event.op in _JOINS | _SIGNED and _linear_to_target(paths, edge.dst) for edge in meetings
    )


def stopped_beside(paths: Paths, cut: Edge, living: Set[int]) -> bool:
    """The value is also stopped on purpose further on: its gradient is made by hand.

    That is a reward beside a log-probability (the value is stopped before it meets what carries a gradient), or a
    factor that is one and has a gradient: `x / stop_gradient(x)`.
    """
    onward = paths.downstream([cut.dst], lambda edge: edge.dst in paths.useful)
    stops = [e for node in onward for e in paths.forward.get(node, ()) if e.event.op == "StopGradient"]
    if not stops:
        return False
    alone = paths.downstream([cut.dst], lambda edge: edge.dst in paths.useful and edge.dst not in living)
    return any(stop.src in alone or _meets_itself(paths, stop) for stop in stops)


def _meets_itself(paths: Paths, stop: Edge) -> bool:
    return any(other.src == stop.src for edge in paths.forward.get(stop.dst, ()) for other in _inputs(paths, edge))


def _initialises(paths: Paths, write: Edge) -> bool:
    """The first batch gives a trained Variable its start: it is a source itself, and the value is not its own."""
    variable = paths.graph.variable.get(write.dst)
    if all(source.variable != variable for source in paths.question.sources):
        return False
    before = paths.upstream([write.src], lambda edge: True)
    return all(paths.graph.variable.get(node) != variable for node in before)


def _has_own_gradient(paths: Paths, node: int, living: Set[int]) -> bool:
    """The value is what a function with a custom gradient gives back."""
    same = paths.downstream([node], lambda edge: edge.event.op in ("Identity", "IdentityN"))
    return not same.isdisjoint(living)


def _is_fraction(paths: Paths, cut: Edge, living: Set[int]) -> bool:
    """The rounded value is only taken from what it was rounded from: the rest has the whole gradient."""
    before = paths.upstream([cut.src], lambda edge: edge.kind == OP and edge.event.op in _LINEAR)
    meetings = _meetings(paths, cut.dst, living)
    return bool(meetings) and all(
        edge.event.op in _SIGNED and any(other.src in before for other in _inputs(paths, edge)) for edge in meetings
    )


def _is_term(paths: Paths, cut: Edge, living: Set[int]) -> bool:
    """The cut value is added to what still carries the gradient, or goes through other weights by itself."""
    meetings = _meetings(paths, cut.dst, living)
    if not meetings:
        return True  # it is the target, or all of it
    unscaled = _unscaled(paths, cut) if any(edge.event.op in _FACTORS for edge in meetings) else None
    upstream: Optional[Set[int]] = None
    for edge in meetings:
        op = edge.event.op
        if unscaled is not None and edge.src not in unscaled:
            continue  # a scale of what carries the gradient, used on other values as well
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


def _unscaled(paths: Paths, cut: Edge) -> Set[int]:
    """What comes of the cut value by sums and constant factors alone."""
    return paths.downstream([cut.dst], lambda edge: edge.kind != OP or _keeps_its_size(paths, edge))


def _keeps_its_size(paths: Paths, edge: Edge) -> bool:
    divides = edge.event.op in ("RealDiv", "Div", "DivNoNan") and _inputs(paths, edge)[-1].src == edge.src
    return edge.event.op in _LINEAR and not divides


def _is_own_mean(paths: Paths, cut: Edge, edge: Edge) -> bool:
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


def _meetings(paths: Paths, start: int, living: Set[int]) -> List[Edge]:
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


def _inputs(paths: Paths, edge: Edge) -> List[Edge]:
    return [e for e in paths.backward.get(edge.dst, ()) if e.event is edge.event]


def _linear_to_target(paths: Paths, node: int) -> bool:
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


def _other_weights(paths: Paths, edge: Edge, upstream: Set[int]) -> bool:
    """The operation applies weights from which the cut value was not computed."""
    others = [other for other in _inputs(paths, edge) if other.src != edge.src]
    for other in others:
        for read in paths.backward.get(other.src, ()):
            if read.kind == READ and read.src in paths.graph.variable and read.src not in upstream:
                return True
    return False
