"""What happened in a run, as plain data: events at lines of the user's, and edges between values.

A node is a number: a tensor, one state of a Variable, a value that has left TensorFlow, or a Python object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Container, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from .frames import Frame

# kinds of edges
OP = "op"  # tensor -> tensor, through an operation
READ = "read"  # state of a Variable -> tensor
WRITE = "write"  # tensor -> new state of a Variable
STATE = "state"  # state of a Variable -> its next state, where a write leaves part of it
EXPORT = "export"  # tensor -> value outside TensorFlow
PYTHON = "python"  # value -> value, through NumPy or Python
ENTER = "enter"  # value -> tensor


class Event(NamedTuple):
    """One thing that happened: what, on whose line, under which tapes, and through which call as the user wrote it."""

    when: int
    op: str
    stack: Tuple[Frame, ...] = ()
    tapes: Tuple[int, ...] = ()
    via: str = ""

    @property
    def place(self) -> Optional[Tuple[str, int]]:
        """File and line of the innermost frame of the user's."""
        return (self.stack[0].filename, self.stack[0].line) if self.stack else None


class Edge(NamedTuple):
    """A value went from `src` into `dst`. `carries`: the operation has a gradient for this input."""

    src: int
    dst: int
    kind: str
    event: Event
    carries: bool = False


class Test(NamedTuple):
    """A value decided something: an `if`, a `while`, an index."""

    event: Event
    nodes: Tuple[int, ...]
    weak: bool = False  # perhaps no decision: a number that was only taken out, a branch on something unknown
    mentions: FrozenSet[str] = frozenset()  # what the branches of an `if` speak of


@dataclass
class Graph:
    """All edges so far. `hard` nodes are integers, booleans or text: no gradient passes through them."""

    edges: List[Edge] = field(default_factory=list)
    hard: Set[int] = field(default_factory=set)
    variable: Dict[int, int] = field(default_factory=dict)  # state of a Variable -> the Variable
    born: Dict[int, Event] = field(default_factory=dict)  # where a tensor was made
    tests: List[Test] = field(default_factory=list)
    made: List[Event] = field(default_factory=list)  # layers, models and Variables made under a tape
    made_at: Dict[int, Event] = field(default_factory=dict)  # Variable -> where it got its first value


class Source(NamedTuple):
    """One source of a gradient call: a Variable, or a tensor's node."""

    name: str
    variable: Optional[int] = None
    node: Optional[int] = None
    trainable: bool = True
    watched: bool = True
    watched_at: int = -1  # index of the event at which a tensor was watched
    integer: bool = False
    words: FrozenSet[str] = frozenset()  # the parts of its name: `self.extra_head` is known as `extra_head`
    status: str = "none"  # none, ok, zero, nonfinite


class Question(NamedTuple):
    """A gradient call that is to be explained."""

    tape: int
    opened: Event  # the `with` of the tape
    asked: Event  # the gradient call
    goals: Tuple[int, ...]
    sources: Tuple[Source, ...]
    suspected: Container[Tuple[str, int]] = frozenset()  # lines at which `check` has found a cut


class Reason(NamedTuple):
    """Why sources have no gradient, or only part of it."""

    kind: str  # an edge's kind, or one of: untrainable integer unwatched late outside stored after decides undecided
    # unread unused dead-end zero
    op: str
    place: Tuple[str, int]
    sources: Tuple[int, ...]
    partial: bool = False
    via: str = ""
    back: Optional[Tuple[str, int]] = None  # where the value comes back into TensorFlow, or what it decided
    sure: bool = True
