"""Weights that a loss does not depend on, taken off the list of one gradient and its pairs."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.rewrite.accumulators.syntax import Syntax, names_read, same_expression, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.leaving import finished

_ADVICE = "use it in the loss, or take its weights off the list"


def off_the_list(model: Model, cut: Cut) -> Fix | Refusal:
    """The gradient asked for the rest of a sum or list of weights, or for the weights of the loss's own model.

    `cut.spot` is the term of a sum within the gradient call, or all that the call asks for: a name whose list is right
    for another gradient. Safe in the latter case, since the weights are trained there.
    """
    document, syntax = model.document_of(cut.spot), syntax_of(model.document_of(cut.spot))
    if not isinstance(cut.spot.node, ast.expr):
        return Refusal(_ADVICE)
    call = _gradient_around(syntax, cut.spot.node)
    if call is None:
        return _out_of_its_definition(document, syntax, cut.spot.node)
    asked = _argument(syntax, call, cut.spot.node)
    listed = _definition(syntax, asked)
    if listed is None:
        return Refusal(_ADVICE)
    terms = _terms(listed)
    gone = [one for one in terms if _source(document, one) in cut.detail.split(", ")]
    rest = [one for one in terms if one not in gone]
    if not gone:
        return Refusal(_ADVICE)
    moved = asked is not listed
    if rest:
        text = _joined(document, listed, rest)
    elif cut.lost and isinstance(gone[0], ast.Attribute):
        text = f"{document.source(cut.lost[0])}.{gone[0].attr}"
    else:
        return Refusal(_ADVICE)
    pairs = _pairs(syntax, call, asked)
    if isinstance(pairs, Refusal):
        return pairs
    return _shortened(document, [asked, *pairs], text, gone, safe=moved and bool(rest))


def _shortened(document: Document, lists: list[ast.expr], text: str, gone: list[ast.expr], safe: bool) -> Fix | Refusal:
    edits = EditSet(document)
    try:
        for node in lists:
            edits.replace(node, text)
        what = ", ".join(f"`{_source(document, one)}`" for one in gone)
        message = f"take {what} off the gradient's list, which the loss does not depend on"
        return finished(edits, message, (f"use {what} in the loss",), safe=safe)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _out_of_its_definition(document: Document, syntax: Syntax, term: ast.expr) -> Fix | Refusal:
    """The term taken out of the sum that a name stands for, where it only serves gradients and their pairs."""
    bound = syntax.statement(term)
    if not isinstance(bound, ast.Assign) or len(bound.targets) != 1 or not isinstance(bound.targets[0], ast.Name):
        return Refusal(_ADVICE)
    terms = _terms(bound.value)
    gone = [one for one in terms if (one.value if isinstance(one, ast.Starred) else one) is term]
    rest = [one for one in terms if one not in gone]
    scope, name = syntax.scope(bound), bound.targets[0]
    if not gone or not rest or syntax.bindings(name.id, scope) != [name]:
        return Refusal(_ADVICE)
    for use in syntax.uses_named(name.id):
        above = syntax.parent(use)
        above = syntax.parent(above) if isinstance(above, ast.keyword) else above
        pairing = isinstance(above, ast.Call) and _last_name(above.func) in ("gradient", "zip", "apply", "build")
        if isinstance(use, ast.Name) and syntax.visible(name.id, use)[0] is scope and not pairing:
            return Refusal(f"line {use.lineno} uses `{name.id}` for something else; {_ADVICE}")
    return _shortened(document, [bound.value], _joined(document, bound.value, rest), gone, safe=False)


def _gradient_around(syntax: Syntax, node: ast.AST) -> ast.Call | None:
    for above in syntax.ancestors(node):
        if isinstance(above, ast.Call):
            is_gradient = isinstance(above.func, ast.Attribute) and above.func.attr == "gradient"
            return above if is_gradient else None
        if isinstance(above, ast.stmt):
            return None
    return None


def _argument(syntax: Syntax, call: ast.Call, node: ast.expr) -> ast.expr:
    """The whole argument that the node is a part of."""
    found: ast.AST = node
    while (above := syntax.parent(found)) is not call and not isinstance(above, ast.keyword):
        assert above is not None
        found = above
    assert isinstance(found, ast.expr)
    return found


def _definition(syntax: Syntax, asked: ast.expr) -> ast.expr | None:
    """The list itself: as written there, or what the name was bound to, whose parts still mean the same there."""
    if not isinstance(asked, ast.Name):
        return asked
    scope, bindings = syntax.visible(asked.id, asked)
    bound = syntax.statement(bindings[0]) if len(bindings) == 1 else None
    if scope is not syntax.scope(asked) or not isinstance(bound, ast.Assign) or bound.targets != bindings:
        return None
    for name in names_read(bound.value):
        for binding in syntax.bindings(name, scope):
            if not isinstance(binding, ast.arg) and syntax.before(bound, binding):
                return None
    return bound.value


def _terms(listed: ast.expr) -> list[ast.expr]:
    if isinstance(listed, ast.BinOp) and isinstance(listed.op, ast.Add):
        return _terms(listed.left) + _terms(listed.right)
    if isinstance(listed, (ast.List, ast.Tuple)):
        return list(listed.elts)
    return [listed]


def _source(document: Document, term: ast.expr) -> str:
    return document.source(term.value if isinstance(term, ast.Starred) else term)


def _joined(document: Document, listed: ast.expr, rest: list[ast.expr]) -> str:
    if isinstance(listed, (ast.List, ast.Tuple)):
        if len(rest) == 1 and isinstance(rest[0], ast.Starred):
            return _source(document, rest[0])
        return "[" + ", ".join(document.source(one) for one in rest) + "]"
    return " + ".join(document.source(one) for one in rest)


def _pairs(syntax: Syntax, call: ast.Call, asked: ast.expr) -> list[ast.expr] | Refusal:
    """Where the gradients are paired with what was asked for. All else must take them one by one."""
    statement = syntax.statement(call)
    if isinstance(statement, ast.Assign) and statement.value is call:
        uses = _uses(syntax, statement)
    else:
        uses = [call]
    found: list[ast.expr] = []
    while uses:
        use = uses.pop()
        above, here = syntax.parent(use), syntax.statement(use)
        if isinstance(above, ast.Call) and _last_name(above.func) in ("zip", "apply"):
            others = [one for one in above.args if one is not use]
            if len(others) != 1 or not same_expression(others[0], asked):
                return Refusal(f"line {use.lineno} pairs the gradients with something else; {_ADVICE}")
            found += others
        elif isinstance(here, ast.Assign) and (_is_clipped(above) or isinstance(above, ast.comprehension)):
            uses += _uses(syntax, here)
        else:
            return Refusal(f"line {use.lineno} uses the gradients in another way; {_ADVICE}")
    return found if found else Refusal(_ADVICE)


def _uses(syntax: Syntax, bound: ast.Assign) -> list[ast.expr]:
    """Where the (first) name that is bound is read, until it is bound again."""
    target = bound.targets[0]
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    if not isinstance(first, ast.Name):
        return []
    scope = syntax.scope(bound)
    again = [b for b in syntax.bindings(first.id, scope) if syntax.order[b] > syntax.end(bound)]
    end = min((syntax.end(syntax.statement(b)) for b in again), default=None)
    return [
        use
        for use in syntax.uses_named(first.id)
        if isinstance(use, ast.Name)
        and syntax.scope(use) is scope
        and syntax.order[use] > syntax.end(bound)
        and (end is None or syntax.order[use] <= end)
    ]


def _is_clipped(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and _last_name(node.func) == "clip_by_global_norm"


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
