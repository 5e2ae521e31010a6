"""Finds the codemods: every `Codemod` in the packages that the entry-point group `tapefix.codemods` names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from tapefix.codemod import Codemod
from tapefix.errors import TapefixError

GROUP = "tapefix.codemods"


def load_codemods(points: Iterable[EntryPoint] | None = None) -> tuple[Codemod, ...]:
    """One instance of every installed codemod, by code.

    Raises TapefixError where there is none (a broken installation is no clean bill of health), where a module
    cannot be imported and where two rules claim one code.
    """
    found: dict[str, Codemod] = {}
    for point in sorted(entry_points(group=GROUP) if points is None else points, key=lambda p: (p.name, p.value)):
        for module in _modules(point):
            for kind in _codemods_of(module):
                other = found.get(kind.code)
                if other is not None and type(other) is not kind:
                    raise TapefixError(
                        f"{kind.code} is claimed by both {type(other).__module__} and {kind.__module__}; "
                        "uninstall one of them"
                    )
                found[kind.code] = kind()
    if not found:
        raise TapefixError(
            f"no codemod found in the entry-point group {GROUP!r}: the installation is broken; reinstall tapefix"
        )
    return tuple(found[code] for code in sorted(found))


def _modules(point: EntryPoint) -> Iterator[ModuleType]:
    """The package that an entry point names, and all modules in it."""
    package = _import(point.module, point)
    yield package
    for info in pkgutil.walk_packages(getattr(package, "__path__", ()), package.__name__ + "."):
        yield _import(info.name, point)


def _import(name: str, point: EntryPoint) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a plug-in's module raises, the person must learn which one it was
        raise TapefixError(
            f"the codemod module {name} (entry point {point.name!r}) cannot be imported: "
            f"{type(error).__name__}: {error}; reinstall or uninstall it"
        ) from error


def _codemods_of(module: ModuleType) -> Iterator[type[Codemod]]:
    """The rules that a module defines itself: those that bear a code."""
    for kind in vars(module).values():
        if inspect.isclass(kind) and issubclass(kind, Codemod) and kind.__module__ == module.__name__:
            if getattr(kind, "code", ""):
                yield kind


def page(codemod: Codemod) -> str:
    """A rule's documentation: its module's docstring."""
    return inspect.cleandoc(sys.modules[type(codemod).__module__].__doc__ or "")
