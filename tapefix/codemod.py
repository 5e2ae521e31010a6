"""What a codemod is: one rule that finds a cut gradient, explains it, and may repair it.

A codemod lives in one module of a package that is registered in the entry-point group
`tapefix.codemods`; the module's docstring is its documentation page.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tapefix.documents.document import Edit, Place

if TYPE_CHECKING:
    from tapefix.flow import Model


class Applicability(str, enum.Enum):
    """How far a fix may be trusted (as in Ruff)."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True)
class Related:
    """A second place of a finding: where the value came from, or who reads it."""

    place: Place
    message: str


@dataclass(frozen=True)
class Fix:
    """A rewrite. `edits` may lie in several files; findings that share `group` are repaired together."""

    applicability: Applicability
    message: str
    edits: tuple[Edit, ...]
    alternatives: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True)
class Refusal:
    """Why no rewrite is offered, and what a person could do."""

    reason: str


@dataclass(frozen=True)
class Finding:
    """A codemod's report at a place."""

    code: str
    name: str
    message: str
    why: str
    place: Place
    outcome: Fix | Refusal
    related: tuple[Related, ...] = ()

    @property
    def fix(self) -> Fix | None:
        return self.outcome if isinstance(self.outcome, Fix) else None


class Codemod:
    """Base class of every rule. Subclasses set the class variables and write `find`."""

    code: ClassVar[str]
    name: ClassVar[str]  # kebab-case, names the bad pattern
    #: the manners of losing a gradient that this rule speaks for (see tapefix.flow.facts.How)
    speaks_for: ClassVar[frozenset[str]] = frozenset()
    #: how a hard gate is made differentiable: "straight-through" or "soft" ([tool.tapefix.gates] threshold)
    threshold: str = "straight-through"

    def find(self, model: Model) -> Iterator[Finding]:
        """The rule's findings in the model's document, each with a fix or the reason why there is none."""
        raise NotImplementedError
