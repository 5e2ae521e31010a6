"""`[tool.tapefix]` in pyproject.toml, or tapefix.toml: read, checked, and merged with the command line."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapefix.errors import TapefixError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

THRESHOLDS = ("straight-through", "soft")


@dataclass(frozen=True)
class VerifyConfig:
    """How fixes are proven: see `tapefix verify --help`."""

    python: str = ""
    command: tuple[str, ...] = ()
    steps: int | None = None
    timeout: float | None = None
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class GatesConfig:
    """How a hard gate is made differentiable: same forward value, or a soft one."""

    threshold: str = "straight-through"


@dataclass(frozen=True)
class Config:
    """One project's settings. An empty `select` means every rule; `root` is the folder of the file they came from."""

    root: Path = field(default_factory=Path.cwd)
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    unsafe_fixes: bool = False
    verify: VerifyConfig = VerifyConfig()
    gates: GatesConfig = GatesConfig()

    def fingerprint(self) -> str:
        """Text that differs when a setting that changes findings differs."""
        return repr(dataclasses.replace(self, root=Path(), verify=VerifyConfig()))


def load_config(start: Path) -> Config:
    """The settings that hold in `start`: those of the nearest folder above it that has some, else the defaults.

    Raises TapefixError, naming file and key, for what it does not know.
    """
    for folder in (start, *start.parents):
        own = folder / "tapefix.toml"
        if own.is_file():
            return _config(_parse(own), own, "")
        project = folder / "pyproject.toml"
        if project.is_file():
            tools = _parse(project).get("tool", {})
            if "tapefix" in tools:
                return _config(tools["tapefix"], project, "tool.tapefix")
    return Config(root=start)


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TapefixError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError
        raise TapefixError(f"{path}: is not valid TOML: {error}") from error


def _config(table: object, path: Path, prefix: str) -> Config:
    fields = _Table(table, path, prefix)
    config = Config(
        root=path.parent,
        select=fields.strings("select"),
        extend_select=fields.strings("extend-select"),
        ignore=fields.strings("ignore"),
        exclude=fields.strings("exclude"),
        per_file_ignores=fields.strings_by_pattern("per-file-ignores"),
        unsafe_fixes=fields.boolean("unsafe-fixes"),
        verify=_verify(fields.table("verify")),
        gates=_gates(fields.table("gates")),
    )
    fields.finish()
    return config


def _verify(fields: _Table) -> VerifyConfig:
    steps, timeout = fields.number("steps"), fields.number("timeout")
    if steps is not None and (steps < 1 or steps != int(steps)):
        raise fields.error("steps", "must be a whole number from 1")
    if timeout is not None and timeout <= 0:
        raise fields.error("timeout", "must be a number of seconds above 0")
    config = VerifyConfig(
        python=fields.string("python"),
        command=fields.words("command"),
        steps=None if steps is None else int(steps),
        timeout=timeout,
        targets=fields.strings("targets"),
    )
    fields.finish()
    return config


def _gates(fields: _Table) -> GatesConfig:
    threshold = fields.string("threshold") or THRESHOLDS[0]
    if threshold not in THRESHOLDS:
        raise fields.error("threshold", f"must be one of {', '.join(map(repr, THRESHOLDS))}")
    fields.finish()
    return GatesConfig(threshold)


class _Table:
    """One TOML table; every key that is asked for is known, the rest are errors."""

    def __init__(self, table: object, path: Path, prefix: str):
        self._path, self._prefix, self._known = path, prefix, set[str]()
        if not isinstance(table, Mapping):
            raise TapefixError(f"{path}: {prefix} must be a table")
        self._table = table

    def error(self, key: str, problem: str) -> TapefixError:
        return TapefixError(f"{self._path}: {self._name(key)} {problem}")

    def _name(self, key: str) -> str:
        return f"{self._prefix}.{key}" if self._prefix else key

    def _get(self, key: str) -> Any:
        self._known.add(key)
        return self._table.get(key)

    def string(self, key: str) -> str:
        value = self._get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, "must be a string")
        return value or ""

    def boolean(self, key: str) -> bool:
        value = self._get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return bool(value)

    def number(self, key: str) -> float | None:
        value = self._get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, "must be a number")
        return float(value)

    def strings(self, key: str) -> tuple[str, ...]:
        return self._strings(key, self._get(key))

    def words(self, key: str) -> tuple[str, ...]:
        """A command: a list of words, or one string that is split as a shell does."""
        value = self._get(key)
        if isinstance(value, str):
            import shlex

            return tuple(shlex.split(value))
        return self._strings(key, value)

    def _strings(self, key: str, value: object) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, "must be a list of strings")
        return tuple(value)

    def strings_by_pattern(self, key: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        value = self._get(key)
        if value is None:
            return ()
        if not isinstance(value, Mapping):
            raise self.error(key, 'must be a table of file patterns, such as {"legacy/*" = ["TAP101"]}')
        return tuple((pattern, self._strings(f"{key}.{pattern}", codes)) for pattern, codes in value.items())

    def table(self, key: str) -> _Table:
        value = self._get(key)
        return _Table({} if value is None else value, self._path, self._name(key))

    def finish(self) -> None:
        """Raises for the first key nobody asked for."""
        for key in self._table:
            if key not in self._known:
                raise self.error(key, f"is not a known key{nearest(str(key), self._known)}")
