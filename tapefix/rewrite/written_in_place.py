"""From a cut at a write into a Variable or buffer to its repair: asks the ladder, with the flow model's answers."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import replace
from pathlib import Path

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Buffer, Cut, Model
from tapefix.rewrite.accumulators import Plan, plan, plan_shared
from tapefix.rewrite.accumulators.batched import plan_batched
from tapefix.rewrite.flow_facts import FlowFacts


def repair(model: Model, cut: Cut, unsafe: bool = False) -> Fix | Refusal:
    """The rewrite of the buffer that the cut writes into, or why there is none.

    With `unsafe`, a loop over samples is batched where that can be done; else it is named as an alternative.
    """
    buffer = cut.buffer
    if buffer is None:
        return Refusal("what is written into can't be followed")
    if buffer.escapes:
        return Refusal(buffer.escapes)
    filename = buffer.made.filename
    document = model.documents.get(filename, model.document)
    facts = FlowFacts(model, filename)
    if elsewhere := [u for u in buffer.uses if u.spot.filename != filename]:
        others = {u.spot.filename: FlowFacts(model, u.spot.filename) for u in elsewhere}
        shared = plan_shared(document, buffer, facts, dict(others))
        if isinstance(shared, Plan):
            return as_fix(shared, group(buffer))
        made_at = f"{Path(filename).name}, line {getattr(buffer.made.node, 'lineno', '?')}"
        names = ", ".join(sorted({Path(name).name for name in others}))
        return Refusal(f"it is made in {made_at}, and used in {names} as well: {shared.reason}")
    whole = batched(model, document, buffer, facts)
    if whole is not None and unsafe:
        return whole
    made = plan(document, buffer, facts)
    if isinstance(made, Refusal):
        return whole or made
    fix = as_fix(made, group(buffer))
    return replace(fix, alternatives=(*fix.alternatives, f"unsafe: {whole.message}")) if whole is not None else fix


def batched(model: Model, document: Document, buffer: Buffer, facts: FlowFacts) -> Fix | None:
    """The batched form of the loop over samples that fills this buffer, or that fills one around it."""
    others = [b for b in model.buffers() if b.made.filename == buffer.made.filename]
    for outer in [buffer, *(b for b in others if b is not buffer)]:
        if not isinstance(outer.made.node, ast.expr):
            continue
        made = plan_batched(document, outer, [b for b in others if b is not outer], facts)
        if isinstance(made, Refusal):
            continue
        start, end = document.span(buffer.made.node)
        if outer is buffer or any(edit.start <= start and end <= edit.end for edit in made.edits):
            return as_fix(made, group(outer))
    return None


def group(buffer: Buffer) -> str:
    """One name for all findings about a buffer: they are repaired together."""
    node = buffer.made.node
    key = f"{buffer.made.filename}:{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def as_fix(made: Plan, group: str = "") -> Fix:
    return Fix(made.applicability, made.message, made.edits, made.alternatives, group)
