"""How a target is run and judged: what the command line and `[tool.tapefix.verify]` can say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

STEPS = 3
TIMEOUT = 300.0
GIB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What one run may use. Sizes in bytes, times in seconds; None is no limit.

    `memory` holds for the address space of each process and for the resident memory of all of a run's processes
    together. CPU TensorFlow needs 2 GiB of address space; with CUDA it reserves far more than it uses, so there
    `memory` is not set.
    """

    wall: float = TIMEOUT
    cpu: int | None = None
    memory: int | None = 8 * GIB
    file_size: int | None = 2 * GIB
    output: int = 256 << 20
    copied: int = 1 * GIB


@dataclass(frozen=True)
class StaticFinding:
    """What `check` says about a line: the trace confirms it or does not.

    `how` is a tapefix.flow.facts.How value; `repair` is "safe" or "unsafe" where a fix is offered, else "".
    """

    code: str
    file: str
    line: int
    end_line: int
    how: str = ""
    message: str = ""
    repair: str = ""


class Finder(Protocol):
    """Gives the static findings of some files; the command line passes the engine's.

    `changed` are files as they would be after a repair (None: removed), instead of what is on disk.
    """

    def __call__(
        self, files: Sequence[Path], changed: Mapping[Path, bytes | None] = MappingProxyType({})
    ) -> Iterable[StaticFinding]: ...


def no_findings(
    files: Sequence[Path], changed: Mapping[Path, bytes | None] = MappingProxyType({})
) -> Iterable[StaticFinding]:
    """The finder of those who have none."""
    return ()


@dataclass(frozen=True)
class VerifyOptions:
    """For `tapefix.verify.verify` and `tapefix.verify.prove`.

    The command line's part of it: `--python` is `python`, `[tool.tapefix.verify] python` is `configured_python`;
    `--steps`, `--timeout` (into `limits.wall`), `--against`, `--numeric`, `--input-shape` (repeatable, one tuple an
    input), `--input-dtype`; `args` are the arguments after the script. `cwd` is the folder the user stands in,
    `environ` the user's environment. `find` gives the static findings of the target's files.
    `forward_may_change` is for unsafe fixes that change values on purpose; `warm` forks from a process that has
    imported TensorFlow where that is possible; `explain` "never" skips the explaining run;
    `explain_against` explains the version that `against` names, too.
    """

    python: str = ""
    configured_python: str = ""
    steps: int = STEPS
    seed: int = 0
    limits: Limits = Limits()
    against: str = ""
    numeric: bool = False
    input_shapes: tuple[tuple[int | None, ...], ...] | None = None
    input_dtypes: tuple[str, ...] | None = None
    args: tuple[str, ...] = ()
    forward_may_change: bool = False
    warm: bool = True
    explain: str = "auto"
    explain_against: bool = False
    find: Finder = no_findings
    cwd: Path = field(default_factory=Path.cwd)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
