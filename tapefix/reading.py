"""One look at a document: what the flow model understands, and what every codemod says about it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tapefix.codemod import Codemod, Finding
from tapefix.documents.document import Document, Edit, UnreadableDocument
from tapefix.documents.workspace import Workspace
from tapefix.selection import Selection

if TYPE_CHECKING:
    from tapefix.flow import Model
    from tapefix.flow.model import Misuse as FlowMisuse

Understand = Callable[[Document, Workspace], "Model"]


@dataclass(frozen=True)
class Tools:
    """What the engine works with: the rules, the model they ask, and which of them are wanted."""

    codemods: tuple[Codemod, ...]
    understand: Understand
    selection: Selection


@dataclass(frozen=True)
class Misuse:
    """A use that a rewrite has broken, such as an ndarray method on what became a tensor."""

    filename: str
    start: int
    row: int
    message: str


@dataclass(frozen=True)
class Reading:
    """A document's raw findings in stable order (their fixes not yet composed) and its misuses.

    `skipped` says why the document is none of the tool's business; `crashes` names rules that failed.
    """

    document: Document
    findings: tuple[Finding, ...] = ()
    veiled: tuple[Finding, ...] = ()  # what looks detached on purpose, unless a repair made it look so
    misuses: tuple[Misuse, ...] = ()
    skipped: str = ""
    crashes: tuple[str, ...] = ()
    mend: Callable[[], tuple[tuple[Misuse, Finding], ...]] = field(default=tuple, repr=False, compare=False)
    release: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)  # when it is of no more use

    @functools.cached_property
    def mends(self) -> tuple[tuple[Misuse, Finding], ...]:
        """Misuses with their repairs: worked out only where a chain of fixes asks."""
        return self.mend()

    def unveiled(self, hidden: tuple[Finding, ...]) -> Reading:
        """The reading with some of what is veiled among its findings."""
        findings = tuple(sorted(self.findings + hidden, key=order))
        return replace(self, findings=findings, veiled=tuple(f for f in self.veiled if f not in hidden))

    def peers(self, finding: Finding) -> tuple[Finding, ...]:
        """The findings that are repaired together with this one, itself among them."""
        if finding.fix is None or not finding.fix.group:
            return (finding,)
        return tuple(f for f in self.findings if f.fix is not None and f.fix.group == finding.fix.group) or (finding,)

    def edits(self, finding: Finding) -> tuple[Edit, ...]:
        """The edits that repair the finding and its peers; what they have in common is done once."""
        unique = dict.fromkeys(edit for peer in self.peers(finding) if peer.fix for edit in peer.fix.edits)
        return tuple(unique)


def order(finding: Finding) -> tuple[str, int, int, str, int, int]:
    place = finding.place
    return place.filename, place.row, place.column, finding.code, place.end_row, place.end_column


def read(workspace: Workspace, filename: str, tools: Tools) -> Reading:
    """What there is to say about a file. Raises UnreadableDocument, FileNotFoundError.

    A file that can hold no finding is not even parsed. A rule or a model that crashes costs its own findings only.
    """
    document = workspace.open(filename)
    try:
        model = tools.understand(document, workspace)
    except UnreadableDocument:
        raise
    except RecursionError:
        return Reading(document, skipped="it is nested too deeply to be understood")
    except Exception as error:
        return Reading(document, crashes=(_crash("the flow model", document, error),))
    if model.skipped:
        return Reading(document, skipped=model.skipped)
    codemods = [c for c in tools.codemods if model.looked or not (c.speaks_for or c.reads_flow)]
    if codemods:
        _ = document.tree  # raises where it does not parse
    findings: dict[tuple[object, ...], Finding] = {}
    veiled: dict[tuple[object, ...], Finding] = {}
    crashes = []
    for codemod in codemods:
        try:
            for finding in codemod.find(model):
                findings.setdefault(order(finding), finding)
            for finding in codemod.find_veiled(model):
                veiled.setdefault(order(finding), finding)
        except Exception as error:
            crashes.append(_crash(codemod.code, document, error))
    misuses = tuple(_misuse(workspace, found.spot, found.message) for found in model.misuses)

    def mend() -> tuple[tuple[Misuse, Finding], ...]:
        repairs = ((m, _repair(tools, model, found)) for m, found in zip(misuses, model.misuses, strict=True))
        return tuple((misuse, repair) for misuse, repair in repairs if repair is not None)

    ordered = tuple(sorted(findings.values(), key=order))
    hidden = tuple(sorted((f for at, f in veiled.items() if at not in findings), key=order))
    return Reading(document, ordered, hidden, misuses, crashes=tuple(crashes), mend=mend, release=model.release)


def _repair(tools: Tools, model: Model, found: FlowMisuse) -> Finding | None:
    return next((f for codemod in tools.codemods if (f := codemod.mend(model, found)) is not None), None)


def _misuse(workspace: Workspace, spot: object, message: str) -> Misuse:
    filename, node = spot.filename, spot.node  # type: ignore[attr-defined]
    document = workspace.open(filename)
    return Misuse(document.filename, document.span(node)[0], node.lineno, message)


def _crash(who: str, document: Document, error: Exception) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    return f"{document.filename}: {who} failed: {type(error).__name__}: {error} (at {where}); please report it"
