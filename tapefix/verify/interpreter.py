"""Chooses the Python that runs the user's program: one that has TensorFlow."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tapefix.errors import TapefixError

_ASK = """
import importlib.util, json, os, sys
try:
    from importlib.metadata import version
except ImportError:
    version = None
def of(*names):
    for name in names:
        try:
            return version(name)
        except Exception:
            pass
    return ""
legacy = ["tf-keras"] if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true") else []
print(json.dumps({
    "python": "%d.%d.%d" % sys.version_info[:3],
    "tensorflow": of("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly", "intel-tensorflow")
                  or ("?" if importlib.util.find_spec("tensorflow") else ""),
    "keras": of(*legacy, "keras"), "version": list(sys.version_info[:2])}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python with TensorFlow. `chosen` says in words where it came from; versions are those of its packages."""

    path: str
    chosen: str
    python: str
    tensorflow: str
    keras: str


@functools.lru_cache(maxsize=64)
def _ask(path: str) -> dict[str, str] | str:
    """What the interpreter says of itself, or why it says nothing."""
    try:
        done = subprocess.run(
            [path, "-c", _ASK], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not start ({getattr(error, 'strerror', None) or type(error).__name__})"
    try:
        said = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return f"it does not run a Python 3.8+ program ({last})"
    if said["version"] < [3, 8]:
        return f"it is Python {said['python']}; verification needs 3.8 or newer"
    return {key: str(value) for key, value in said.items()}


def _python_of(folder: str) -> str:
    """The interpreter of a virtual or conda environment."""
    names = ("Scripts/python.exe", "python.exe") if sys.platform == "win32" else ("bin/python", "bin/python3")
    for name in names:
        if (Path(folder) / name).exists():
            return str(Path(folder) / name)
    return str(Path(folder) / names[0])


def candidates(configured: str, folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(path, where it came from) in the order of preference."""
    if configured:
        yield _expanded(configured, folder), "the configuration"
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            yield _python_of(environ[name]), name
    for base in (folder, *folder.parents):
        if (base / ".venv").is_dir():
            yield _python_of(str(base / ".venv")), str(base / ".venv")
            break
        if (base / ".git").exists():
            break
    yield sys.executable, "tapefix's own"


def _expanded(path: str, folder: Path) -> str:
    """A path as a person writes it (`~`, relative, an environment's folder, a bare name on PATH)."""
    text = os.path.expanduser(path)
    if os.sep not in text and not (folder / text).exists():
        return text
    full = folder / text
    return _python_of(str(full)) if full.is_dir() else os.path.abspath(full)


def choose(python: str, configured: str, folder: Path, environ: Mapping[str, str]) -> Interpreter:
    """The interpreter that `--python` names, else the first candidate that has TensorFlow.

    Raises TapefixError, with the remedy, where there is none.
    """
    if python:
        path = _expanded(python, folder)
        said = _ask(path)
        if isinstance(said, str):
            raise TapefixError(f"--python {python}: {said}")
        if not said["tensorflow"]:
            raise TapefixError(
                f"no TensorFlow in the interpreter {path} (--python); "
                f"install it there (`{path} -m pip install tensorflow`) or name another one"
            )
        return _interpreter(path, "--python", said)
    tried = []
    for path, where in candidates(configured, folder, environ):
        said = _ask(path)
        if isinstance(said, str):
            tried.append(f"{path} ({where}): {said}")
        elif said["tensorflow"]:
            return _interpreter(path, where, said)
        else:
            tried.append(f"{path} ({where}): no TensorFlow")
    raise TapefixError(
        "no TensorFlow in the interpreter; tried " + "; ".join(tried) + ". Name the one your program runs with: "
        "--python PATH, or `python` in [tool.tapefix.verify]"
    )


def _interpreter(path: str, chosen: str, said: dict[str, str]) -> Interpreter:
    return Interpreter(path, chosen, said["python"], said["tensorflow"], said["keras"])
