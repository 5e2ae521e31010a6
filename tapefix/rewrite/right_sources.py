"""The weights of the model that the loss depends on, in the place of another model's."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Cut, Model
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished

_ADVICE = "use it in the loss, or take its weights off the list"
#: calls that pair sources with gradients, or make an optimizer ready for them
_PAIRING = frozenset({"gradient", "zip", "apply_gradients", "apply", "build"})


def of_the_right_model(model: Model, cut: Cut) -> Fix | Refusal:
    """The weights of the one model that the loss depends on, also where its gradients are paired."""
    document, asked = model.document_of(cut.spot), cut.spot.node
    if not isinstance(asked, ast.Attribute) or not cut.lost:
        return Refusal(_ADVICE)
    layout, right = Layout.of(document), cut.lost[0]
    around = next((n for n in layout.ancestors(asked) if isinstance(n, ast.FunctionDef)), document.tree)
    above = layout.parent(asked)
    if isinstance(above, ast.Assign):
        call = _call_of_a_name(layout, around, above, asked, right)
    else:
        given = isinstance(above, ast.Call) and asked in (*above.args, *(k.value for k in above.keywords))
        call = above if given and isinstance(above, ast.Call) else Refusal(_ADVICE)
    if isinstance(call, Refusal):
        return call
    grads = {ast.unparse(call)}
    statement = layout.statement(call)
    if isinstance(statement, ast.Assign) and statement.value is call:
        grads |= {ast.unparse(target) for target in statement.targets}
    edits = EditSet(document)
    try:
        for node in (asked, *_pairs_of(around, grads, asked, statement.lineno)):
            edits.rewrite(node, "{right}." + node.attr, right=document.source(right))
        alternatives = (f"use `{document.source(asked.value)}` in the loss",)
        message = f"ask for the weights of `{document.source(right)}`, which the loss depends on"
        return finished(edits, message, alternatives, safe=False)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _call_of_a_name(
    layout: Layout, around: ast.AST, bound: ast.Assign, asked: ast.Attribute, right: ast.expr
) -> ast.Call | Refusal:
    """The one gradient that asks for the list by its name, where nothing else is done with the list."""
    target = bound.targets[0]
    if len(bound.targets) != 1 or not isinstance(target, ast.Name) or bound.value is not asked:
        return Refusal(_ADVICE)
    root = next(node for node in ast.walk(right) if isinstance(node, ast.Name))
    for store in _stores(around, root.id):
        if store.lineno >= bound.lineno:
            return Refusal(f"`{root.id}` is bound on line {store.lineno}, after the list of the weights; {_ADVICE}")
    stores = _stores(around, target.id)
    block = next((list(b) for b in _blocks(around) if bound in b), [])
    if not all(layout.statement(store) in block for store in stores):
        return Refusal(f"`{target.id}` stands for other weights as well; {_ADVICE}")
    first = min(store.lineno for store in stores)
    end = min((store.lineno for store in stores if store.lineno > bound.lineno), default=None)
    gradients = []
    for use in ast.walk(around):
        inside = bound.lineno < getattr(use, "lineno", 0) and (end is None or use.lineno < end)  # type: ignore[attr-defined]
        if isinstance(use, ast.Name) and use.id == target.id and isinstance(use.ctx, ast.Load):
            call = layout.parent(use)
            call = layout.parent(call) if isinstance(call, ast.keyword) else call
            if use.lineno < first:
                return Refusal(f"`{target.id}` is used on line {use.lineno} before it is bound; {_ADVICE}")
            if inside and not (isinstance(call, ast.Call) and _last_name(call.func) in _PAIRING):
                return Refusal(f"line {use.lineno} uses `{target.id}` for something else; {_ADVICE}")
            if inside and isinstance(call, ast.Call) and _last_name(call.func) == "gradient":
                gradients.append(call)
        elif inside and isinstance(use, ast.Attribute) and ast.unparse(use) == ast.unparse(asked):
            above = layout.parent(use)
            if isinstance(above, ast.Call) and _last_name(above.func) == "gradient":
                return Refusal(f"line {use.lineno} asks for the same weights, for another gradient; {_ADVICE}")
    return gradients[0] if len(gradients) == 1 else Refusal(f"`{target.id}` is asked for more than once; {_ADVICE}")


def _blocks(around: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(around):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(node, name, None), list):
                yield block


def _stores(around: ast.AST, name: str) -> list[ast.Name]:
    return [n for n in ast.walk(around) if isinstance(n, ast.Name) and n.id == name and _is_bound(n)]


def _pairs_of(around: ast.AST, grads: set[str], asked: ast.Attribute, start: int) -> Iterator[ast.Attribute]:
    """The same model's weights where they are zipped with these gradients, before the name stands for others."""
    bound = [n.lineno for n in ast.walk(around) if isinstance(n, ast.Name) and n.id in grads and _is_bound(n)]
    end = min((line for line in bound if line > start), default=None)
    for node in ast.walk(around):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
            near = asked.lineno <= node.lineno and (end is None or node.lineno <= end)
            if near and any(ast.unparse(arg) in grads for arg in node.args):
                for arg in node.args:
                    if isinstance(arg, ast.Attribute) and ast.unparse(arg.value) == ast.unparse(asked.value):
                        yield arg


def _is_bound(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
