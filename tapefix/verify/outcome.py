"""The report of a verification: the same facts for text, JSON and `apply --verify`."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


class Verdict(str, enum.Enum):
    """What a run comes to; the first in this order that holds."""

    TIMEOUT = "timeout"
    NONE = "none"
    PARTIAL = "partial"
    NONFINITE = "nonfinite"
    ZERO = "zero"
    ERROR = "error"
    NO_GRADIENT_CALL = "no-gradient-call"
    OK = "ok"


@dataclass(frozen=True)
class Cause:
    """A line of the user's at which gradients are cut. Rows and columns count from 1.

    `sure` is False where the trace lost sight; `related` are second places (file, line, message). `repair` is how a
    codemod repairs it: "safe", "unsafe", or "" where none does.
    """

    code: str
    file: str
    line: int
    column: int
    message: str
    related: tuple[tuple[str, int, str], ...] = ()
    sure: bool = True
    repair: str = ""


@dataclass(frozen=True)
class Variable:
    """A source of a gradient call, over all its calls: `status` is ok, none, zero, nonfinite or partial.

    `norm` is the Euclidean norm of its first gradient; `note` says what is odd but no fault.
    """

    name: str
    owner: str
    shape: tuple[int | None, ...] | None
    dtype: str
    status: str
    norm: float | None
    cause: Cause | None = None
    note: str = ""

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong with the gradient. One that is all zero for no known reason may be right."""
        return self.status == "ok" or (self.status == "zero" and self.cause is None)

    @property
    def there(self) -> bool:
        """Whether there is a gradient that training can use, be it one that lacks a path (partial)."""
        return self.whole or self.status == "partial"


@dataclass(frozen=True)
class Gradient:
    """A line that asks for gradients; `loss` is the first one there, `losses` all that were recorded."""

    file: str
    line: int
    kind: str
    times: int
    loss: float | None
    variables: tuple[Variable, ...]
    losses: tuple[float | None, ...] = ()
    graph: bool = False


@dataclass(frozen=True)
class Problem:
    """What ended the program: an exception, a signal, a limit."""

    type: str
    message: str
    file: str | None
    line: int | None


@dataclass(frozen=True)
class Forward:
    """Losses of two versions compared. `tolerance` is the relative one; `places` are those that differ."""

    equal: bool
    max_abs_diff: float
    compared: int
    tolerance: float
    places: tuple[tuple[str, int, float, float], ...] = ()


@dataclass(frozen=True)
class Numeric:
    """A directional derivative by differences beside the one by the tape, at one place."""

    file: str
    line: int
    tape: float
    differences: float
    agrees: bool
    note: str = ""


@dataclass(frozen=True)
class Report:
    """What `tapefix verify` has to say about a target."""

    target: str
    python: str
    chosen: str
    tensorflow: str
    keras: str
    isolation: str
    verdict: Verdict
    error: Problem | None
    gradients: tuple[Gradient, ...]
    causes: tuple[Cause, ...]
    forward: Forward | None = None
    numeric: tuple[Numeric, ...] = ()
    notes: tuple[str, ...] = ()
    output: str = field(default="", repr=False)
    seconds: float = 0.0
    #: the project's files that the run opened, as the user's absolute paths
    loaded: frozenset[str] = field(default=frozenset(), repr=False)
    #: the report on the version that this one was compared with
    against: Report | None = field(default=None, repr=False)

    @property
    def exit_status(self) -> int:
        """0 fine; 1 a gradient is missing or wrong; 2 nothing could be judged."""
        if self.verdict is Verdict.OK:
            return 0
        if self.verdict in (Verdict.TIMEOUT, Verdict.NO_GRADIENT_CALL):
            return 2
        if self.verdict is Verdict.ERROR:
            return 1 if self.causes else 2
        return 1

    def variables(self) -> Iterator[Variable]:
        for gradient in self.gradients:
            yield from gradient.variables

    def owners(self) -> Mapping[str, tuple[int, int]]:
        """Owner -> (sources whose gradient is there wherever it is asked for, all), in the order of the run."""
        there: dict[tuple[str, str, int], bool] = {}
        for gradient in self.gradients:
            count: dict[tuple[str, str], int] = {}
            for variable in gradient.variables:
                name = variable.owner or variable.name, variable.name
                count[name] = count.get(name, -1) + 1
                key = (*name, count[name])
                there[key] = there.get(key, True) and variable.there
        counts: dict[str, tuple[int, int]] = {}
        for (owner, _, _), good in there.items():
            sofar, of = counts.get(owner, (0, 0))
            counts[owner] = sofar + good, of + 1
        return counts

    def partial(self) -> Mapping[str, int]:
        """Owner -> how many of its sources have a gradient that lacks a path."""
        found = {(v.owner or v.name, v.name) for v in self.variables() if v.status == "partial"}
        counts: dict[str, int] = {}
        for owner, _ in found:
            counts[owner] = counts.get(owner, 0) + 1
        return counts

    @property
    def loss(self) -> float | None:
        """The first loss that was a number."""
        return next((g.loss for g in self.gradients if g.loss is not None), None)


@dataclass(frozen=True)
class Proven:
    """The repaired program ran: the gradients are there, and the values are what they were (or `note` says why not)."""

    before: Report
    after: Report
    note: str = ""


@dataclass(frozen=True)
class NotProven:
    """The repaired program ran, and this is what is wrong with it."""

    reason: str
    before: Report | None = None
    after: Report | None = None


@dataclass(frozen=True)
class NotRun:
    """Nothing could be shown, for this reason."""

    reason: str


Evidence = Proven | NotProven | NotRun


@dataclass(frozen=True)
class Proof:
    """`prove`'s answer: for each changed file (absolute path) and each target, what was shown."""

    files: Mapping[str, Evidence]
    targets: Mapping[str, Evidence]

    @property
    def ok(self) -> bool:
        return bool(self.files) and all(isinstance(e, Proven) for e in self.files.values())
