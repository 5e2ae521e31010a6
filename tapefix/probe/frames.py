"""Which code is the user's, and which of its lines is running."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from types import FrameType, TracebackType
from typing import Any, NamedTuple

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CONVERTED = "__autograph_generated_file"  # AutoGraph's temporary modules; in TensorFlow 2.3 they have no telling name
_INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")


class Frame(NamedTuple):
    """One running line of the user's: which call it is in (`ident`), the function's name, the file and the line."""

    ident: tuple[int, int]
    function: str
    filename: str
    line: int


class UserCode:
    """Tells the user's files (below `root`) from libraries, and finds their frames on the stack."""

    def __init__(self, root: str) -> None:
        self.root = os.path.join(os.path.realpath(root), "")
        self._own = os.path.realpath(_OWN)
        self._stdlib = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
        self._known: dict[str, bool] = {}
        self._folders: dict[str, str] = {}
        self.calls: dict[int, int] = {}  # frame of the user's -> number of the call it is making

    def owns(self, filename: str) -> bool:
        """True for a file below the project's folder that is no installed library."""
        known = self._known.get(filename)
        if known is None:
            path = self._resolved(filename)
            known = self._known[filename] = (
                bool(filename)  # a built-in type has none, and "" would be the working folder
                and path.startswith(self.root)
                and not _INSTALLED.search(path)
                and not path.startswith((self._stdlib, self._own))
                and os.path.basename(path) != "sitecustomize.py"
                and os.path.exists(path)  # compiled libraries name sources that are not here
            )
        return known

    def _resolved(self, filename: str) -> str:
        """The real path; links are followed once a folder, for there are thousands of modules."""
        folder, name = os.path.split(filename)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder)
        return os.path.join(real, name)

    def stack(self, frame: FrameType | None) -> tuple[Frame, ...]:
        """The user's frames below `frame`, innermost first.

        Python reuses the addresses of frames, so a frame is told from a later one at the same address by the number
        of the call that led to it.
        """
        mine = []
        known = self._known
        while frame is not None:
            name = frame.f_code.co_filename
            owned = known.get(name)
            if owned or (owned is None and self.owns(name)):
                mine.append(frame)
            frame = frame.f_back
        calls = self.calls
        outer = [calls.get(id(caller_), 0) for caller_ in mine[1:]] + [0]
        return tuple(
            Frame((id(f), number), f.f_code.co_name, f.f_code.co_filename, f.f_lineno) for f, number in zip(mine, outer)
        )

    def innermost(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame of the user's."""
        while frame is not None and not self.owns(frame.f_code.co_filename):
            frame = frame.f_back
        return frame

    def place(self, frame: FrameType | None) -> tuple[str, int] | None:
        """File and line of the innermost line of the user's, seen through AutoGraph's converted code."""
        walk = frame
        while walk is not None:
            name = walk.f_code.co_filename
            if _CONVERTED in name or "ag__" in walk.f_code.co_freevars:
                return self._converted_place() or self._outer_place(walk)
            if self.owns(name):
                return name, walk.f_lineno
            walk = walk.f_back
        return None

    def _outer_place(self, frame: FrameType | None) -> tuple[str, int] | None:
        mine = self.innermost(frame)
        return (mine.f_code.co_filename, mine.f_lineno) if mine else None

    def _converted_place(self) -> tuple[str, int] | None:
        """TensorFlow's own stack, which maps converted lines back to the original ones."""
        try:
            from tensorflow.python.util import tf_stack

            for entry in reversed(list(tf_stack.extract_stack())):
                if self.owns(entry.filename):
                    return entry.filename, entry.lineno
        except Exception:  # a private API: without it the caller's line is used
            pass
        return None

    def error_place(self, error: BaseException) -> tuple[str, int] | None:
        """Where the user's code raised `error`: the innermost line of the user's, also in AutoGraph's message."""
        place = None
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            if self.owns(trace.tb_frame.f_code.co_filename):
                place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
            trace = trace.tb_next
        for filename, line in re.findall(r'File "([^"]+)", line (\d+), in ', str(error)):
            if self.owns(filename):
                place = filename, int(line)
        return place


def calling(frame: FrameType | None, stop: FrameType | None) -> list[str]:
    """The names of the functions between `frame` and the user's frame `stop`, innermost first."""
    names = []
    while frame is not None and frame is not stop:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def caller(depth: int = 1) -> Any:
    """The frame `depth` levels above the function that asks."""
    return sys._getframe(depth + 1)
