"""Moves a forward pass that ran once into the function that `optimizer.minimize` calls under its own tape."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.accumulators.syntax import Syntax, names_read, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.into_tape import bound_by, is_binding, read_at_once, why_not_again

_ADVICE = "run the forward pass inside the function that minimize calls"
_MESSAGE = "compute it inside `{name}`, which minimize calls under its tape, anew in each step"


def moved_into_closure(model: Model, cut: Cut) -> Fix | Refusal:
    """The statements from the forward pass on, in the function that is minimised.

    Only where nothing else reads what they bind.
    """
    call = next((t.spot.node for t in cut.targets if t.what == "minimize"), None)
    document = model.document_of(cut.spot)
    syntax = syntax_of(document)
    if not isinstance(call, ast.Call) or call not in syntax.order:
        return Refusal("nothing is minimised in this file")
    function = _minimised(syntax, call)
    if function is None:
        return Refusal(f"the function that is minimised is not in sight; {_ADVICE}")
    cuts = [c for c in model.of(How.OUTSIDE_TAPE) if any(t.spot.node is call for t in c.targets)]
    if any(model.document_of(c.spot) is not document for c in cuts):
        return Refusal(f"the forward pass is in another file; {_ADVICE}")
    chosen = _chosen(model, syntax, [syntax.statement(c.spot.node) for c in cuts], call)
    if isinstance(chosen, Refusal):
        return chosen
    problem = _why_not(syntax, function, chosen)
    if problem:
        return Refusal(f"{problem}; {_ADVICE}")
    edits = EditSet(document)
    try:
        if isinstance(function, ast.Lambda):
            (statement,) = chosen
            (use,) = _uses_in(function, bound_by(statement))
            edits.rewrite(use, "{value}", value=statement.value)
            edits.delete_statement(statement)
        else:
            for statement in chosen:
                edits.insert_before(_first(function), document.source(statement))
                edits.delete_statement(statement)
        name = "the lambda" if isinstance(function, ast.Lambda) else function.name
        group = f"minimize {document.filename} {document.span(call)[0]}"
        return Fix(Applicability.UNSAFE, _MESSAGE.format(name=name), edits.edits(), (), group=group)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _minimised(syntax: Syntax, call: ast.Call) -> ast.FunctionDef | ast.Lambda | None:
    """The function of the program that the call minimises."""
    loss = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "loss"), None)
    if isinstance(loss, ast.Lambda):
        return loss
    if not isinstance(loss, ast.Name):
        return None
    _, bindings = syntax.visible(loss.id, loss)
    if len(bindings) != 1:
        return None
    if isinstance(bindings[0], ast.FunctionDef):
        return bindings[0]
    above = syntax.parent(bindings[0])
    return above.value if isinstance(above, ast.Assign) and isinstance(above.value, ast.Lambda) else None


def _chosen(model: Model, syntax: Syntax, starts: list[ast.stmt], call: ast.Call) -> list[ast.Assign] | Refusal:
    """The forward pass and what is made of it, up to the call."""
    siblings = syntax.block(starts[0])
    step = next((one for one in (syntax.statement(call), *syntax.ancestors(call)) if one in siblings), None)
    if step is None or any(start not in siblings for start in starts):
        return Refusal(f"the forward pass and the call of minimize are too far apart; {_ADVICE}")
    first = min(siblings.index(start) for start in starts)
    chosen: list[ast.Assign] = []
    names: set[str] = set()
    for statement in siblings[first : siblings.index(step)]:
        if statement not in starts and not names & read_at_once(statement):
            continue
        if not isinstance(statement, ast.Assign) or not is_binding(statement):
            return Refusal(f"line {statement.lineno} uses the value before it is minimised; {_ADVICE}")
        problem = why_not_again(model, statement)
        if problem:
            return Refusal(problem)
        chosen.append(statement)
        names |= bound_by(statement)
    return chosen


def _why_not(syntax: Syntax, function: ast.FunctionDef | ast.Lambda, chosen: Iterable[ast.Assign]) -> str:
    scope = syntax.scope(function)
    own = {name for node in ast.walk(function) for name in _bound_names(node)}
    for statement in chosen:
        if syntax.scope(statement) is not scope:
            return "the forward pass and the function stand in different scopes"
        if own & (bound_by(statement) | names_read(statement)):
            return f"`{min(own & (bound_by(statement) | names_read(statement)))}` means something else in the function"
        for name in bound_by(statement):
            if len(syntax.bindings(name, scope)) != 1:
                return f"`{name}` is bound more than once"
            for use in syntax.uses_named(name):
                seen = isinstance(use, ast.Name) and syntax.visible(name, use)[0] is scope
                if seen and not any(syntax.inside(use, one) for one in (function, *chosen)):
                    return f"line {use.lineno} uses `{name}`, too"
    if isinstance(function, ast.Lambda):
        several = list(chosen)
        if len(several) != 1 or len(several[0].targets) != 1 or not isinstance(several[0].targets[0], ast.Name):
            return "a lambda holds one expression only"
        if len(_uses_in(function, bound_by(several[0]))) != 1:
            return "the lambda uses the value more than once"
    return ""


def _bound_names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.arg):
        return {node.arg}
    return {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()


def _uses_in(function: ast.Lambda, names: set[str]) -> list[ast.Name]:
    return [n for n in ast.walk(function.body) if isinstance(n, ast.Name) and n.id in names]


def _first(function: ast.FunctionDef) -> ast.stmt:
    """The first statement behind the docstring and the declarations of names."""
    body = function.body
    is_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    kept = [s for s in body[1 if is_text else 0 :] if not isinstance(s, (ast.Global, ast.Nonlocal))]
    return kept[0] if kept else body[-1]
