"""A source is a tensor that the tape does not watch.

`tape.gradient(y, x)` is None where `x` is no Variable and `tape.watch(x)` did not come before its use, or where
another value than the watched one was used: a tape watches trainable Variables by itself, and nothing else. With
`watch_accessed_variables=False` it watches none of them before it is told.

Before
------
    with tf.GradientTape() as tape:
        y = f(x)
    slope = tape.gradient(y, x)

After
-----
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    slope = tape.gradient(y, x)

Fix
---
Safe: where the gradient is used to train the tensor it becomes a `tf.Variable`, elsewhere the tape watches it from
the beginning of its block. A tape with `watch_accessed_variables=False` that was not told of all sources watches
what it reads again. None of it changes the forward value. Where columns of an input are watched and the result is
computed of the whole input, it is computed of the columns joined again: unsafe where the last of them ends at a number,
since the input may have more. Where the output of one model is watched and the result comes of another that shares its
layers, one model gives both: unsafe, since what draws at random draws once then.

See https://www.tensorflow.org/guide/autodiff#controlling_what_the_tape_watches
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.flow.facts import Manner, Spot
from tapefix.rewrite.both_outputs import both_outputs
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished, replaced
from tapefix.rewrite.whole_of_parts import whole_of_parts

_WATCH = "watch the tensor at the beginning of the tape's block, or make it a tf.Variable"


class UnwatchedSource(Codemod):
    code = "TAP501"
    name = "unwatched-source"
    speaks_for: ClassVar = frozenset({How.UNWATCHED})
    why = "a tape watches Variables by itself; a plain tensor must be watched before it is used"

    def message(self, model: Model, cut: Cut) -> str:
        spot: Spot = cut.spot
        asked = cut.targets[0].spot if cut.targets else None
        if isinstance(spot.node, ast.With) and asked is not None and isinstance(asked.node, ast.Call):
            sources = sources_of(asked.node)
            spot = replace(asked, node=sources) if sources is not None else spot
        text = f"`{' '.join(model.document_of(spot).source(spot.node).split())[:60]}`"
        if cut.detail == Manner.BY_HAND:
            return f"the tape watches by hand, and was not told of all of {text}"
        if cut.detail == Manner.TOO_LATE:
            return f"the tape watches {text} after it has been used"
        if cut.detail == Manner.ANOTHER:
            return f"the tape watches {text}, which nothing is computed of"
        return f"the tape does not watch {text}"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        asked = cut.targets[0].spot if cut.targets else None
        if asked is None or asked.filename != cut.spot.filename or not isinstance(asked.node, ast.Call):
            return Refusal(_WATCH)
        if cut.detail == Manner.BY_HAND:
            return watching_all(model, cut)
        document = model.document_of(cut.spot)
        if cut.detail == Manner.ANOTHER:
            watches = {origin.name for origin in cut.origins}
            block = cut.spot.node
            if not isinstance(block, ast.With):
                return Refusal(_WATCH)
            return both_outputs(document, block, watches) or whole_of_parts(document, block, watches)
        made = cut.spot.node
        if not isinstance(made, ast.expr):  # the block of the tape
            late = cut.origins[0].spot if cut.detail == Manner.TOO_LATE else None
            return watched(document, asked.node, late.node if late is not None else None)
        if is_made_in_tape(document, made, asked.node):
            return Refusal("the tensor is made anew in each step; make it a tf.Variable before the loop")
        return replaced(document, made, "tf.Variable({made})", "make the trained tensor a Variable", made=made)


def scope_of(document: Document, node: ast.AST) -> ast.AST:
    """The function around a node, or the module."""
    layout = Layout.of(document)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return next((above for above in layout.ancestors(node) if isinstance(above, functions)), document.tree)


def block_of(document: Document, asked: ast.Call) -> ast.With | None:
    """The block of the tape that is asked, where it is written in the same function."""
    if not isinstance(asked.func, ast.Attribute):
        return None
    name = ast.dump(asked.func.value).replace("Load()", "Store()")
    found = [
        node
        for node in ast.walk(scope_of(document, asked))
        if isinstance(node, ast.With)
        and node.lineno <= asked.lineno
        and any(item.optional_vars is not None and ast.dump(item.optional_vars) == name for item in node.items)
    ]
    return found[-1] if found else None


def sources_of(asked: ast.Call) -> ast.expr | None:
    """What the gradient is asked for, as written in the call."""
    if len(asked.args) > 1:
        return asked.args[1]
    return next((keyword.value for keyword in asked.keywords if keyword.arg == "sources"), None)


def is_made_in_tape(document: Document, made: ast.expr, asked: ast.Call) -> bool:
    block = block_of(document, asked)
    return block is not None and any(node is made for node in ast.walk(block))


def watched(document: Document, asked: ast.Call, late: ast.AST | None) -> Fix | Refusal:
    """`tape.watch(x)` at the beginning of the tape's block, moved there from where it comes too late."""
    block = block_of(document, asked)
    sources = sources_of(asked)
    if block is None or sources is None:
        return Refusal("the tape is opened elsewhere; watch the tensor at the beginning of its block")
    names = {node.id for node in ast.walk(sources) if isinstance(node, ast.Name)}
    bound = {node.id for node in ast.walk(block) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    plain = all(
        isinstance(node, (ast.Name, ast.Attribute, ast.List, ast.Tuple, ast.expr_context)) for node in ast.walk(sources)
    )
    if not plain or names & bound:
        return Refusal(
            f"`{document.source(sources)}` is made inside the tape's block; watch it there, before it is used"
        )
    assert isinstance(asked.func, ast.Attribute)
    edits = EditSet(document)
    moved = [s for s in ast.walk(block) if isinstance(s, ast.Expr) and s.value is late]
    try:
        for statement in moved:
            edits.delete_statement(statement)
        edits.insert_before(block.body[0], "{tape}.watch({sources})", tape=asked.func.value, sources=sources)
        return finished(edits, "let the tape watch it")
    except EditConflict as conflict:
        return Refusal(str(conflict))


def watching_all(model: Model, cut: Cut) -> Fix | Refusal:
    """The tape watches what it reads, as tapes do by themselves."""
    made = cut.origins[0].spot
    if made is None or not isinstance(made.node, ast.Call):
        return Refusal("the tape is made elsewhere; watch all of the sources at the beginning of its block")
    call, document = made.node, model.document_of(made)
    told = [k.value for k in call.keywords if k.arg == "watch_accessed_variables"] + call.args[1:2]
    if not told:
        return Refusal("watch all of the sources at the beginning of the tape's block")
    edits = EditSet(document)
    try:
        edits.replace(told[0], "True")
        return finished(edits, "let the tape watch what it reads", ("watch the rest of the sources, too",))
    except EditConflict as conflict:
        return Refusal(str(conflict))
