"""What a codemod is: one rule that finds a cut gradient, explains it, and may repair it.

A codemod lives in one module of a package that is registered in the entry-point group
`tapefix.codemods`; the module's docstring is its documentation page.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from tapefix.documents.document import Edit, Place

if TYPE_CHECKING:
    from tapefix.flow import Cut, How, Misuse, Model


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


#: methods by which Python and NumPy ask for what can't be a tensor
_NUMBERS = frozenset({"__float__", "__int__", "__bool__", "__index__", "__complex__", "__len__", "__array__"})


def asked_for_numbers(cut: Cut) -> Refusal | None:
    """A cut inside of a method that has to give numbers: handing on a tensor there is an error."""
    name = getattr(cut.spot.function, "name", "")
    if name not in _NUMBERS:
        return None
    return Refusal(f"`{name}` has to give Python numbers; use another method of the object where the tensor is meant")


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
    """Base class of every rule.

    A subclass names the manners of losing a gradient that it speaks for; `find` then asks the flow model for the
    cuts, words each one, and offers `fix`. Rules that look for something else override `find`.
    """

    code: ClassVar[str]
    name: ClassVar[str]  # kebab-case, names the bad pattern
    #: the manners of losing a gradient that this rule speaks for
    speaks_for: ClassVar[frozenset[How]] = frozenset()
    #: a rule that overrides `find` and has nothing to say where the model found nothing worth running
    reads_flow: ClassVar[bool] = False
    #: why the gradient dies there, one sentence
    why: ClassVar[str] = ""
    #: how a hard gate is made differentiable: "straight-through" or "soft" ([tool.tapefix.gates] threshold)
    threshold: str = "straight-through"
    #: unsafe fixes are wanted: where a better one than the safe one exists, offer it
    unsafe: bool = False

    def find(self, model: Model) -> Iterator[Finding]:
        """The rule's findings of the document and the modules it imports, each with a fix or the reason for none."""
        return self.found(model, model.of(*self.speaks_for))

    def find_veiled(self, model: Model) -> Iterator[Finding]:
        """What looks detached on purpose: findings only for one who knows that a repair made it look so."""
        return self.found(model, (cut for cut in model.veiled if cut.how in self.speaks_for))

    def found(self, model: Model, cuts: Iterable[Cut]) -> Iterator[Finding]:
        """Those of the cuts that this rule speaks for, as findings."""
        for cut in cuts:
            if self.applies(model, cut):
                outcome = asked_for_numbers(cut) or self.fix(model, cut)
                if cut.partial and cut.scale and isinstance(outcome, Fix):
                    outcome = replace(outcome, applicability=Applicability.UNSAFE)  # a scale may be meant as a number
                yield self.finding(model, cut, outcome)

    def applies(self, model: Model, cut: Cut) -> bool:
        """Whether this rule speaks for the cut; rules that share a manner divide it here."""
        return True

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        """The rewrite of one cut, or why there is none."""
        raise NotImplementedError

    def mend(self, model: Model, misuse: Misuse) -> Finding | None:
        """The repair of a use that a rewrite has broken, such as an ndarray method on what became a tensor.

        Asked only within a chain of repairs, and only about what was not broken before.
        """
        return None

    def mended(self, model: Model, misuse: Misuse, outcome: Fix | Refusal) -> Finding:
        """What `mend` returns: the broken use, with its repair or the reason for none."""
        place = model.document_of(misuse.spot).place(misuse.spot.node)
        return Finding(self.code, self.name, misuse.message, self.why, place, outcome)

    def message(self, model: Model, cut: Cut) -> str:
        """What is cut, in a few words."""
        return f"no gradient flows through `{short(model, cut)}`"

    def finding(self, model: Model, cut: Cut, outcome: Fix | Refusal) -> Finding:
        text = self.message(model, cut)
        if cut.partial:
            text += " (one of several ways: nothing is None, the gradient is incomplete)"
        return Finding(
            self.code,
            self.name,
            text,
            self.why,
            model.document_of(cut.spot).place(cut.spot.node),
            outcome,
            related(model, cut),
        )


def short(model: Model, cut: Cut, limit: int = 60) -> str:
    """The source of the place, on one line, cut short."""
    text = " ".join(model.document_of(cut.spot).source(cut.spot.node).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def related(model: Model, cut: Cut) -> tuple[Related, ...]:
    """Where the lost value came from, and who wanted its gradient."""
    places = []
    for origin in cut.origins[:3]:
        if origin.spot is not None:
            places.append(
                Related(
                    model.document_of(origin.spot).place(origin.spot.node),
                    f"`{origin.name}` gets no gradient through it",
                )
            )
    for target in cut.targets[:1]:
        words = {
            "gradient": "the gradient is taken here",
            "loss": "the loss is wanted here",
            "call": "the layer's output is wanted here",
        }
        places.append(
            Related(model.document_of(target.spot).place(target.spot.node), words.get(target.what, "it is wanted here"))
        )
    return tuple(places)
