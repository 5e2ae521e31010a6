"""From a cut at a write into a Variable or buffer to its repair: asks the ladder, with the flow model's answers."""

from __future__ import annotations

import ast
import hashlib

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Buffer, Cut, Model
from tapefix.flow.values import Kind
from tapefix.rewrite.accumulators import Plan, SyntaxFacts, plan
from tapefix.rewrite.accumulators.syntax import syntax_of


class FlowFacts(SyntaxFacts):
    """The tree's answers, and the flow model's where the tree does not tell."""

    def __init__(self, model: Model, filename: str):
        document = model.documents.get(filename, model.document)
        super().__init__(syntax_of(document))
        self.model = model

    def is_number(self, node: ast.expr) -> bool:
        return super().is_number(node) or self.model.kind_of(node) in (Kind.NUMBER, Kind.SHAPE)


def repair(model: Model, cut: Cut) -> Fix | Refusal:
    """The rewrite of the buffer that the cut writes into, or why there is none."""
    buffer = cut.buffer
    if buffer is None:
        return Refusal("what is written into can't be followed")
    if buffer.escapes:
        return Refusal(buffer.escapes)
    filename = buffer.made.filename
    if elsewhere := [u for u in buffer.uses if u.spot.filename != filename]:
        other = elsewhere[0].spot
        return Refusal(f"it is also used in {other.filename}, line {getattr(other.node, 'lineno', '?')}")
    made = plan(model.documents.get(filename, model.document), buffer, FlowFacts(model, filename))
    if isinstance(made, Refusal):
        return made
    return as_fix(made, group(buffer))


def group(buffer: Buffer) -> str:
    """One name for all findings about a buffer: they are repaired together."""
    node = buffer.made.node
    key = f"{buffer.made.filename}:{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def as_fix(made: Plan, group: str = "") -> Fix:
    return Fix(made.applicability, made.message, made.edits, made.alternatives, group)
