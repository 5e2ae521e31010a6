"""Keeps a run inside its scratch copy, as far as Python code goes, and notes which project files it opens.

This is care, no wall: it stops a program that means no harm from writing over its user's files
(a checkpoint with an absolute path, a data set opened for update). Compiled code is not seen.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: audit event -> which of its arguments are paths that it changes (https://docs.python.org/3/library/audit_events.html)
_CHANGES = {
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.mkdir": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.truncate": (0,),
    "os.utime": (0,),
    "os.link": (1,),
    "os.symlink": (1,),
}


def install(run: Dict[str, Any]) -> None:
    """Guards this process and its forks.

    `run` holds "scratch" (the copy of the project), "original" (the user's folder), "writable" (folders in
    which writing is fine) and "touched" (the file that collects the names of the project files opened).
    """
    remap(run["original"], run["scratch"])
    writable = tuple(_folder(path) for path in run["writable"])
    scratch = _folder(run["scratch"])
    touched = os.open(run["touched"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    seen = set()

    def changes(path: Any) -> None:
        if isinstance(path, int):
            return
        real = os.path.realpath(os.fsdecode(path))
        if not real.startswith(writable) and real + os.sep not in writable and real != os.devnull:
            raise PermissionError(13, "verification runs in a copy of the project; writing outside it is refused", real)

    def watch(event: str, args: Any) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(path, int) or path is None:
                return
            if flags and flags & _WRITES:
                changes(path)
            elif path not in seen and str(path).endswith(".py"):
                seen.add(path)
                real = os.path.realpath(os.fsdecode(path))
                if real.startswith(scratch):
                    os.write(touched, os.fsencode(os.path.relpath(real, scratch)) + b"\n")
        elif event in _CHANGES:
            for index in _CHANGES[event]:
                changes(args[index])

    sys.addaudithook(watch)


def remap(original: str, scratch: str) -> None:
    """Makes what is installed from the user's folder (editable installs, path files) come from the copy."""
    moved = [_moved(path, original, scratch) for path in sys.path]
    if moved != sys.path:
        sys.path[:] = moved
        sys.path_importer_cache.clear()
    for name, module in list(sys.modules.items()):
        if not name.startswith("__editable__"):
            continue
        mapping = getattr(module, "MAPPING", None)
        if isinstance(mapping, dict):
            mapping.update({key: _moved(path, original, scratch) for key, path in mapping.items()})
        spaces = getattr(module, "NAMESPACES", None)
        if isinstance(spaces, dict):
            spaces.update({key: _all_moved(paths, original, scratch) for key, paths in spaces.items()})


def _all_moved(paths: List[str], original: str, scratch: str) -> List[str]:
    return [_moved(path, original, scratch) for path in paths]


def _moved(path: str, original: str, scratch: str) -> str:
    """`path` in the copy, if it lies in the original and the copy has it (a virtual environment is not copied)."""
    real = os.path.realpath(path) if path else path
    if real == original or real.startswith(_folder(original)):
        there = scratch + real[len(original) :]
        if os.path.exists(there):
            return there
    return path


def _folder(path: str) -> str:
    return os.path.realpath(path).rstrip(os.sep) + os.sep
