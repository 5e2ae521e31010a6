"""What the probe saw in one run: its events, read and typed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class SeenVariable:
    """A source of one gradient call. `status` is ok, none, zero or nonfinite; `norm` the gradient's Euclidean norm."""

    name: str
    owner: str
    shape: tuple[int | None, ...] | None
    dtype: str
    status: str
    norm: float | None


@dataclass(frozen=True)
class SeenCall:
    """One gradient call. `loss` is the sum of its target, None where it was not a number."""

    file: str
    line: int
    kind: str
    loss: float | None
    variables: tuple[SeenVariable, ...]
    graph: bool = False

    @property
    def place(self) -> tuple[str, int]:
        return self.file, self.line


@dataclass(frozen=True)
class SeenCause:
    """Where the gradient was cut, and of which variables of which gradient call."""

    code: str
    file: str
    line: int
    column: int
    message: str
    how: str = ""
    variables: tuple[str, ...] = ()
    gradient: tuple[str, int] | None = None
    partial: bool = False
    related: tuple[tuple[str, int, str], ...] = ()
    sure: bool = True


@dataclass(frozen=True)
class SeenError:
    """What the program raised, at which line of the user's (None: in none of them)."""

    type: str
    message: str
    file: str | None
    line: int | None


@dataclass
class Trace:
    """All events of a run, in order. `finished` is the reason of the last `end` event, "" where there is none.

    `whole` counts the processes of which the probe saw that no value a tape followed left its sight.
    """

    python: str = ""
    tensorflow: str = ""
    keras: str = ""
    processes: int = 0
    calls: list[SeenCall] = field(default_factory=list)
    #: calls by the number that the probe gave them
    numbered: dict[str, SeenCall] = field(default_factory=dict)
    causes: list[SeenCause] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numeric: list[Mapping[str, Any]] = field(default_factory=list)
    error: SeenError | None = None
    finished: str = ""
    whole: int = 0


def read_trace(folder: Path) -> Trace:
    """The events that the processes of a run left in its folder. A line cut short by the run's end is dropped."""
    trace = Trace()
    for path in sorted(folder.glob("*.jsonl")):
        for event in _events(path):
            _take(trace, event)
    return trace


def _events(path: Path) -> Iterable[Mapping[str, Any]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _take(trace: Trace, event: Mapping[str, Any]) -> None:
    kind = event.get("event")
    try:
        if kind == "gradient":
            call = _call(event)
            trace.calls.append(call)
            trace.numbered[str(event.get("number"))] = call
        elif kind == "again":  # the same sources came to the same
            loss = event.get("loss")
            earlier = trace.numbered[str(event["of"])]
            trace.calls.append(dataclasses.replace(earlier, loss=None if loss is None else float(loss)))
        elif kind == "cause":
            trace.causes.append(_cause(event))
        elif kind == "error" and trace.error is None:
            trace.error = SeenError(
                str(event["type"]), str(event.get("message") or ""), event.get("file"), event.get("line")
            )
        elif kind == "note":
            where = f"{event['file']}:{event['line']}: " if event.get("file") and event.get("line") else ""
            trace.notes.append(where + str(event["message"]))
        elif kind == "numeric":
            trace.numeric.append(event)
        elif kind == "start":
            trace.processes += 1
            for key in ("python", "tensorflow", "keras"):
                if event.get(key):
                    setattr(trace, key, str(event[key]))
        elif kind == "end":
            trace.finished = str(event.get("reason") or "finished")
            trace.whole += bool(event.get("whole"))
    except (KeyError, TypeError, ValueError):  # written over by the program under test; what is well-formed counts
        trace.notes.append("an event of the probe could not be read")


def _call(event: Mapping[str, Any]) -> SeenCall:
    variables = tuple(
        SeenVariable(
            str(v["name"]),
            str(v.get("owner") or ""),
            None if v.get("shape") is None else tuple(v["shape"]),
            str(v.get("dtype") or ""),
            str(v["status"]),
            None if v.get("norm") is None else float(v["norm"]),
        )
        for v in event["variables"]
    )
    loss = event.get("loss")
    return SeenCall(
        str(event["file"]),
        int(event["line"]),
        str(event.get("kind") or "gradient"),
        None if loss is None else float(loss),
        variables,
        bool(event.get("graph")),
    )


def _cause(event: Mapping[str, Any]) -> SeenCause:
    at = event.get("gradient") or None
    return SeenCause(
        code=str(event.get("code") or ""),
        file=str(event["file"]),
        line=int(event["line"]),
        column=int(event.get("column") or 1),
        message=str(event.get("message") or ""),
        how=str(event.get("how") or ""),
        variables=tuple(map(str, event.get("variables") or ())),
        gradient=(str(at["file"]), int(at["line"])) if at and at.get("line") else None,
        partial=bool(event.get("partial")),
        related=tuple(
            (str(r["file"]), int(r["line"]), str(r.get("message") or "")) for r in event.get("related") or ()
        ),
        sure=bool(event.get("sure", True)),
    )
