"""NumPy functions that are handed on as values: `reduce(np.matmul, parts)`, `{"tanh": np.tanh}[name]`, `f=np.exp`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Model
from tapefix.flow.objects import Api
from tapefix.rewrite import build
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.imports import with_local_names
from tapefix.rewrite.leaving.writing import finished
from tapefix.rewrite.numpy_table import translate_call

_LIBRARIES = ("numpy.", "math.")
_DIRECT = re.compile(r"(tf(?:\.\w+)+)\((\{\w+\}(?:, \{\w+\})*)\)$")
_OPERATORS = {"+": "tf.add", "-": "tf.subtract", "*": "tf.multiply", "/": "tf.divide", "**": "tf.pow"}
_OF_TWO = re.compile(r"\{x1\} (\S+) \{x2\}$")
#: functions that call what they are handed, with how many values
_CALLERS = {"functools.reduce": 2, "itertools.accumulate": 2}
_NAMES = ("a", "b", "c", "d")


def as_values(model: Model, document: Document, call: ast.Call) -> Fix | Refusal | None:
    """TensorFlow's functions in the stead of NumPy's where these are no calls; None where that is not the matter."""
    found = list(_in_arguments(model, call)) or list(_elsewhere(model, document, call))
    if not found:
        return None
    edits = EditSet(document)
    inline = all(any(reference is one for one in ast.walk(call)) for reference, _ in found)
    try:
        for reference, count in found:
            text = _function(document, reference, model.api_of(reference), count)
            if isinstance(text, Refusal):
                return text
            edits.replace(reference, with_local_names(edits, text, reference))
        names = ", ".join(dict.fromkeys(model.api_of(one).replace("numpy.", "np.") for one, _ in found))
        return finished(edits, f"hand on TensorFlow's functions in place of {names}", safe=inline)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _in_arguments(model: Model, call: ast.Call) -> Iterator[tuple[ast.expr, int]]:
    """The NumPy functions that the call is handed, each with the number of values it gets."""
    caller = model.api_of(call.func)
    if caller == "builtins.map":
        count = len(call.args) - 1
    elif caller in _CALLERS:
        count = _CALLERS[caller]
    else:
        return
    for one in [*call.args, *(k.value for k in call.keywords)]:
        if model.api_of(one).startswith(_LIBRARIES) and isinstance(one, (ast.Name, ast.Attribute)):
            yield one, count


def _elsewhere(model: Model, document: Document, call: ast.Call) -> Iterator[tuple[ast.expr, int]]:
    """The places that name the NumPy functions which the call may stand for: a dict, a default, an argument."""
    value = model.value_of(call.func)
    refs = value.refs if value is not None else []
    names = {ref.name for ref in refs if isinstance(ref, Api)}
    if not names or len(refs) != sum(isinstance(ref, Api) for ref in refs):
        return
    syntax = syntax_of(document)
    if not all(name.startswith(_LIBRARIES) for name in names) or call.keywords or _is_written(syntax, call.func):
        return
    for node in syntax.order:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            if model.api_of(node) in names and _is_written(syntax, node) and not _is_called(syntax, node):
                yield node, len(call.args)


def _is_written(syntax: Syntax, node: ast.expr) -> bool:
    """Whether the expression spells an imported function out, as `np.tanh` or `tanh` does."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    bindings = syntax.visible(node.id, node)[1]
    return bool(bindings) and all(isinstance(one, ast.alias) for one in bindings)


def _is_called(syntax: Syntax, node: ast.expr) -> bool:
    above = syntax.parent(node)
    return (isinstance(above, ast.Call) and above.func is node) or isinstance(above, ast.Attribute)


def _function(document: Document, reference: ast.expr, name: str, count: int) -> str | Refusal:
    """TensorFlow's function of that many values: its name, or a lambda where it takes more than a name."""
    if not 1 <= count <= len(_NAMES):
        return Refusal(f"{name.replace('numpy.', 'np.')} is handed on; write a function with TensorFlow and hand it on")
    values = [ast.copy_location(ast.Name(one, ast.Load()), reference) for one in _NAMES[:count]]
    call = ast.copy_location(ast.Call(reference, list(values), []), reference)
    rewrite = translate_call(document, call, name, values)
    if isinstance(rewrite, Refusal):
        return rewrite
    if not rewrite.differentiable:
        return Refusal(f"{name.replace('numpy.', 'np.')} has no gradient in TensorFlow either")
    operator = _OF_TWO.match(rewrite.template)
    if operator and operator[1] in _OPERATORS:
        return _OPERATORS[operator[1]]
    given = {part: node.id for part, node in rewrite.parts.items() if isinstance(node, ast.Name)}
    direct = _DIRECT.match(rewrite.template)
    if direct and [given.get(part.strip("{}")) for part in direct[2].split(", ")] == [v.id for v in values]:
        return direct[1]
    if len(given) != len(rewrite.parts):
        return Refusal(f"{name.replace('numpy.', 'np.')} is no single function of TensorFlow; write the call out")
    return f"lambda {', '.join(v.id for v in values)}: {build.expression(rewrite.template, **given)}"
