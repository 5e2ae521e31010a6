"""Nodes for what a file's names stand for, edges for what gets from one to another, and what then carries a gradient.

The order of a program is left aside: a name that carries a gradient somewhere carries it everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

CARRIES = 1  # a tensor with a gradient
HOLDS = 2  # an object with weights: a layer, a model, an optimizer
KEEPS = 4  # a container of tensors with a gradient
CHOICE = 8  # a truth value told from a tensor with a gradient, or by chance
CUTTING = 16  # a function that loses gradients, or an array that loses those of what is put into it
LOSABLE = CARRIES | KEEPS | CHOICE

Nodes = tuple[int, ...]
NOTHING: Nodes = ()
TENSOR: Nodes = (1,)
OBJECT: Nodes = (2,)
ANYTHING: Nodes = (3,)
CUTTER: Nodes = (4,)
CHANCE: Nodes = (5,)
NOBODY: Nodes = (0,)
_FIRST = (0, CARRIES, HOLDS, CARRIES | HOLDS | KEEPS, CUTTING, CHOICE)

#: what a node's neighbour gets, by the edge between them, for every combination of bits
_Gives = tuple[int, ...]


def _table(*rows: tuple[int, int]) -> _Gives:
    """(bits, what having any of them gives), for each combination of bits."""
    return tuple(_together(rows, have) for have in range(32))


def _together(rows: Sequence[tuple[int, int]], have: int) -> int:
    given = 0
    for bits, gives in rows:
        if have & bits:
            given |= gives
    return given


_SAME = tuple(range(32))
_CALLED = _table((CARRIES | HOLDS | KEEPS, CARRIES | KEEPS))
_ELEMENT = tuple(have | gives for have, gives in enumerate(_table((KEEPS, CARRIES | HOLDS))))
_PART = _table((CARRIES, CARRIES), (HOLDS, HOLDS), (KEEPS, CARRIES), (CUTTING, CUTTING))
_KEPT = _table((CARRIES | KEEPS, KEEPS), (HOLDS, HOLDS), (CUTTING, CUTTING))
_COMPARED = _table((CARRIES | CHOICE, CHOICE))
_CHOSEN = _table((CHOICE, CHOICE))


@dataclass(frozen=True)
class Place:
    """Where a gradient may be lost: the function (row of the outermost one), the values, and what saves it.

    `by` is a function or array that may be one that loses gradients: its name does not tell.
    """

    row: int
    of: Nodes
    unless: Nodes = NOTHING
    bits: int = LOSABLE
    by: Nodes = NOTHING


@dataclass
class Graph:
    bits: list[int] = field(default_factory=lambda: list(_FIRST))
    edges: list[list[tuple[_Gives, int]]] = field(default_factory=lambda: [[] for _ in _FIRST])
    places: list[Place] = field(default_factory=list)
    aliases: list[tuple[int, int]] = field(default_factory=list)  # two names for one object, perhaps
    written: set[int] = field(default_factory=set)  # something is put into it under this name

    def new(self, bits: int = 0) -> int:
        self.bits.append(bits)
        self.edges.append([])
        return len(self.bits) - 1

    # ---- edges

    def flow(self, sources: Nodes, target: int) -> None:
        for source in sources:
            self.edges[source].append((_SAME, target))

    def put(self, sources: Nodes, target: int) -> None:
        """The values are put into a container or an object."""
        for source in sources:
            self.edges[source].append((_KEPT, target))
        self.written.add(target)

    def ask(self, sources: Nodes) -> Nodes:
        """What comes of calling something, or of giving values to what is not known."""
        return self._through(_CALLED, sources)

    def element(self, sources: Nodes) -> Nodes:
        """What is in a container, or a part of a tensor."""
        return self._through(_ELEMENT, sources)

    def part(self, sources: Nodes) -> Nodes:
        """An attribute of an object."""
        return self._through(_PART, sources)

    def contain(self, sources: Nodes) -> Nodes:
        """A container of the values."""
        return self._through(_KEPT, sources)

    def compare(self, sources: Nodes) -> Nodes:
        return self._through(_COMPARED, sources)

    def choices(self, sources: Nodes) -> Nodes:
        """The values as far as they are truth values."""
        return self._through(_CHOSEN, sources)

    def _through(self, gives: _Gives, sources: Nodes) -> Nodes:
        if not sources:
            return NOTHING
        target = self.new()
        for source in sources:
            self.edges[source].append((gives, target))
        return (target,)

    # ---- the answer

    def share(self) -> None:
        """What is put into an object under one name is in it under its other names."""
        changed = True
        while changed:
            changed = False
            for number, other in self.aliases:
                if other in self.written and number not in self.written:
                    self.written.add(number)
                    changed = True
        for number, other in self.aliases:
            if other in self.written:
                self.edges[other].append((_SAME, number))

    def spread(self) -> None:
        bits, edges = self.bits, self.edges
        todo = [number for number, have in enumerate(bits) if have]
        while todo:
            number = todo.pop()
            have = bits[number]
            for gives, target in edges[number]:
                given = gives[have]
                if given & ~bits[target]:
                    bits[target] |= given
                    todo.append(target)

    def losing(self) -> set[int]:
        """The rows of the functions in which something that carries a gradient may lose it."""
        found: set[int] = set()
        for place in self.places:
            if place.row not in found and self._loses(place):
                found.add(place.row)
        return found

    def _loses(self, place: Place) -> bool:
        bits = self.bits
        return (
            any(bits[number] & place.bits for number in place.of)
            and not any(bits[number] & CARRIES for number in place.unless)
            and (not place.by or any(bits[number] & CUTTING for number in place.by))
        )
