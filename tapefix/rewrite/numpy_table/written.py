"""A translated call put into its document: TensorFlow's local name, the import, and names for what is used twice."""

from __future__ import annotations

import ast

from tapefix.codemod import Refusal
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.imports import with_local_names
from tapefix.rewrite.names import fresh
from tapefix.rewrite.numpy_table.row import Rewrite

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)


def write(edits: EditSet, node: ast.expr, rewrite: Rewrite) -> Refusal | None:
    """Put the rewrite in the node's place; parts that were replaced themselves come along.

    What the template evaluates more than once gets a name in a line before the statement, where that changes
    neither what is evaluated nor in which order; else nothing is edited and the reason returned.
    """
    repeated = [rewrite.parts[name] for name in sorted(rewrite.repeated)]
    statement = edits.layout.statement(node)
    for part in repeated:
        reason = _why_not_before(edits, part, statement)
        if reason:
            return Refusal(
                f"`{edits.document.source(part)}` is needed more than once, and {reason}: give it a name first"
            )
    parts: dict[str, str | ast.AST] = dict(rewrite.parts)
    for name in sorted(rewrite.repeated):
        new = fresh(edits, node, "values")
        edits.insert_before(statement, "{name} = {value}", name=new, value=rewrite.parts[name])
        parts[name] = new
    edits.rewrite(node, with_local_names(edits, rewrite.template, node), **parts)
    return None


def _why_not_before(edits: EditSet, part: ast.expr, statement: ast.stmt) -> str:
    """Why the part can't be evaluated in a line before the statement; "" if it can."""
    if not isinstance(statement, _SIMPLE):
        return "it stands in the head of a compound statement"
    if any(isinstance(inner, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)) for inner in ast.walk(part)):
        return "it binds or waits"
    above: ast.AST = part
    own = {id(part)}
    for outer in edits.layout.ancestors(part):
        if isinstance(outer, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return "it is evaluated again and again"
        if (isinstance(outer, ast.IfExp) and above is not outer.test) or (
            isinstance(outer, ast.BoolOp) and above is not outer.values[0]
        ):
            return "it is not always evaluated"
        own.add(id(outer))
        above = outer
        if outer is statement:
            break
    own |= {id(inner) for inner in ast.walk(part)}
    start = edits.document.span(part)[0]
    for inner in ast.walk(statement):
        if isinstance(inner, ast.Call) and id(inner) not in own and edits.document.span(inner)[0] < start:
            return "another call comes before it"
    return ""
