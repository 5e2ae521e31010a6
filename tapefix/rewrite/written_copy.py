"""Runs a tf.Module on computed weights by a copy of it: plain objects have no `stateless_call`.

The copy shares everything with the module but its own Variables, in whose place it holds the computed tensors. The
module is written as before, so that whoever reads it finds what was there.
"""

from __future__ import annotations

import ast

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Model
from tapefix.flow.objects import Function, Instance, Layer
from tapefix.flow.values import Var
from tapefix.rewrite import imports
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.functional_weights import WRITES, Loop
from tapefix.rewrite.names import fresh

_MESSAGE = "run a copy of the module that holds the computed weights; the module itself is written as before"
_CHOICES = (
    "write the forward pass as a function of the weights",
    "first-order: take the gradient at the written weights and apply it to the original ones",
)
_BY_HAND = "write the forward pass as a function of the weights"
_KERAS = ("Model", "Layer", "Sequential", "Functional", "Dense", "Wrapper")


def is_keras(model: Model, owner: ast.expr) -> bool:
    """Whether what is written may be a Keras model or layer: nothing else is known of it."""
    value = model.value_of(owner)
    refs = value.refs if value is not None else []
    return not refs or all(
        isinstance(ref, Layer) or (isinstance(ref, Instance) and ref.cls is not None and ref.cls.derives(*_KERAS))
        for ref in refs
    )


def copied(model: Model, document: Document, loop: Loop) -> Fix | Refusal:
    """The loop of writes computes a copy first, and what uses the module behind it uses the copy."""
    syntax = syntax_of(document)
    names = _own_variables(model, loop.model)
    if isinstance(names, Refusal):
        return names
    if not isinstance(loop.model, ast.Name) or not isinstance(loop.variables, (ast.Attribute, ast.Name)):
        return Refusal(f"the module has no plain name here; {_BY_HAND}")
    uses = _uses(syntax, loop)
    if isinstance(uses, Refusal):
        return uses
    edits = EditSet(document)
    name = fresh(edits, loop.statement, "moved")
    copy = imports.add_import(edits, "copy", "copy", loop.statement)
    assert isinstance(loop.write.func, ast.Attribute)
    zipped = ", ".join(document.source(one) for one in [loop.variables, *loop.others])
    targets = "".join(f"{name}.{one}, " for one in names)
    targets = targets.rstrip() if len(names) == 1 else targets.removesuffix(", ")
    edits.insert_before(loop.statement, f"{name} = {copy}.copy({loop.model.id})")
    edits.insert_before(
        loop.statement,
        f"{targets} = [{WRITES[loop.write.func.attr]} for {{target}} in zip({{*zipped}})]",
        target=document.source(loop.statement.target), zipped=zipped,
        variable=loop.variable.id, value=loop.write.args[0],
    )  # fmt: skip
    for use in uses:
        edits.replace(use, name)
    return Fix(Applicability.UNSAFE, _MESSAGE, edits.edits(), _CHOICES)


def _own_variables(model: Model, owner: ast.expr) -> list[str] | Refusal:
    """The attributes that hold the module's Variables, in the order of `trainable_variables`: by name."""
    value = model.value_of(owner)
    refs = value.refs if value is not None else []
    if len(refs) != 1 or not isinstance(refs[0], Instance) or refs[0].cls is None:
        return Refusal(f"what is written can't be told; {_BY_HAND}")
    cls = refs[0].cls
    if not cls.derives("Module"):
        return Refusal(f"the order of the object's Variables is its own; {_BY_HAND}")
    found = cls.find("__init__")
    constructor = found[1].ref if found is not None else None
    if not isinstance(constructor, Function) or not isinstance(constructor.node, ast.FunctionDef):
        return Refusal(f"the module's constructor is not in sight; {_BY_HAND}")
    own: list[str] = []
    for name, kept in refs[0].attrs.items():
        if not kept.refs:
            continue
        if len(kept.refs) != 1 or isinstance(kept.refs[0], (Instance, Layer)) or _holds_more(kept.refs[0]):
            return Refusal(f"`{name}` holds more than one Variable; {_BY_HAND}")
        if isinstance(kept.refs[0], Var) and kept.refs[0].trainable:
            own.append(name)
    return sorted(own) if own else Refusal(f"the module's Variables are not its own attributes; {_BY_HAND}")


def _holds_more(ref: object) -> bool:
    return type(ref).__name__ in ("Sequence", "Mapping", "Weights", "WeightOf")


def _uses(syntax: Syntax, loop: Loop) -> list[ast.expr] | Refusal:
    """The uses of the module behind the loop, up to where it is written again."""
    assert isinstance(loop.model, ast.Name)
    key, scope, end = loop.model.id, syntax.scope(loop.statement), syntax.end(loop.statement)
    again = [
        syntax.order[n]
        for n in syntax.order
        if syntax.order[n] > end
        and syntax.scope(n) is scope
        and (other := Loop.at(n, syntax)) is not None
        and ast.unparse(other.model) == key
    ]
    stop = min(again, default=len(syntax.order))
    found: list[ast.expr] = []
    for node in ast.walk(scope):
        if not (isinstance(node, ast.Name) and node.id == key and syntax.scope(node) is scope):
            continue
        above = syntax.parent(node)
        if isinstance(node.ctx, ast.Store) and syntax.order[node] > end:
            return Refusal(f"`{key}` becomes another module on line {node.lineno}; {_BY_HAND}")
        if not end < syntax.order[node] < stop or not isinstance(node.ctx, ast.Load):
            continue
        if isinstance(above, ast.Attribute) and "variables" in above.attr:
            return Refusal(f"line {node.lineno} reads the Variables after they are written; {_BY_HAND}")
        found.append(node)
    if not found:
        return Refusal(f"`{key}` is not used where its weights are written; {_BY_HAND}")
    if any(_is_used_before(syntax, key, above, loop) for above in syntax.loops(loop.statement)):
        return Refusal(f"several steps are taken; {_BY_HAND}")
    return found


def _is_used_before(syntax: Syntax, key: str, around: ast.AST, loop: Loop) -> bool:
    return any(isinstance(n, ast.Name) and n.id == key and syntax.before(n, loop.statement) for n in ast.walk(around))
