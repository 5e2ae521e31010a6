"""Brings what leads to a target out of a `with tape.stop_recording():` block."""

from __future__ import annotations

import ast

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Edit
from tapefix.flow import Cut, How, Model
from tapefix.rewrite import build
from tapefix.rewrite.layout import Layout


def recorded(model: Model, cut: Cut) -> Fix | Refusal:
    """The statements of the block's cuts put before or behind it, or in its place where it holds nothing else."""
    document = model.document_of(cut.spot)
    layout = Layout.of(document)
    block = stopping_block(layout, cut.spot.node)
    if block is None:
        return Refusal("the recording is stopped elsewhere; compute it while the tape records")
    here = [
        layout.statement(one.spot.node)
        for one in model.of(How.NOT_RECORDED)
        if model.document_of(one.spot) is document and stopping_block(layout, one.spot.node) is block
    ]
    needed = [index for index, one in enumerate(block.body) if any(one is s for s in here)]
    runs = [layout.run(statement) for statement in (block, *block.body)]
    if len(block.items) != 1 or len(needed) != len(set(map(id, here))) or not all(run.own_line for run in runs):
        return Refusal("the block that stops the recording holds more than this; take the statement out of it")
    first, last = needed[0], needed[-1]
    moved = block.body[first : last + 1]
    problem = next((why for statement in moved if (why := why_stopped(statement))), "")
    if problem:
        return Refusal(f"{problem}; take what leads to the target out of the block that stops the recording")
    indent, deeper = layout.indent(block), layout.indent(block.body[0])
    start, end = layout.run(moved[0]).start, layout.after(moved[-1])
    taken = build.reindent(document.text[start:end], deeper, indent, document.newline)
    opening, body = layout.run(block).start, layout.run(block.body[0]).start
    if first == 0 and last == len(block.body) - 1:
        edits = (Edit(document.filename, opening, end, taken),)
    elif first == 0:
        edits = (Edit(document.filename, opening, end, taken + document.text[opening:body]),)
    elif last == len(block.body) - 1:
        edits = (Edit(document.filename, start, end, taken),)
    else:
        return Refusal("it stands between statements that are not to be recorded; take it out of the block")
    group = f"record {document.filename} {opening}"
    return Fix(Applicability.SAFE, "compute it while the tape records", edits, group=group)


def stopping_block(layout: Layout, node: ast.AST) -> ast.With | None:
    """The innermost `with tape.stop_recording():` around a node."""
    for above in layout.ancestors(node):
        if isinstance(above, ast.With) and any(
            isinstance(item.context_expr, ast.Call)
            and isinstance(item.context_expr.func, ast.Attribute)
            and item.context_expr.func.attr == "stop_recording"
            for item in above.items
        ):
            return above
    return None


_KEEPS = frozenset({"assign", "assign_add", "assign_sub", "apply_gradients", "gradient", "jacobian", "minimize"})


def why_stopped(statement: ast.stmt) -> str:
    """What in a statement is plainly not to be recorded, or can't move; "" if nothing is."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return f"line {statement.lineno} is no plain assignment"
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and node.attr in _KEEPS:
            return f"line {statement.lineno} updates or asks for a gradient"
    return ""
