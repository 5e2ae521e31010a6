"""Brings a forward pass into a tape's block: the block opens earlier, or the statements move into it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document, Edit
from tapefix.flow import Cut, How, Model
from tapefix.rewrite import build
from tapefix.rewrite.accumulators.syntax import names_read, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.names import fresh

_TRAINS = frozenset({"fit", "train_on_batch", "fit_generator"})


@dataclass(frozen=True)
class Block:
    """The `with tf.GradientTape() as tape:` whose gradient is wanted."""

    document: Document
    statement: ast.With
    tape: str  # the name of the tape
    call: ast.Call  # the `gradient` call


def block_of(model: Model, cut: Cut) -> Block | Refusal:
    """The block of the tape by which the cut's target is differentiated."""
    for target in cut.targets:
        call = target.spot.node
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        document = model.document_of(target.spot)
        if not isinstance(call.func.value, ast.Name):
            return Refusal("the tape is no plain name; run the forward pass inside its block")
        tape = call.func.value.id
        syntax = syntax_of(document)
        scope = syntax.scope(call)
        before = [
            node
            for node in ast.walk(scope)
            if isinstance(node, ast.With)
            and syntax.scope(node) is scope
            and tape in _bound_by(node)
            and syntax.before(node, call)
        ]
        if before:
            return Block(document, max(before, key=lambda node: syntax.order[node]), tape, call)
    return Refusal("the tape's block is not in sight; run the forward pass inside it")


def _bound_by(block: ast.With) -> set[str]:
    return {item.optional_vars.id for item in block.items if isinstance(item.optional_vars, ast.Name)}


def widened(model: Model, cuts: Iterable[Cut], block: Block) -> Fix | Refusal:
    """The block opened before the statements of the cuts, so that the tape records them.

    Nothing runs twice or in another order: the statements between move into the block, indented one level deeper.
    """
    document, layout = block.document, Layout.of(block.document)
    siblings = layout.block(block.statement)
    here = siblings.index(block.statement)
    first = here
    for cut in cuts:
        at = _position(model, cut, block, siblings)
        if at is None or at >= here:
            return Refusal(
                "the forward pass and the tape's block are not in one block of statements; run it inside the tape"
            )
        first = min(first, at)
    problem = _why_not_inside(block, siblings[first:here]) or _why_not_before(block, siblings[first:here])
    if problem:
        return Refusal(f"{problem}; run the forward pass inside the tape's block")
    edit = _reopened(block, siblings[first])
    if isinstance(edit, Refusal):
        return edit
    group = f"widen {document.filename} {document.span(block.statement)[0]}"
    return Fix(Applicability.SAFE, "open the tape before the forward pass", (edit,), group=group)


def _position(model: Model, cut: Cut, block: Block, siblings: list[ast.stmt]) -> int | None:
    """The index among the siblings of the block's statement of the one that holds the cut's place."""
    if model.document_of(cut.spot) is not block.document:
        return None
    syntax = syntax_of(block.document)
    for node in (cut.spot.node, *syntax.ancestors(cut.spot.node)):
        for index, statement in enumerate(siblings):
            if node is statement:
                return index
    return None


def _why_not_inside(block: Block, statements: list[ast.stmt]) -> str:
    """Why the statements can't run inside the tape's block; "" if they can."""
    for item in block.statement.items:
        call = item.context_expr
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, (ast.Attribute, ast.Name))
            and _last(call.func) == "GradientTape"
        ):
            return "the block opens something else besides the tape"
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)):
                return f"line {node.lineno} waits or yields"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TRAINS:
                return f"line {node.lineno} trains a model by itself"
    return ""


def _why_not_before(block: Block, statements: list[ast.stmt]) -> str:
    """Why the block can't open before the statements; "" if it can."""
    settings = {name for item in block.statement.items for name in names_read(item.context_expr)}
    tapes = _bound_by(block.statement)
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in tapes:
                return f"line {node.lineno} uses the name `{node.id}` before the block"
            if isinstance(node, ast.Name) and node.id in settings and isinstance(node.ctx, ast.Store):
                return f"line {node.lineno} sets `{node.id}`, which the tape is made with"
    return ""


def lengthened(model: Model, cuts: Iterable[Cut], block: Block) -> Fix | Refusal:
    """The block ended behind the statements of the cuts, so that the tape records them.

    Nothing runs twice or in another order: what follows the block moves into it, indented one level deeper.
    """
    document, layout = block.document, Layout.of(block.document)
    siblings = layout.block(block.statement)
    here = last = siblings.index(block.statement)
    for cut in cuts:
        at = _position(model, cut, block, siblings)
        if at is None or at <= here:
            return Refusal("what is computed does not follow the tape's block directly; compute it inside the block")
        last = max(last, at)
    problem = _why_not_inside(block, siblings[here + 1 : last + 1]) or _why_not_behind(
        block, siblings[here + 1 : last + 1]
    )
    if problem:
        return Refusal(f"{problem}; compute it inside the tape's block")
    runs = [layout.run(statement) for statement in (block.statement, block.statement.body[0], *siblings[here + 1 :])]
    if (
        not all(run.own_line for run in runs[: last - here + 2])
        or runs[last - here + 1].statements[-1] is not siblings[last]
    ):
        return Refusal("the statements share a line; move them into the tape's block by hand")
    start, end = layout.after(block.statement), layout.after(siblings[last])
    indent, deeper = layout.indent(block.statement), layout.indent(block.statement.body[0])
    text = build.reindent(document.text[start:end], indent, deeper, document.newline)
    group = f"lengthen {document.filename} {start} {end}"
    edit = Edit(document.filename, start, end, text)
    return Fix(Applicability.SAFE, "let the tape record it: move it into the block", (edit,), group=group)


def lengthened_over(model: Model, cut: Cut) -> Fix | Refusal:
    """`lengthened` over all that is computed too late for the same block."""
    block = block_of(model, cut)
    if isinstance(block, Refusal):
        return block
    late = [one for one in model.of(How.AFTER_TAPE, How.DERIVED_OUTSIDE) if is_of(block_of(model, one), block)]
    found = lengthened(model, late, block)
    return lengthened(model, [cut], block) if isinstance(found, Refusal) else found


def recorded_derivative(model: Model, cut: Cut) -> Fix | Refusal:
    """A derivative brought into the block of the tape that differentiates it again: from behind it, or from before."""
    block = block_of(model, cut)
    if isinstance(block, Refusal):
        return block
    siblings = Layout.of(block.document).block(block.statement)
    at = _position(model, cut, block, siblings)
    if at is None or at >= siblings.index(block.statement):
        return lengthened_over(model, cut)
    inner = [
        replace(cut, spot=replace(cut.spot, node=other))
        for other in siblings[:at]
        if isinstance(other, ast.With)
        and any(is_asked(node, tape) for tape in _bound_by(other) for node in ast.walk(cut.spot.node))
    ]
    return widened(model, [cut, *inner[-1:]], block)


def is_of(one: Block | Refusal, block: Block) -> bool:
    return isinstance(one, Block) and one.statement is block.statement


def target_named(model: Model, cut: Cut) -> Fix | Refusal:
    """What the gradient call computes as its target, computed at the end of the tape's block under a name."""
    block = block_of(model, cut)
    if isinstance(block, Refusal):
        return block
    target = next((k.value for k in block.call.keywords if k.arg == "target"), None)
    target = block.call.args[0] if block.call.args else target
    siblings, edits = Layout.of(block.document).block(block.statement), EditSet(block.document)
    at = _position(model, cut, block, siblings)
    here = siblings.index(block.statement)
    if target is None or at is None or at <= here:
        return Refusal("the gradient is not asked right behind the tape's block; compute its target inside the block")
    between = siblings[here + 1 : at]
    stored = {
        n.id for one in between for n in ast.walk(one) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    if any(not isinstance(one, (ast.Assign, ast.AnnAssign)) for one in between) or stored & names_read(target):
        return Refusal("other statements run before the target is computed; compute it inside the tape's block")
    problem = _why_not_inside(block, [])
    if problem:
        return Refusal(f"{problem}; compute the target inside the tape's block")
    try:
        name = fresh(edits, block.statement, "loss")
        edits.insert_after(block.statement.body[-1], f"{name} = {block.document.source(target)}")
        edits.replace(target, name)
        return Fix(Applicability.SAFE, "compute the target at the end of the tape's block", edits.edits())
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _why_not_behind(block: Block, statements: list[ast.stmt]) -> str:
    """Why the tape's block can't go on over the statements; "" if it can."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == block.tape and not isinstance(node.ctx, ast.Load):
                return f"line {node.lineno} gives the name `{node.id}` away"
            if node is block.call:
                return f"line {node.lineno} already asks for the gradient"
            if not is_persistent(block) and is_asked(node, block.tape):
                return f"line {getattr(node, 'lineno', '?')} asks the tape, which records nothing from then on"
    return ""


def is_asked(node: ast.AST, tape: str) -> bool:
    """`tape.gradient(...)`"""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("gradient", "jacobian", "batch_jacobian")
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == tape
    )


def is_persistent(block: Block) -> bool:
    """The tape is made with `persistent=` something other than False."""
    for item in block.statement.items:
        call = item.context_expr
        if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == block.tape:
            given = [k.value for k in call.keywords if k.arg == "persistent"] if isinstance(call, ast.Call) else []
            given += call.args[:1] if isinstance(call, ast.Call) else []
            return any(not isinstance(value, ast.Constant) or bool(value.value) for value in given)
    return False


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _reopened(block: Block, first: ast.stmt) -> Edit | Refusal:
    """The block's header put before the statement `first`, and all that is between indented as the block's body is."""
    document, layout, text = block.document, Layout.of(block.document), block.document.text
    opening, run, body = layout.run(first), layout.run(block.statement), layout.run(block.statement.body[0])
    if not (
        opening.own_line
        and run.own_line
        and body.own_line
        and opening.statements[0] is first
        and len(run.statements) == 1
    ):
        return Refusal("the statements share a line; open the tape before the forward pass by hand")
    if isinstance(first, ast.If) and layout.is_elif(first):
        return Refusal("the forward pass stands in an `elif`; open the tape before the `if` by hand")
    header, comments = header_of(block)
    indent, deeper = layout.indent(first), layout.indent(block.statement.body[0])
    between = build.reindent(text[opening.start : run.start], indent, deeper, document.newline)
    if not between.startswith(deeper):
        return Refusal("the lines before the tape's block are laid out in an unusual way; open the tape there by hand")
    return Edit(document.filename, opening.start, body.start, header + between + comments)


def header_of(block: Block) -> tuple[str, str]:
    """The lines of the `with` up to its colon, and the comments and blank lines between it and its body."""
    document, text = block.document, block.document.text
    item = block.statement.items[-1]
    end = document.span(item.optional_vars or item.context_expr)[1]
    layout = Layout.of(document)
    start, stop = layout.run(block.statement).start, layout.run(block.statement.body[0]).start
    colon = text.index(":", end)
    line_end = text.find("\n", colon)
    line_end = stop if line_end < 0 or line_end >= stop else line_end + 1
    return text[start:line_end], text[line_end:stop]
