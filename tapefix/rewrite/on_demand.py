"""Tables that a constructor computes once from Variables, computed when they are asked for: properties."""

from __future__ import annotations

import ast

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.flow.objects import Function, Instance
from tapefix.flow.targets import CONSTRUCTORS
from tapefix.flow.values import Kind
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.makers import makes_variables

_MESSAGE = "compute `{names}` from the Variables each time it is asked for, in a property"
_CHOICES = ("compute it in the method that uses it, once per step",)
_KEEPERS = frozenset({"identity", "convert_to_tensor", "stop_gradient", "constant", "value", "read_value", "copy"})
_DRAWS = ("random", "shuffle", "dropout", "next", "sample")


def computed_on_demand(model: Model, cut: Cut) -> Fix | Refusal:
    """Each attribute that the constructor makes of Variables becomes a property.

    For an object that is built before the tape. The values are those of the Variables at the time of reading: what
    they were, until the first update.
    """
    found = _constructor(model, cut)
    if found is None:
        return Refusal("no constructor of one class is called here")
    document, constructor = found
    syntax = syntax_of(document)
    self_name = constructor.args.args[0].arg if constructor.args.args else ""
    tables = [table for one in constructor.body if (table := _table(model, one, self_name)) is not None]
    if not tables:
        return Refusal(
            f"line {cut.spot.node.lineno} computes from Variables once, when the object is made; compute it in the "
            "method that uses it"
            if made_with_the_object(cut) and hasattr(cut.spot.node, "lineno")
            else "the constructor keeps nothing that it computes from Variables"
        )
    for target, statement in tables:
        problem = _why_not(model, syntax, constructor, target, statement)
        if problem:
            return Refusal(f"line {statement.lineno}: {problem}; compute `{ast.unparse(target)}` when it is asked for")
    edits = EditSet(document)
    try:
        text = ""
        for target, statement in tables:
            value = _moved_left(document.source(statement.value), edits.layout.indent(statement))
            text += f"\n@property\ndef {target.attr}({self_name}):\n    return {value}\n"
            edits.delete_statement(statement)
        edits.insert_after(constructor, text)
        names = ", ".join(target.attr for target, _ in tables)
        return Fix(Applicability.UNSAFE, _MESSAGE.format(names=names), edits.edits(), _CHOICES)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def made_with_the_object(cut: Cut) -> bool:
    """Whether a constructor computes at the cut, not what calls it."""
    return getattr(cut.spot.function, "name", "") in CONSTRUCTORS


def _moved_left(text: str, indent: str) -> str:
    """An expression's text with its further lines as they stand in a body of one level."""
    first, *rest = text.split("\n")
    return "\n".join([first, *("    " + line.removeprefix(indent) for line in rest)])


def _constructor(model: Model, cut: Cut) -> tuple[Document, ast.FunctionDef] | None:
    """The constructor, written in the program, that has the cut, or that of the one object which is made there."""
    if made_with_the_object(cut) and isinstance(cut.spot.function, ast.FunctionDef):
        return model.document_of(cut.spot), cut.spot.function
    own = _constructor_that_calls(syntax_of(model.document_of(cut.spot)), cut.spot.function)
    if own is not None:
        return model.document_of(cut.spot), own
    found: set[tuple[str, ast.FunctionDef]] = set()
    for node in ast.walk(cut.spot.node):
        value = model.value_of(node) if isinstance(node, ast.Call) else None
        for ref in value.refs if value is not None else []:
            method = ref.cls.find("__init__") if isinstance(ref, Instance) and ref.cls is not None else None
            function = method[1].ref if method is not None else None
            if isinstance(function, Function) and isinstance(function.node, ast.FunctionDef):
                found.add((function.scope.module.document.filename, function.node))
    if len(found) != 1:
        return None
    filename, constructor = found.pop()
    document = model.documents.get(filename, model.document)
    return (document, constructor) if constructor in syntax_of(document).order else None


def _constructor_that_calls(syntax: Syntax, method: ast.AST | None) -> ast.FunctionDef | None:
    """The constructor of the method's class, if the method is called there and nowhere else."""
    owner = syntax.parent(method) if isinstance(method, ast.FunctionDef) else None
    if not isinstance(method, ast.FunctionDef) or not isinstance(owner, ast.ClassDef):
        return None
    uses = [n for n in syntax.order if isinstance(n, ast.Attribute) and n.attr == method.name]
    constructors = {syntax.function(use) for use in uses}
    constructor = constructors.pop() if len(constructors) == 1 else None
    if not isinstance(constructor, ast.FunctionDef) or constructor.name not in CONSTRUCTORS:
        return None
    return constructor if constructor in owner.body else None


def _table(model: Model, statement: ast.stmt, self_name: str) -> tuple[ast.Attribute, ast.Assign] | None:
    """`self.table = tf.nn.softmax(self.logits)`: an attribute with a value that depends on Variables."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not (isinstance(target, ast.Attribute) and ast.unparse(target.value) == self_name):
        return None
    value = model.value_of(statement.value)
    made = value is not None and bool(value.live or value.lost) and value.kind == Kind.TENSOR
    return (target, statement) if made and not _is_snapshot(statement.value) else None


def _is_snapshot(value: ast.expr) -> bool:
    """Whether the value of a Variable is kept as it is at that time: an anchor, a start."""
    if not isinstance(value, ast.Call):
        return not isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Subscript))
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return name in _KEEPERS


def _why_not(
    model: Model, syntax: Syntax, constructor: ast.FunctionDef, target: ast.Attribute, statement: ast.Assign
) -> str:
    """Why the attribute can't be a property; "" if it can."""
    if makes_variables(model, statement.value) is not None:
        return "Variables are made there"
    local = {n.id for n in ast.walk(constructor) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= {a.arg for a in ast.walk(constructor.args) if isinstance(a, ast.arg)} - {ast.unparse(target.value)}
    for node in ast.walk(statement.value):
        if isinstance(node, ast.Name) and node.id in local:
            return f"it needs `{node.id}`, which only the constructor has"
        if isinstance(node, ast.Call) and any(word in ast.unparse(node.func).lower() for word in _DRAWS):
            return "it draws at random"
        if isinstance(node, (ast.Lambda, ast.Await, ast.NamedExpr)):
            return "it does more than compute"
    stores = [
        n
        for n in syntax.order
        if isinstance(n, ast.Attribute) and n.attr == target.attr and not isinstance(n.ctx, ast.Load)
    ]
    if stores != [target]:
        return f"`{target.attr}` is set in other places too"
    if any(isinstance(n, ast.Name) and n.id in ("setattr", "vars", "__dict__") for n in syntax.order):
        return "attributes are set by name in this file"
    return ""
