"""Finds the buffers of a program by name, as the flow model would, so that the ladder can be tested alone."""

from __future__ import annotations

import ast

from tapefix.documents.document import Document
from tapefix.flow.facts import Buffer, Role, Spot, Use
from tapefix.rewrite.accumulators import Plan, Refusal, plan
from tapefix.rewrite.accumulators.access import Write, uses_of
from tapefix.rewrite.accumulators.syntax import dotted, syntax_of

MAKERS = {"zeros", "empty", "ones", "full", "zeros_like", "ones_like", "full_like", "empty_like"}


def buffers(document: Document) -> list[Buffer]:
    """Each `name = np.zeros(...)` and `name = tf.Variable(...)` that is written in place, with all uses of that name
    in its function (of an attribute: in the whole document)."""
    syntax = syntax_of(document)
    found = []
    for node in ast.walk(document.tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func) or ""
        last = name.split(".")[-1]
        if name.startswith("np.") and last in MAKERS:
            maker = "numpy"
        elif last == "Variable":
            maker = "variable"
        else:
            continue
        made = node
        if isinstance(syntax.parent(node), ast.Attribute) and syntax.parent(node).attr == "astype":
            made = syntax.parent(syntax.parent(node))
        target = _target(made, syntax)
        if target is None:
            continue
        buffer = Buffer(maker, Spot(document.filename, made, syntax.function(node)))
        scope = (syntax.function(node) or document.tree) if isinstance(target, ast.Name) else document.tree
        for other in ast.walk(scope):
            if isinstance(other, ast.Name | ast.Attribute) and other is not target and _same(other, target):
                statement = syntax.statement(other)
                if isinstance(other.ctx, ast.Store) and _rebinding(statement, other):
                    continue
                spot = Spot(document.filename, other, syntax.function(other))
                buffer.add(Use(Role.READ, spot, statement, True))
        _follow_arguments(document, buffer)
        if any(isinstance(use, Write) for use in uses_of(buffer, syntax)) or _wraps_tensor(document, node):
            found.append(buffer)
    return found


def _follow_arguments(document: Document, buffer: Buffer) -> None:
    """Adds the uses by a parameter's name in functions that get the buffer as an argument."""
    syntax = syntax_of(document)
    functions = {f.name: f for f in ast.walk(document.tree) if isinstance(f, ast.FunctionDef)}
    for use in list(buffer.uses):
        call = syntax.parent(use.spot.node)
        if not isinstance(call, ast.Call) or use.spot.node not in call.args:
            continue
        function = functions.get((dotted(call.func) or "").split(".")[-1])
        if function is None:
            continue
        names = [a.arg for a in function.args.args]
        name = names[call.args.index(use.spot.node) + (names[:1] == ["self"])]
        for other in ast.walk(function):
            if isinstance(other, ast.Name) and other.id == name:
                buffer.add(Use(Role.READ, Spot(document.filename, other, function), syntax.statement(other), True))


def _wraps_tensor(document: Document, node: ast.Call) -> bool:
    """`tf.Variable(...)` of more than numbers, inside a function."""
    inner = ast.unparse(node.args[0]) if node.args else ""
    inside = syntax_of(document).function(node) is not None
    return (
        inside
        and (dotted(node.func) or "").endswith("Variable")
        and ("tf." in inner or "x[" in inner)
        and "zeros" not in inner
    )


def _target(made: ast.Call, syntax) -> ast.expr | None:
    match syntax.parent(made):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return target
        case ast.Tuple(elts=elts) as whole:
            match syntax.parent(whole):
                case ast.Assign(targets=[ast.Tuple(elts=targets)]):
                    return targets[elts.index(made)]
    return None


def _same(a: ast.expr, b: ast.expr) -> bool:
    if isinstance(b, ast.Attribute):
        return isinstance(a, ast.Attribute) and a.attr == b.attr
    return dotted(a) == dotted(b)


def _rebinding(statement: ast.stmt, name: ast.expr) -> bool:
    return (
        isinstance(statement, ast.Assign) and name in statement.targets and ".assign(" in ast.unparse(statement.value)
    )


def planned(text: str, filename: str = "program.py") -> list[tuple[Buffer, Plan | Refusal]]:
    document = Document(filename, text.encode())
    return [(buffer, plan(document, buffer)) for buffer in buffers(document)]


def rewritten(text: str) -> tuple[str, list[Refusal]]:
    """The program after one plan after the other, read again each time, and the refusals that are left."""
    for _ in range(12):
        document = Document("program.py", text.encode())
        refusals = []
        for buffer in buffers(document):
            outcome = plan(document, buffer)
            if isinstance(outcome, Plan):
                text = document.apply(outcome.edits).text
                break
            refusals.append(outcome)
        else:
            return text, refusals
    raise AssertionError("no end after 12 rewrites")
