"""The edges of a run, indexed both ways, as one gradient call sees them."""

from __future__ import annotations

from collections import defaultdict
from typing import Callable, DefaultDict, Dict, Iterable, List, Set

from .graph import OP, READ, STATE, WRITE, Edge, Graph, Question, Source


class Paths:
    """The graph as one gradient call sees it: what leads on, what leads back, what the tape recorded."""

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
        """What follows from these nodes."""
        return closure(starts, self.forward, follow, lambda edge: edge.dst)

    def upstream(self, starts: Iterable[int], follow: Callable[[Edge], bool]) -> Set[int]:
        """What leads to these nodes."""
        return closure(starts, self.backward, follow, lambda edge: edge.src)

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


def closure(
    starts: Iterable[int], table: Dict[int, List[Edge]], follow: Callable[[Edge], bool], end: Callable[[Edge], int]
) -> Set[int]:
    """The nodes that are reached from `starts`, these among them, by the edges that `follow` lets pass."""
    got = set(starts)
    todo = list(got)
    while todo:
        for edge in table.get(todo.pop(), ()):
            node = end(edge)
            if node not in got and follow(edge):
                got.add(node)
                todo.append(node)
    return got
