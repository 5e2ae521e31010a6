"""Moves what was computed once, and is only read by functions that run later, into these functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.flow import Cut, Model
from tapefix.rewrite import names as naming
from tapefix.rewrite.accumulators.syntax import Syntax, names_read, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.into_tape import bound_by, is_binding, read_at_once, why_not_again

Closure = ast.Lambda | ast.FunctionDef
_MESSAGE = "compute `{names}` inside the function that gives it to the tape, anew each time it is called"
_FAR = "the forward pass and the function that gives its value are too far apart; run it inside that function"


def moved_into_closures(model: Model, cuts: Iterable[Cut]) -> Fix | Refusal:
    """`cost = f(v)`, `loss = lambda: cost`: the computation takes the name's place in what the tape runs.

    It then runs each time the function is called, on what the Variables are by then.
    """
    cuts = list(cuts)
    document = model.document_of(cuts[0].spot)
    if any(model.document_of(cut.spot) is not document for cut in cuts):
        return Refusal("the forward pass lies in several files; run it inside the tape")
    syntax = syntax_of(document)
    starts = [syntax.statement(cut.spot.node) for cut in cuts]
    siblings = syntax.block(starts[0])
    if any(start not in siblings for start in starts):
        return Refusal(_FAR)
    chosen = _slice(siblings, starts)
    names = {name for statement in chosen for name in bound_by(statement)}
    for statement in chosen:
        problem = why_not_again(model, statement)
        if problem or not is_binding(statement):
            return Refusal(problem or f"line {statement.lineno} does more than give names to values")
    readers = _closures(syntax, chosen, names)
    if isinstance(readers, Refusal):
        return readers
    edits = EditSet(document)
    try:
        for reader in readers:
            problem = _give(syntax, edits, reader, chosen, names)
            if problem:
                return Refusal(problem)
        for statement in chosen:
            edits.delete_statement(statement)
        message = _MESSAGE.format(names=", ".join(sorted(names & _read_by(readers))))
        return Fix(Applicability.UNSAFE, message, edits.edits(), ("open the tape around the forward pass",))
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _slice(siblings: list[ast.stmt], starts: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of the forward pass: the first ones, and what computes with their values at once."""
    chosen: list[ast.stmt] = []
    names: set[str] = set()
    for statement in siblings[min(map(siblings.index, starts)) :]:
        if statement in starts or names & read_at_once(statement):
            chosen.append(statement)
            names |= bound_by(statement)
    return chosen


def _closures(syntax: Syntax, chosen: list[ast.stmt], names: set[str]) -> list[Closure] | Refusal:
    """The functions that read the names later; nothing else may."""
    scope = syntax.scope(chosen[0])
    inside = {node for statement in chosen for node in ast.walk(statement)}
    found: list[Closure] = []
    for node in ast.walk(scope):
        if not (isinstance(node, ast.Name) and node.id in names) or node in inside:
            continue
        home, _ = syntax.visible(node.id, node)
        if home is not scope:
            continue  # another variable of that name
        reader = syntax.function(node)
        if not isinstance(node.ctx, ast.Load) or syntax.scope(node) is scope:
            return Refusal(f"line {node.lineno} uses `{node.id}` too; run the forward pass inside the tape")
        if not isinstance(reader, (ast.Lambda, ast.FunctionDef)) or syntax.scope(reader) is not scope:
            return Refusal(_FAR)
        if reader not in found:
            found.append(reader)
    needed = set().union(*(names_read(statement) for statement in chosen)) | names
    for name in needed:
        bound = syntax.bindings(name, scope)
        if name in names and len(bound) != 1:
            return Refusal(f"`{name}` is bound several times; run the forward pass inside the tape")
        late = [b for b in bound if b not in inside and syntax.before(chosen[-1], b)]
        if late and not isinstance(late[0], (ast.FunctionDef, ast.ClassDef)):
            return Refusal(f"`{name}` is bound again after the forward pass; run it inside the tape")
    return found or Refusal(_FAR)


def _read_by(readers: list[Closure]) -> set[str]:
    return set().union(*(names_read(reader) for reader in readers))


def _give(syntax: Syntax, edits: EditSet, reader: Closure, chosen: list[ast.stmt], names: set[str]) -> str:
    """Puts the forward pass into a function; why it can't be, if so."""
    document = edits.document
    taken = {name for node in ast.walk(reader) for name in _bound_names(node)}
    hidden = taken & (names | set().union(*(names_read(statement) for statement in chosen)))
    if hidden:
        return (
            f"`{min(hidden)}` means something else in the function on line {reader.lineno}; run the forward pass there"
        )
    body = "\n".join(document.source(statement) for statement in chosen)
    if isinstance(reader, ast.FunctionDef):
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(reader)):
            return f"`{reader.name}` is a generator; run the forward pass inside the tape"
        edits.insert_before(_first(reader), body)
        return ""
    uses = [n for n in ast.walk(reader.body) if isinstance(n, ast.Name) and n.id in names]
    only = chosen[0]
    if len(chosen) == len(uses) == 1 and isinstance(only, ast.Assign) and isinstance(only.targets[0], ast.Name):
        edits.replace(uses[0], document.source(only.value))
        return ""
    if reader.args.args or reader.args.kwonlyargs or reader.args.vararg or reader.args.kwarg:
        return f"the lambda on line {reader.lineno} takes parameters; run the forward pass inside the tape"
    statement = syntax.statement(reader)
    indented = "".join(f"    {line}\n" for line in body.split("\n"))
    if isinstance(statement, ast.Assign) and statement.value is reader and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        text = f"def {name}():\n{indented}    return {{result}}"
        edits.rewrite_statement(statement, text, result=reader.body)
        return ""
    name = naming.fresh(edits, statement, "forward_pass")
    edits.insert_before(statement, f"\ndef {name}():\n{indented}    return {document.source(reader.body)}\n\n")
    edits.replace(reader, name)
    return ""


def _bound_names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.arg):
        return {node.arg}
    return {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()


def _first(function: ast.FunctionDef) -> ast.stmt:
    """The first statement behind the docstring and the declarations of names."""
    body = function.body
    is_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    kept = [s for s in body[1 if is_text else 0 :] if not isinstance(s, (ast.Global, ast.Nonlocal))]
    return kept[0] if kept else body[-1]
