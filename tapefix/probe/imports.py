"""Runs a callback once a library has been imported, by whom and whenever that is."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Sequence


class _Loader(importlib.abc.Loader):
    """The library's own loader; calls back after it, then takes itself out of the module again."""

    def __init__(self, loader: Any, done: Callable[[ModuleType], None]) -> None:
        self._loader, self._done = loader, done

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        made: Optional[ModuleType] = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._done(sys.modules.get(module.__name__, module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class AfterImport(importlib.abc.MetaPathFinder):
    """Finder that watches for a few module names."""

    def __init__(self, callbacks: Dict[str, Callable[[ModuleType], None]]) -> None:
        self._waiting = dict(callbacks)

    def install(self) -> None:
        """Calls back at once for what is imported already, and waits for the rest."""
        for name in list(self._waiting):
            module = sys.modules.get(name)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._waiting.pop(name)(module)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Wraps the loader of a module that is waited for."""
        done = self._waiting.pop(fullname, None)
        if done is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(fullname, path, target) if finder is not self and find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, done)
                found: importlib.machinery.ModuleSpec = spec
                return found
        self._waiting[fullname] = done
        return None
