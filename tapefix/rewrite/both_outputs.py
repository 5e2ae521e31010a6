"""Two models that share layers, asked one after the other: one model that gives both outputs."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.leaving import finished
from tapefix.rewrite.said import last_name, pairs_of

_INPUTS = ("{}.inputs", "{}.input", "[{}.inputs]", "[{}.input]")


def both_outputs(document: Document, block: ast.With, watched: set[str]) -> Fix | Refusal | None:
    """`c = part(x); y = whole(x)`, where y is to be differentiated by c: `c, y = part(x)` of a model with both outputs.

    None where the block holds no such pair. The first model must be of no other use, and begin where the second does.
    Unsafe: a layer that draws at random draws once instead of twice, and layers that are frozen leave no record.
    """
    calls = [s for s in block.body if isinstance(s, ast.Assign) and _is_call_of_name(s)]
    for first in calls:
        name, part = _bound(first)
        made = _only_model(document.tree, part) if name in watched else None
        if made is None:
            continue
        for second in calls:
            inputs, output = made
            _, whole = _bound(second)
            if second is first or not _same_arguments(first, second) or not _begins_at(document.tree, inputs, whole):
                continue
            if _disturbed(block, first, second):
                return Refusal(f"something between the calls of `{part}` and `{whole}` changes what they are given")
            return _joined(document, (first, second), output, part, whole)
    return None


def _joined(
    document: Document, pair: tuple[ast.Assign, ast.Assign], output: ast.expr, part: str, whole: str
) -> Fix | Refusal:
    (name, _), (result, _) = _bound(pair[0]), _bound(pair[1])
    earlier, later = sorted(pair, key=lambda statement: statement.lineno)
    edits = EditSet(document)
    try:
        edits.rewrite(output, f"[{{output}}, {whole}.output]", output=output)
        edits.rewrite_statement(earlier, f"{name}, {result} = {{call}}", call=pair[0].value)
        edits.delete_statement(later)
        message = f"let one model give `{name}` and `{result}`"
        return finished(edits, message, (f"compute `{result}` of `{name}` by the layers behind it",), False)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _disturbed(block: ast.With, first: ast.Assign, second: ast.Assign) -> bool:
    """Between the two, what they are given is bound anew, or the later one's name is read."""
    start, end = sorted((block.body.index(first), block.body.index(second)))
    later = ast.unparse(block.body[end].targets[0])  # type: ignore[attr-defined]
    given = {n.id for n in ast.walk(first.value) if isinstance(n, ast.Name)}
    names = [n for s in block.body[start + 1 : end] for n in ast.walk(s) if isinstance(n, ast.Name)]
    return any(n.id in given if isinstance(n.ctx, ast.Store) else n.id == later for n in names)


def _is_call_of_name(statement: ast.Assign) -> bool:
    return (
        len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, (ast.Name, ast.Attribute))
    )


def _bound(statement: ast.Assign) -> tuple[str, str]:
    """`y = f(x)`: y and f."""
    return ast.unparse(statement.targets[0]), ast.unparse(_call_of(statement).func)


def _call_of(statement: ast.Assign) -> ast.Call:
    assert isinstance(statement.value, ast.Call)
    return statement.value


def _only_model(tree: ast.Module, name: str) -> tuple[str, ast.expr] | None:
    """The inputs and the one output of a model that is made once under a name, and read once."""
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    if len(uses) != 2:
        return None
    made = [value for statement in ast.walk(tree) for target, value in pairs_of(statement) if target in uses]
    return _parts_of_model(made[0]) if len(made) == 1 else None


def _parts_of_model(made: ast.expr) -> tuple[str, ast.expr] | None:
    if not isinstance(made, ast.Call) or last_name(made.func) != "Model":
        return None
    given = dict(zip(("inputs", "outputs"), made.args))
    given |= {keyword.arg: keyword.value for keyword in made.keywords if keyword.arg}
    inputs, output = given.get("inputs"), given.get("outputs")
    if inputs is None or output is None or isinstance(output, (ast.List, ast.Tuple, ast.Dict)):
        return None
    return ast.unparse(inputs), output


def _begins_at(tree: ast.Module, inputs: str, whole: str) -> bool:
    """The inputs are those of the other model."""
    if inputs in [form.format(whole) for form in _INPUTS]:
        return True
    made = [
        value for statement in ast.walk(tree) for target, value in pairs_of(statement) if ast.unparse(target) == whole
    ]
    parts = _parts_of_model(made[0]) if len(made) == 1 else None
    return parts is not None and parts[0] == inputs


def _same_arguments(first: ast.Assign, second: ast.Assign) -> bool:
    calls = _call_of(first), _call_of(second)
    texts = [[ast.unparse(part) for part in (*call.args, *call.keywords)] for call in calls]
    return texts[0] == texts[1]
