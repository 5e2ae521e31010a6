"""A Variable's name is given a tensor.

`w = w - rate * g` makes a new tensor and calls it `w`. The next tape does not watch a tensor, so that its gradient is
None from the second step on.

Before
------
    g = tape.gradient(loss, w)
    w = w - rate * g

After
-----
    g = tape.gradient(loss, w)
    w.assign_sub(rate * g)

Fix
---
Safe: the Variable is given the same value in place. Unsafe where the old value is kept under another name or in a
list, which would then change with it. Steps under an outer tape, and tensors that the tape watches, are left alone.

See https://www.tensorflow.org/guide/variable#creating_a_variable
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal, short
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.flow.objects import Mapping, Sequence
from tapefix.flow.values import Kind, Value
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished
from tapefix.rewrite.names import Scope, Scopes, fresh
from tapefix.rewrite.said import same

_IN_PLACE = {ast.Sub: "assign_sub", ast.Add: "assign_add"}
_SIGNS = {ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_KEEPING = frozenset({"append", "add", "insert", "extend", "appendleft"})


class VariableRebound(Codemod):
    code = "TAP601"
    name = "variable-rebound"
    speaks_for: ClassVar = frozenset({How.REBOUND})
    why = "the name stands for a tensor from here on, and the next tape does not watch a tensor"

    def message(self, model: Model, cut: Cut) -> str:
        return f"`{short(model, cut)}` puts a tensor in the place of a Variable"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        document, statement = model.document_of(cut.spot), cut.spot.node
        if not isinstance(statement, (ast.Assign, ast.AugAssign)):
            return Refusal("what is given a tensor can't be told; assign to the Variable in place")
        steps = list(steps_of(statement))
        if not steps:
            return Refusal("several targets are given one value; assign to each Variable in place")
        if any(reads(later.value, step.target) for i, step in enumerate(steps) for later in steps[i + 1 :]):
            return Refusal("a later value is computed from an earlier one; assign to each Variable in place")
        edits = EditSet(document)
        try:
            for step in steps:
                template, parts = written(model, edits, step)
                edits.insert_before(statement, template, **parts)
            edits.delete_statement(statement)
            kept = any(is_kept(document, statement, step.target) for step in steps)
            return finished(edits, "assign to the Variable in place", safe=not kept)
        except EditConflict as conflict:
            return Refusal(str(conflict))


@dataclass(frozen=True)
class Step:
    """One target that is given one value; `sign` where it is an augmented assignment."""

    target: ast.expr
    value: ast.expr
    sign: ast.operator | None = None


def steps_of(statement: ast.Assign | ast.AugAssign) -> Iterator[Step]:
    """What is given what; nothing where that is not one to one."""
    if isinstance(statement, ast.AugAssign):
        yield Step(statement.target, statement.value, statement.op)
        return
    if len(statement.targets) != 1:
        return
    target, value = statement.targets[0], statement.value
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield Step(target, value)
    elif isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
        pairs = list(zip(target.elts, value.elts))
        if all(reads(item, one) for one, item in pairs):
            yield from (Step(one, item) for one, item in pairs)


def reads(value: ast.expr, target: ast.expr) -> bool:
    return any(same(node, target) for node in ast.walk(value))


def written(model: Model, edits: EditSet, step: Step) -> tuple[str, dict[str, ast.AST | str]]:
    """The step in place, as a template with its parts."""
    target, value = step.target, step.value
    if step.sign is not None:
        method = _IN_PLACE.get(type(step.sign))
        if method is not None:
            return "{target}." + method + "({value})", {"target": target, "value": value}
        sign = _SIGNS.get(type(step.sign), "-")
        return "{target}.assign({target} " + sign + " ({value}))", {"target": target, "value": value}
    if model.kind_of(value) & Kind.CONTAINER:
        return written_all(model, edits, step)
    found = difference_of(value, target)
    if found is not None:
        return "{target}." + found[0] + "({change})", {"target": target, "change": found[1]}
    return "{target}.assign({value})", {"target": target, "value": value}


def difference_of(value: ast.expr, target: ast.expr) -> tuple[str, ast.expr] | None:
    """`target - change` or `target + change`: the method and the change."""
    if not isinstance(value, ast.BinOp) or type(value.op) not in _IN_PLACE:
        return None
    if same(value.left, target):
        return _IN_PLACE[type(value.op)], value.right
    if isinstance(value.op, ast.Add) and same(value.right, target):
        return "assign_add", value.left
    return None


def written_all(model: Model, edits: EditSet, step: Step) -> tuple[str, dict[str, ast.AST | str]]:
    """A list of Variables, each in place."""
    value = step.value
    if isinstance(value, (ast.ListComp, ast.DictComp)) and len(value.generators) == 1 and not value.generators[0].ifs:
        loop = value.generators[0]
        made = value.value if isinstance(value, ast.DictComp) else value.elt
        for name in (n for n in ast.walk(loop.target) if isinstance(n, ast.Name)):
            found = difference_of(made, name)
            if found is not None and not reads(found[1], name):
                template = "for {names} in {all}:\n    {one}." + found[0] + "({change})"
                return template, {
                    "names": bare(edits, loop.target),
                    "all": loop.iter,
                    "one": name.id,
                    "change": found[1],
                }
    new = fresh(edits, step.target, "value")
    known = model.value_of(value)
    refs = known.refs if known is not None else []
    if any(isinstance(part.ref, (Sequence, Mapping)) for ref in refs for part in items_of(ref)):
        raise EditConflict("the Variables are in containers within a container; assign to each of them in place")
    if refs and all(isinstance(ref, Mapping) for ref in refs):
        template = "for {name}, {new} in {value}.items():\n    {target}[{name}].assign({new})"
        key = fresh(edits, step.target, "name")
        return template, {"name": key, "new": new, "target": step.target, "value": value}
    if any(isinstance(ref, Mapping) for ref in refs):
        raise EditConflict("a list or a dict takes their place; assign to each Variable in place")
    template = "for {one}, {new} in zip({target}, {value}):\n    {one}.assign({new})"
    return template, {"one": fresh(edits, step.target, "variable"), "new": new, "target": step.target, "value": value}


def items_of(ref: object) -> Iterator[Value]:
    """What a list or dict holds."""
    if isinstance(ref, (Sequence, Mapping)):
        yield from (ref.items or []) if isinstance(ref, Sequence) else ref.items.values()
        if ref.rest is not None:
            yield ref.rest


def bare(edits: EditSet, target: ast.expr) -> str:
    text = edits.document.source(target)
    return text[1:-1] if isinstance(target, ast.Tuple) and text.startswith("(") else text


def is_same_name(document: Document, scope: Scope, node: ast.Name) -> bool:
    """Whether a name means elsewhere what it means in a scope."""
    return Scopes.of(document).around(document, node).resolve(node.id) is scope.resolve(node.id)


def is_kept(document: Document, statement: ast.stmt, target: ast.expr) -> bool:
    """The old value is bound to another name as it is, or put into a list."""
    layout = Layout.of(document)
    scope = Scopes.of(document).around(document, statement)
    for node in ast.walk(document.tree):
        if not same(node, target) or not isinstance(getattr(node, "ctx", None), ast.Load):
            continue
        if isinstance(node, ast.Name) and not is_same_name(document, scope, node):
            continue
        above = layout.parent(node)
        if isinstance(above, ast.Assign) and above.value is node:
            if not any(isinstance(one, (ast.Tuple, ast.List)) for one in above.targets):
                return True
        if isinstance(above, ast.Call) and isinstance(above.func, ast.Attribute) and node in above.args:
            if above.func.attr in _KEEPING:
                return True
    return False
