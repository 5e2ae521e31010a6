"""Remembers what a file's check said, for as long as nothing it rests on has changed.

One JSON file a checked file. An entry names every file the model read (or missed) with its digest, and holds only
for the version of the tool and its rules, and the settings, that made it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tapefix.codemod import Applicability, Finding, Fix, Refusal, Related
from tapefix.config import Config
from tapefix.documents.document import Edit, Place
from tapefix.documents.suppressions import Suppression
from tapefix.documents.workspace import read_file
from tapefix.engine import Checked, Failed, Result, Skipped

FOLDER = ".tapefix_cache"


class Cache:
    """The cache in one folder. It never fails: what cannot be read or written is made anew."""

    def __init__(self, folder: Path, config: Config, packages: Iterable[str]):
        self._folder = folder / FOLDER
        self._version = _digest(config.fingerprint(), sys.version, *_sources(packages))
        self._digests: dict[str, str | None] = {}

    def get(self, filename: str) -> Result | None:
        try:
            entry = json.loads(self._entry(filename).read_text(encoding="utf-8"))
            if all(self._digest_of(name) == digest for name, digest in entry["consulted"].items()):
                return _result(entry["result"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def put(self, filename: str, result: Result, consulted: Mapping[str, str | None]) -> None:
        if isinstance(result, Checked) and result.crashes:
            return
        entry = {"consulted": dict(consulted), "result": _plain(result)}
        target = self._entry(filename)
        try:
            if not self._folder.exists():
                self._folder.mkdir(parents=True)
                (self._folder / ".gitignore").write_text("*\n", encoding="utf-8")
            temporary = target.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(entry), encoding="utf-8")
            os.replace(temporary, target)
        except (OSError, ValueError):
            pass

    def _entry(self, filename: str) -> Path:
        return self._folder / f"{_digest(self._version, filename)[:40]}.json"

    def _digest_of(self, filename: str) -> str | None:
        if filename not in self._digests:
            data = read_file(filename)
            self._digests[filename] = None if data is None else hashlib.sha256(data).hexdigest()
        return self._digests[filename]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _sources(packages: Iterable[str]) -> list[str]:
    """Name, size and time of every module of the packages: what the tool and its rules are made of."""
    stamps = []
    for package in sorted(set(packages)):
        origin = getattr(sys.modules.get(package), "__file__", None)
        folder = Path(origin).parent if origin else Path()
        for path in sorted(folder.rglob("*.py")) if origin else ():
            status = path.stat()
            stamps.append(f"{path}:{status.st_size}:{status.st_mtime_ns}")
    return stamps


def _plain(result: Result) -> dict[str, Any]:
    """The result as JSON can hold it; a fix is told from a refusal by its edits."""
    return {"kind": type(result).__name__, **dataclasses.asdict(result)}


def _result(plain: dict[str, Any]) -> Result:
    kind = plain.pop("kind")
    if kind == "Skipped":
        return Skipped(**plain)
    if kind == "Failed":
        return Failed(**plain)
    return Checked(
        plain["filename"],
        tuple(_finding(finding) for finding in plain["findings"]),
        tuple(Suppression(**{**comment, "codes": tuple(comment["codes"])}) for comment in plain["unused"]),
        used_elsewhere=tuple((name, row) for name, row in plain["used_elsewhere"]),
    )


def _finding(plain: dict[str, Any]) -> Finding:
    outcome = plain["outcome"]
    return Finding(
        **{name: plain[name] for name in ("code", "name", "message", "why")},
        place=Place(**plain["place"]),
        outcome=_fix(outcome) if "edits" in outcome else Refusal(**outcome),
        related=tuple(Related(Place(**other["place"]), other["message"]) for other in plain["related"]),
    )


def _fix(plain: dict[str, Any]) -> Fix:
    return Fix(
        applicability=Applicability(plain["applicability"]),
        message=plain["message"],
        edits=tuple(Edit(**edit) for edit in plain["edits"]),
        alternatives=tuple(plain["alternatives"]),
        group=plain["group"],
    )
