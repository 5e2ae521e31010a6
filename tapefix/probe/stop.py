"""Ends the run once the answer is known: each place that asks for gradients has been seen often enough."""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import threading
import time
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

from .frames import UserCode

Place = Tuple[str, int]
_PAUSE = 1.0  # seconds between two looks whether the run is over
_ASKING = {"gradient", "jacobian", "minimize", "fit", "train_on_batch", "batch_jacobian"}


class EndOfRun(BaseException):
    """Raised inside the user's program to end it; not an Exception, so that `except Exception` lets it pass."""


class EndOfFit(BaseException):
    """Raised inside a `fit` that has run long enough; the program goes on behind it."""


class Stopper:
    """Counts gradient calls by place and ends the run.

    It ends when every place has been seen `steps` times and no other is known of (the user's loaded files hold no
    further call by that name), or when nothing new has come for `patience` seconds.
    """

    def __init__(self, code: UserCode, steps: int, patience: float, finish: Callable[[str], None]) -> None:
        self.code, self.steps, self.patience, self.finish = code, max(1, steps), patience, finish
        self.seen: Dict[Place, int] = {}
        self.news = time.monotonic()
        self.enabled = True
        self.raising = True  # False: leave the process at once, where nobody would catch the exception
        self.ending = False
        self.shortened = False  # a `fit` was cut short: what the program does after it may fail for that reason
        self.entered: Set[Place] = set()  # lines of `fit`; the gradient calls within may be elsewhere
        self._fits: List[Set[Place]] = []
        self._raised = 0
        self._asked = 0.0
        self._known: Tuple[int, int, int] = (0, 0, 0)  # modules, places and fits when it was last looked
        self._waiting = True
        self._sites: Dict[str, List[Tuple[int, int]]] = {}
        self._thread = threading.get_ident()

    def traced(self, place: Place) -> None:
        """Notes a place in a graph that has not run yet."""
        self.seen.setdefault(place, 0)
        self.news = time.monotonic()
        for fit in self._fits:
            fit.add(place)

    def reached(self, place: Place, count: int) -> None:
        """Notes the `count`-th call at `place`, from any thread."""
        for fit in self._fits:
            fit.add(place)
        if count <= self.steps:
            self.seen[place] = count
            self.news = time.monotonic()
        if self.enabled and not self.ending and count >= self.steps:
            now = time.monotonic()
            if count == self.steps or now - self._asked > _PAUSE:  # looking through all modules takes milliseconds
                self._asked = now
                self.ending = self.done()

    def done(self) -> bool:
        """True once nothing new is to be expected."""
        waiting = any(count < self.steps for count in self.seen.values()) or self._unseen()
        return not waiting or time.monotonic() - self.news > self.patience

    def check(self) -> None:
        """Ends the run, or the `fit` around, if it has been seen enough; only the main thread's calls count."""
        if not self.enabled or threading.get_ident() != self._thread:
            return
        if self.ending:
            self._raised += 1
            if self._raised > 3 or not self.raising:
                self.leave()
            raise EndOfRun
        if self._fits and self._fits[-1] and all(self.seen.get(p, 0) >= self.steps for p in self._fits[-1]):
            raise EndOfFit

    @contextlib.contextmanager
    def fitting(self, place: Optional[Place]) -> Iterator[None]:
        """Around a `fit` at `place`: the places met in it decide when it has run long enough."""
        if place:
            self.entered.add(place)
        self._fits.append(set())
        try:
            yield
        finally:
            self._fits.pop()

    def leave(self) -> None:
        """Flushes and leaves at once, past the user's handlers."""
        self.finish("steps")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        os._exit(0)

    def _unseen(self) -> bool:
        """True while a loaded file of the user's has a call that asks for gradients and has not been reached."""
        known = len(sys.modules), len(self.seen), len(self.entered)
        if known != self._known:  # there are thousands of modules
            self._known, self._waiting = known, self._look()
        return self._waiting

    def _look(self) -> bool:
        seen: Dict[str, Set[int]] = {}
        for filename, line in {*self.seen, *self.entered}:
            seen.setdefault(os.path.realpath(filename), set()).add(line)
        for filename in self._files():
            lines = seen.get(filename, set())
            for first, last in self._asking(filename):
                if not any(first <= line <= last for line in lines):
                    return True
        return False

    def _files(self) -> List[str]:
        """The user's loaded files. The modules of a package that is not the user's are not looked at one by one."""
        modules = dict(sys.modules)
        foreign = {name for name, module in modules.items() if "." not in name and self._is_foreign(module)}
        mine = (module for name, module in modules.items() if name.partition(".")[0] not in foreign)
        names = {getattr(module, "__file__", None) for module in mine}
        return sorted({os.path.realpath(name) for name in names if isinstance(name, str) and self.code.owns(name)})

    def _is_foreign(self, module: object) -> bool:
        name = getattr(module, "__file__", None)  # None: built in, or a package without a file, whose modules count
        return isinstance(name, str) and not self.code.owns(name)

    def _asking(self, filename: str) -> List[Tuple[int, int]]:
        if filename not in self._sites:
            self._sites[filename] = _asking_lines(filename)
        return self._sites[filename]


def _asking_lines(filename: str) -> List[Tuple[int, int]]:
    """First and last line of each call by a name that asks for gradients."""
    try:
        with open(filename, "rb") as file:
            tree = ast.parse(file.read(), filename)
    except (OSError, SyntaxError, ValueError):
        return []
    return [
        (node.lineno, getattr(node, "end_lineno", None) or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ASKING
    ]
