"""Names: scopes, and what a dotted library name means whatever it was imported as."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tapefix.flow.values import Value

if TYPE_CHECKING:
    from tapefix.documents.document import Document

#: other spellings of the same library, longest first
_SPELLINGS = (
    ("tensorflow.compat.v2.keras", "keras"),
    ("tensorflow.compat.v1.keras", "keras"),
    ("tensorflow.python.keras", "keras"),
    ("tensorflow.contrib", "tensorflow_contrib"),
    ("tensorflow.keras", "keras"),
    ("tensorflow.compat.v2", "tensorflow"),
    ("tensorflow.compat.v1", "tensorflow"),
    ("tensorflow.python.ops", "tensorflow"),
    ("tensorflow.python.eager.backprop", "tensorflow"),
    ("tensorflow.experimental.numpy", "tensorflow.experimental_numpy"),
    ("keras.src", "keras"),
    ("keras.api", "keras"),
    ("tf_keras", "keras"),
    ("autograd.numpy", "autograd_numpy"),
)


@functools.lru_cache(maxsize=20_000)
def canonical(name: str) -> str:
    """The one spelling of a library's dotted name: `tensorflow.compat.v2.keras.layers` -> `keras.layers`."""
    for spelling, plain in _SPELLINGS:
        if name == spelling or name.startswith(spelling + "."):
            return canonical(plain + name[len(spelling) :])
    return name


_WRITES = re.compile(
    r"\bassign(?:_add|_sub)?\b|moving_average|update_(?:add|sub)|\.update\(|scatter_(?:nd_)?(?:update|add|sub|max|min)|set_value"
)
_ASKED_FOR_WEIGHTS = re.compile(r"\.trainable_(?:variables|weights)\b")
_LAST_NAME = re.compile(r"\w+$")


@dataclass(eq=False)
class ModuleState:
    """One source file under interpretation."""

    name: str
    document: Document
    scope: Scope = None  # type: ignore[assignment]
    #: runs what has to be run before a name of an imported module can be looked up, and tells whether anything was
    demand: Callable[[str], bool] | None = None

    @functools.cached_property
    def model_names(self) -> frozenset[str]:
        """Names whose trainable variables are asked for somewhere in the file: they stand for models."""
        text = self.document.text
        found = set()
        for match in _ASKED_FOR_WEIGHTS.finditer(text):
            name = _LAST_NAME.search(text, max(0, match.start() - 80), match.start())
            if name is not None:
                found.add(name.group())
        return frozenset(found)

    @functools.cached_property
    def writes(self) -> bool:
        """Whether the file may write a Variable."""
        return bool(_WRITES.search(self.document.text))

    @property
    def filename(self) -> str:
        return self.document.filename


@dataclass(eq=False)
class Scope:
    module: ModuleState
    parent: Scope | None = None
    kind: str = "module"  # "module", "class", "function"
    vars: dict[str, Value] = field(default_factory=dict)
    outer_names: set[str] = field(default_factory=set)  # global and nonlocal

    def lookup(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.vars and (scope is self or scope.kind != "class"):
                return scope.vars[name]
            if scope.parent is None and scope.module.demand is not None and scope.module.demand(name):
                return scope.vars.get(name)
            scope = scope.parent
        return None

    def replace(self, name: str, value: Value) -> None:
        """Binds a name anew in the scope where it is found."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.vars:
                scope.vars[name] = value
                return
            scope = scope.parent

    def bind(self, name: str, value: Value) -> None:
        if name in self.outer_names:
            scope = self.parent
            while scope is not None:
                if name in scope.vars or scope.parent is None:
                    scope.vars[name] = value
                    return
                scope = scope.parent
        self.vars[name] = value


def argument_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    return [a.arg for a in [*node.args.posonlyargs, *node.args.args]]
