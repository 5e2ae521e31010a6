"""`a[mask] = value` on what became a tensor, said as a choice for each element."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Model
from tapefix.flow.values import Kind
from tapefix.rewrite.accumulators.syntax import Syntax, same_expression, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.imports import with_local_names
from tapefix.rewrite.leaving.writing import finished

_REFUSAL = "a tensor's elements cannot be assigned; build the value from its parts"
_SIGNS = {ast.Mult: "*", ast.Add: "+", ast.Sub: "-", ast.Div: "/"}
#: functions whose result has the shape of their arguments, as far as masks are made of them
_ELEMENTWISE = frozenset(
    "abs fabs absolute square sqrt exp log isnan is_nan isfinite is_finite isinf is_inf "
    "logical_and logical_or logical_not greater greater_equal less less_equal equal not_equal cast sign".split()
)
#: of these, what has a finite derivative for every argument: `tf.where` differentiates both of its branches
_SMOOTH = frozenset({"abs", "fabs", "absolute", "square", "tanh", "sin", "cos"})
_VIEWS = frozenset({"ravel", "reshape", "view", "transpose", "squeeze", "swapaxes"})


def masked(model: Model, document: Document, target: ast.AST) -> Fix | Refusal:
    """The assignment as `a = tf.where(mask, value, a)`.

    The mask must be made of `a` element by element: NumPy takes no larger one, so it has the shape of `a`, and the
    choice is that of the assignment. What is assigned may be made of numbers and of elements under the same mask.
    """
    syntax = syntax_of(document)
    statement = syntax.parent(target)
    if not (isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)):
        return Refusal(_REFUSAL)
    if not (
        isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.Assign) and len(statement.targets) == 1)
    ):
        return Refusal(_REFUSAL)
    name, mask = target.value.id, target.slice
    if _is_shared(syntax, target.value):
        return Refusal(_REFUSAL)
    alike = set(_elements_of(_definition(syntax, mask, name)))
    if name not in alike:
        return Refusal(_REFUSAL)
    value = _Whole(model, mask, alike)
    if not value.takes(statement.value):
        return Refusal(_REFUSAL)
    changed = document.source(statement.value)
    for part in sorted(value.parts, key=lambda n: document.span(n)[0], reverse=True):
        start, end = (at - document.span(statement.value)[0] for at in document.span(part))
        changed = changed[:start] + document.source(part.value) + changed[end:]
    return _written(document, statement, name, mask, changed, number=not value.parts)


def _written(
    document: Document, statement: ast.Assign | ast.AugAssign, name: str, mask: ast.expr, changed: str, number: bool
) -> Fix | Refusal:
    if isinstance(statement, ast.AugAssign):
        if type(statement.op) not in _SIGNS or (isinstance(statement.op, ast.Div) and not number):
            return Refusal(_REFUSAL)
        if isinstance(statement.value, (ast.BinOp, ast.UnaryOp)):
            changed = f"({changed})"
        changed = f"{name} {_SIGNS[type(statement.op)]} {changed}"
    edits = EditSet(document)
    try:
        if number and isinstance(statement, ast.Assign):
            changed = f"tf.cast({changed}, {name}.dtype)"
        text = f"{name} = tf.where({document.source(mask)}, {changed}, {name})"
        edits.replace_statement(statement, with_local_names(edits, text, statement, statement=True))
        return finished(edits, "choose for each element")
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _is_shared(syntax: Syntax, name: ast.Name) -> bool:
    """Whether something else sees the array change: another name for it, or the caller of a function it is given to."""
    scope, bindings = syntax.visible(name.id, name)
    if scope is None:
        return True
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and syntax.before(node, name) and _is_view(node.value, name.id):
            return True
    own = [b for b in bindings if not isinstance(b, ast.arg) and syntax.before(b, name)]
    if own or not any(isinstance(b, ast.arg) for b in bindings):
        return False
    return not isinstance(scope, ast.FunctionDef) or any(
        _is_read_after(syntax, use, scope, name.id) for use in syntax.uses_named(scope.name)
    )


def _is_view(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        return _is_view(node.func.value, name) or any(_is_view(one, name) for one in node.args[:1])
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return _is_view(node.value, name)
    return isinstance(node, ast.Name) and node.id == name


def _is_read_after(syntax: Syntax, use: ast.expr, function: ast.FunctionDef, parameter: str) -> bool:
    """Whether what is handed over there as the parameter may be read once the call is done."""
    call = syntax.parent(use)
    if not isinstance(call, ast.Call) or call.func is not use or any(isinstance(a, ast.Starred) for a in call.args):
        return True
    method = isinstance(syntax.parent(function), ast.ClassDef)
    names = [a.arg for a in function.args.args][1 if method else 0 :]
    given = dict(zip(names, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    value = given.get(parameter)
    if isinstance(value, ast.Name):
        scope = syntax.scope(call)
        loads = (n for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        return any(n.id == value.id and n is not value and syntax.before(call, n) for n in loads)
    return not isinstance(value, (ast.Call, ast.BinOp, ast.UnaryOp))


def _definition(syntax: Syntax, mask: ast.expr, name: str) -> ast.expr:
    """What a mask's name stands for, if it is bound once, before in the same block; else the mask itself."""
    if not isinstance(mask, ast.Name):
        return mask
    scope, bindings = syntax.visible(mask.id, mask)
    made = syntax.statement(bindings[0]) if len(bindings) == 1 else None
    here = syntax.statement(mask)
    if scope is None or not isinstance(made, ast.Assign) or len(made.targets) != 1 or here not in syntax.block(made):
        return mask
    between = (b for b in syntax.bindings(name, scope) if syntax.before(made, b) and syntax.before(b, here))
    return mask if any(between) or not syntax.before(made, here) else made.value


def _elements_of(node: ast.expr) -> Iterator[str]:
    """The names whose elements the expression is made of, one by one."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Compare):
        for part in (node.left, *node.comparators):
            yield from _elements_of(part)
    elif isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
        yield from _elements_of(node.left)
        yield from _elements_of(node.right)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        yield from _elements_of(node.operand)
    elif isinstance(node, ast.Call) and _last_name(node.func) in _ELEMENTWISE and not node.keywords:
        for part in node.args:
            yield from _elements_of(part)


class _Whole:
    """Whether an expression over elements under a mask can be computed for all elements. Collects those elements."""

    def __init__(self, model: Model, mask: ast.expr, alike: set[str]):
        self.model, self.mask, self.alike = model, mask, alike
        self.parts: list[ast.Subscript] = []

    def takes(self, node: ast.expr) -> bool:
        if self.is_number(node):
            return True
        if isinstance(node, ast.Subscript):
            fits = isinstance(node.value, ast.Name) and node.value.id in self.alike
            if fits and same_expression(node.slice, self.mask):
                self.parts.append(node)
                return True
            return False
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, (ast.USub, ast.UAdd)) and self.takes(node.operand)
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Div):
                return self.takes(node.left) and self.is_number(node.right)
            if isinstance(node.op, ast.Pow):
                power = node.right.value if isinstance(node.right, ast.Constant) else 0
                return isinstance(power, int) and power >= 1 and self.takes(node.left)
            return (
                isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) and self.takes(node.left) and self.takes(node.right)
            )
        if isinstance(node, ast.Call):
            return (
                _last_name(node.func) in _SMOOTH
                and len(node.args) == 1
                and not node.keywords
                and self.takes(node.args[0])
            )
        return False

    def is_number(self, node: ast.expr) -> bool:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return self.is_number(node.operand)
        if isinstance(node, ast.Constant):
            return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        return isinstance(node, (ast.Name, ast.Attribute)) and self.model.kind_of(node) == Kind.NUMBER


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
