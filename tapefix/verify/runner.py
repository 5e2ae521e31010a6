"""Runs a target under the probe in a scratch copy: one interpreter, one warm process, any number of runs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapefix.verify.interpreter import Interpreter
from tapefix.verify.launch import (
    INSIDE,
    PROBE,
    Ended,
    ForkedRun,
    Keeper,
    NotWarm,
    PlainRun,
    command_of,
    has_gpu,
    start,
)
from tapefix.verify.options import Limits, StaticFinding, VerifyOptions
from tapefix.verify.outcome import Report
from tapefix.verify.scratch import Project, Scratch, copy
from tapefix.verify.targets import Command, Function, ModelClass, Script, Target
from tapefix.verify.trace import Trace, read_trace

#: settings that TensorFlow or Keras read when they are imported: a fork of a warm process comes too late for them
_AT_IMPORT = re.compile(rb"TF_USE_LEGACY_KERAS|KERAS_BACKEND|XLA_FLAGS|TF_ENABLE_ONEDNN_OPTS|TF_NUM_|OMP_NUM_THREADS")
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0"}
#: caches below the home folder that libraries fill when they load data or draw
_CACHES = (".keras", ".cache", "tensorflow_datasets", ".matplotlib", ".config/matplotlib", "nltk_data")


@dataclass(frozen=True)
class Observation:
    """One run: what the probe saw, how it ended, and which project files it opened (the user's absolute paths)."""

    trace: Trace
    ended: Ended
    loaded: frozenset[str]
    forked: bool


class Runner:
    """Keeps what runs share. Use it as a context manager; it leaves no process behind."""

    def __init__(self, interpreter: Interpreter, options: VerifyOptions):
        self.interpreter, self.options = interpreter, options
        self._gpu = has_gpu()
        #: reports on programs as they are on disk: whoever proves many changes of one program runs it once
        self.known: dict[tuple[str, int], Report] = {}
        self._warm: Keeper | None = None
        self._plain: Keeper | None = None
        #: why there is no warm process; "" while there may be one
        self.not_warm = "a GPU is present" if self._gpu else ""

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for keeper in (self._warm, self._plain):
            if keeper is not None:
                keeper.close()
        self._warm = self._plain = None

    def observe(
        self,
        project: Project,
        target: Target,
        mode: str,
        overlay: Mapping[Path, bytes | None] | None = None,
        findings: Sequence[StaticFinding] = (),
        wall: float | None = None,
    ) -> Observation:
        """Runs the target once in a fresh copy of the project; `mode` is the probe's, record or explain."""
        limits = self._limits(wall)
        with copy(project, overlay or {}, limits.copied) as scratch:
            cwd = self._cwd(scratch, target)
            job = self._job(scratch, target, mode, findings)
            run = self._run_facts(scratch, job)
            (scratch.base / "job.json").write_text(json.dumps(job), encoding="utf-8")
            (scratch.base / "run.json").write_text(json.dumps(run), encoding="utf-8")
            extra = self._import_path(scratch, target, cwd)
            environ = self._environ(scratch, extra)
            warm = self._warm_keeper(scratch, target)
            if warm is not None:
                path = tuple(p for p in environ["PYTHONPATH"].split(os.pathsep) if p != str(INSIDE / "site"))
                ended = warm.run(ForkedRun(scratch.base / "job.json", run, path), cwd, environ, limits)
                if not warm.alive:
                    self._warm = None
            else:
                ended = self._plain_keeper().run(self._command(scratch, target, environ), cwd, environ, limits)
            ended = dataclasses.replace(ended, output=ended.output.replace(str(scratch.project), str(scratch.root)))
            return Observation(read_trace(scratch.events), ended, _loaded(scratch), warm is not None)

    # ------------------------------------------------------------------ processes
    def _warm_keeper(self, scratch: Scratch, target: Target) -> Keeper | None:
        """The warm process, where the target can be forked from it."""
        if (
            self.not_warm
            or not self.options.warm
            or isinstance(target, Command)
            or (isinstance(target, Script) and _set_at_import(target.path))
        ):
            return None
        if self._warm is None:
            try:
                self._warm = start(self.interpreter.path, True, self._base_environ())
            except NotWarm as reason:
                self.not_warm = str(reason)
                return None
        folder = scratch.inside(target.path).parent if isinstance(target, Script) else scratch.project
        return None if _modules_in(folder) & self._warm.modules else self._warm

    def _plain_keeper(self) -> Keeper:
        if self._plain is None or not self._plain.alive:
            self._plain = start(self.interpreter.path, False, self._base_environ())
        return self._plain

    def _command(self, scratch: Scratch, target: Target, environ: dict[str, str]) -> PlainRun:
        if isinstance(target, Command):
            words = [str(scratch.inside(Path(w))) if os.path.isabs(w) else w for w in target.argv[1:]]
            return PlainRun(command_of(self.interpreter.path, (target.argv[0], *words), environ))
        environ["TAPEFIX_FIRST"] = "1"
        return PlainRun((self.interpreter.path, str(PROBE / "__main__.py"), str(scratch.base / "job.json")))

    def _limits(self, wall: float | None) -> Limits:
        given = self.options.limits
        wall = given.wall if wall is None else min(wall, given.wall)
        cpu = given.cpu if given.cpu is not None else int(wall * (os.cpu_count() or 1)) + 60
        return dataclasses.replace(given, wall=wall, cpu=cpu, memory=None if self._gpu else given.memory)

    # ------------------------------------------------------------------ what a run is told
    def _cwd(self, scratch: Scratch, target: Target) -> Path:
        """The user's folder in the copy; for a script of another project, the script's."""
        here = scratch.inside(self.options.cwd.resolve())
        if here.is_relative_to(scratch.project) and here.is_dir():
            return here
        return scratch.inside(target.path.parent) if isinstance(target, Script) else scratch.project

    def _job(self, scratch: Scratch, target: Target, mode: str, findings: Sequence[StaticFinding]) -> dict[str, Any]:
        return {
            "mode": mode,
            "target": self._told(scratch, target),
            "out": str(scratch.events / "events.jsonl"),
            "steps": self.options.steps,
            "seed": self.options.seed,
            "root": str(scratch.project),
            "paths": {str(scratch.project): str(scratch.root)},
            "findings": [dataclasses.asdict(finding) for finding in findings],
            "numeric": self.options.numeric and mode == "record",
        }

    def _told(self, scratch: Scratch, target: Target) -> dict[str, Any]:
        if isinstance(target, Script):
            return {"kind": "script", "path": str(scratch.inside(target.path)), "args": list(target.args)}
        if isinstance(target, Function):
            return {"kind": "callable", "module": target.module, "name": target.name}
        if isinstance(target, ModelClass):
            shapes, dtypes = self.options.input_shapes, self.options.input_dtypes
            return {
                "kind": "model",
                "module": target.module,
                "name": target.name,
                "input_shape": None if shapes is None else [list(shape) for shape in shapes],
                "dtype": None if dtypes is None else list(dtypes),
            }
        return {"kind": "child"}

    def _run_facts(self, scratch: Scratch, job: Mapping[str, Any]) -> dict[str, Any]:
        """What the guard and the children of the run need to know."""
        home = self.options.environ.get("HOME") or str(Path.home())
        caches = [os.path.join(home, name) for name in _CACHES]
        if self.options.environ.get("XDG_CACHE_HOME"):
            caches.append(self.options.environ["XDG_CACHE_HOME"])
        writable = [str(scratch.base), "/dev", "/proc", *caches]
        return {
            "original": str(scratch.root),
            "scratch": str(scratch.project),
            "writable": writable,
            "touched": str(scratch.base / "touched"),
            "inside": str(INSIDE),
            "probe": str(PROBE),
            "child": {**job, "target": {"kind": "child"}},
        }

    def _import_path(self, scratch: Scratch, target: Target, cwd: Path) -> list[str]:
        """Folders that a person's `python -c "import module"` or installed package would find."""
        if isinstance(target, (Function, ModelClass)):
            folders = [cwd, cwd / "src", scratch.project / "src"]
            return list(dict.fromkeys(str(folder) for folder in folders if folder.is_dir()))
        return []

    def _base_environ(self) -> dict[str, str]:
        environ = {**_QUIET, **self.options.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        folder = str(Path(self.interpreter.path).parent)
        environ["PATH"] = os.pathsep.join(filter(None, [folder, environ.get("PATH", os.defpath)]))
        for name in ("PYTHONHOME", "TAPEFIX_RUN", "TAPEFIX_FIRST"):
            environ.pop(name, None)
        return environ

    def _environ(self, scratch: Scratch, extra: Sequence[str]) -> dict[str, str]:
        environ = self._base_environ()
        theirs = [p for p in environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        moved = [str(scratch.inside(Path(p))) for p in theirs]
        environ.update(
            PYTHONPATH=os.pathsep.join([str(INSIDE / "site"), *extra, *moved]),
            TMPDIR=str(scratch.temporary),
            TAPEFIX_RUN=str(scratch.base / "run.json"),
            PWD=str(scratch.inside(self.options.cwd.resolve())),
        )
        return environ


def _loaded(scratch: Scratch) -> frozenset[str]:
    """The user's paths of the project's Python files that the run opened."""
    try:
        names = (scratch.base / "touched").read_bytes().splitlines()
    except OSError:
        return frozenset()
    return frozenset(str(scratch.root / os.fsdecode(name)) for name in names)


def _modules_in(folder: Path) -> set[str]:
    """The modules that a program in this folder would import from it; in a fork, one imported already would win."""
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return packages | {path.stem for path in folder.glob("*.py")}


def _set_at_import(path: Path) -> bool:
    """Whether the script sets something that must be set before TensorFlow is imported."""
    try:
        return bool(_AT_IMPORT.search(path.read_bytes()))
    except OSError:
        return False
