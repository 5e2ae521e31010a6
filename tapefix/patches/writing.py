"""Writes files whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tapefix.errors import TapefixError


def write_files(files: Mapping[str, bytes]) -> None:
    """Replaces each file's contents: all are staged beside their targets first, then moved into place.

    Mode bits are kept and a symbolic link stays one. Raises TapefixError where a file cannot be written; what
    was staged is removed then, and no target has changed unless the very move failed.
    """
    staged: list[tuple[str, Path]] = []
    try:
        for name, data in files.items():
            target = Path(os.path.realpath(name))
            staged.append((_stage(target, data), target))
        for temporary, target in staged:
            os.replace(temporary, target)
    except OSError as error:
        raise TapefixError(f"{error.filename or name}: cannot be written: {error.strerror}") from error
    finally:
        for temporary, _ in staged:
            if os.path.exists(temporary):
                os.unlink(temporary)


def _stage(target: Path, data: bytes) -> str:
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tapefix", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        if target.exists():
            if not os.access(target, os.W_OK):
                raise PermissionError(13, "the file is read-only", str(target))
            shutil.copymode(target, temporary)
        else:
            os.chmod(temporary, 0o644)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary
