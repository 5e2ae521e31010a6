"""`tf.numpy_function` and `tf.py_function` left out: the function is called on the tensors themselves."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.flow.objects import Bound, Function
from tapefix.rewrite.accumulators.syntax import syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.imports import with_local_names
from tapefix.rewrite.leaving.traced import Body, Tracing, parameters, reaches, tensor_names
from tapefix.rewrite.leaving.variables import may_be_variable
from tapefix.rewrite.leaving.writing import finished, put
from tapefix.rewrite.numpy_table import translate_call
from tapefix.rewrite.numpy_table.written import write

_GRADIENT = "give the function a gradient by tf.custom_gradient"
_ROLL_OUT = (
    "the function plays in Python and calls the model there; let it return states, actions and rewards, and run the "
    "model on the states under the tape"
)
_PARAMETERS = ("func", "inp", "Tout", "stateful", "name")
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
_LIBRARIES = ("numpy.", "tensorflow.", "math.", "keras.")


def called_directly(model: Model, cut: Cut) -> Fix | Refusal:
    """The call of the function itself; what its body does to the tensors is repaired in turn."""
    call = cut.spot.node
    if not isinstance(call, ast.Call) or any(isinstance(a, ast.Starred) for a in call.args):
        return Refusal("what is called can't be told; write it with TensorFlow operations")
    given: dict[str, ast.expr] = dict(zip(_PARAMETERS, call.args, strict=False))
    given |= {k.arg: k.value for k in call.keywords if k.arg}
    function, inputs, outputs = given.get("func"), given.get("inp"), given.get("Tout")
    if function is None or inputs is None:
        return Refusal("what is called can't be told; write it with TensorFlow operations")
    document = model.document_of(cut.spot)
    body = _body(model, function)
    if body is not None and not any(model.depends(one) or model.is_tensor(one) for one in _inputs(inputs)):
        return _eagerly(document, call, function, inputs) or Refusal(_ROLL_OUT)
    if body is not None and _waits(document, body, set()):
        return Refusal(f"the function repeats until a value stands still; {_GRADIENT}")
    if body is not None and (line := _changed_under_two_names(body)):
        return Refusal(f"line {line} changes an array in place that has two names; {_GRADIENT}")
    edits = EditSet(document)
    safe = body is not None and _is_plain(model, body)
    try:
        put(edits, call, _template(body, inputs, outputs), function=function, inputs=_handed(model, edits, inputs))
        if body is not None and body in syntax_of(document).order:
            traced = _may_be_traced(document, cut)
            if traced and (reason := Tracing(model, edits, body, _variables(model, body, inputs)).write()):
                return Refusal(f"{reason}; write it with TensorFlow operations, or {_GRADIENT}")
            problem = _translate(model, edits, body) if safe or traced else None
            if problem is not None:
                return problem
        elif body is not None and _may_be_traced(document, cut) and not safe:
            return Refusal(f"the function is in another file; write it with TensorFlow operations, or {_GRADIENT}")
        return finished(edits, "call the function on the tensors themselves", (_GRADIENT,), safe=safe)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _template(body: Body | None, inputs: ast.expr, outputs: ast.expr | None) -> str:
    template = "{function}({*inputs})" if isinstance(inputs, (ast.List, ast.Tuple)) else "{function}(*{inputs})"
    if isinstance(outputs, (ast.List, ast.Tuple)) and len(outputs.elts) == 1 and body is not None:
        if not all(isinstance(value, (ast.List, ast.Tuple)) for value in _returned(body)):
            return f"[{template}]"
    return template


def _handed(model: Model, edits: EditSet, inputs: ast.expr) -> str | ast.expr:
    """What the function gets: tensors where it got arrays, so that it may do with them what a Variable does not."""
    if not isinstance(inputs, (ast.List, ast.Tuple)):
        if not may_be_variable(model, inputs):
            return inputs
        tf = with_local_names(edits, "tf.convert_to_tensor", inputs)
        return f"[{tf}(one) for one in {edits.document.source(inputs)}]"
    texts = []
    for one in inputs.elts:
        inner = one.value if isinstance(one, ast.Starred) else one
        text = edits.document.source(inner)
        if may_be_variable(model, inner) or isinstance(inner, (ast.List, ast.Tuple)):
            tf = with_local_names(edits, "tf.convert_to_tensor", inner)
            text = f"map({tf}, {text})" if inner is not one else f"{tf}({text})"
        texts.append(f"*{text}" if inner is not one else text)
    return ", ".join(texts)


def _variables(model: Model, body: Body, inputs: ast.expr) -> set[str]:
    """The parameters that are handed Variables, whose shape is always known."""
    if not isinstance(inputs, (ast.List, ast.Tuple)):
        return set()
    return {name for name, one in zip(parameters(body), inputs.elts, strict=False) if may_be_variable(model, one)}


def _changed_under_two_names(body: Body) -> int:
    """The line where an array that has a second name is changed in place: a tensor would not change; 0 if none."""
    pairs = [
        (target.id, base.id)
        for node in ast.walk(body)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(base := _viewed(node.value), ast.Name)
    ]
    shared = {name for pair in pairs for name in pair}
    for node in ast.walk(body):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in shared:
            return node.lineno
    return 0


def _viewed(node: ast.expr) -> ast.expr:
    """The array that an expression is a view of, or the expression."""
    while isinstance(node, ast.Attribute) and node.attr == "T":
        node = node.value
    if isinstance(node, ast.Subscript) and any(isinstance(n, ast.Slice) for n in ast.walk(node.slice)):
        return _viewed(node.value)
    return node


def _eagerly(document: Document, call: ast.Call, function: ast.expr, inputs: ast.expr) -> Fix | None:
    """A roll-out called directly from a function that is no longer compiled, so that the tape records it."""
    syntax = syntax_of(document)
    around = syntax.function(call)
    compiled = [d for d in getattr(around, "decorator_list", ()) if ast.unparse(d).startswith("tf.function")]
    others = document.text.count("tf.function") + document.text.count(".fit(")
    if len(compiled) != others or others > 1 or not isinstance(inputs, (ast.List, ast.Tuple)):
        return None
    edits = EditSet(document)
    for decorator in compiled:
        if decorator.lineno != decorator.end_lineno:
            return None
        edits.replace_span(document.offset(decorator.lineno, 0), document.offset(decorator.lineno + 1, 0), "")
    text = ", ".join(document.source(one) for one in inputs.elts)
    put(edits, call, "{function}({*inputs})", function=function, inputs=text)
    message = "play under the tape, in a function that is not compiled"
    return finished(edits, message, (_ROLL_OUT,), safe=False)


def _inputs(inputs: ast.expr) -> list[ast.expr]:
    return inputs.elts if isinstance(inputs, (ast.List, ast.Tuple)) else [inputs]


def _body(model: Model, function: ast.expr) -> Body | None:
    """The one function of the program that is called."""
    value = model.value_of(function)
    refs = value.refs if value is not None else []
    found = [ref.function.ref if isinstance(ref, Bound) else ref for ref in refs]
    nodes = [ref.node for ref in found if isinstance(ref, Function)]
    if len(nodes) == 1 and isinstance(nodes[0], (ast.FunctionDef, ast.Lambda)):
        return nodes[0]
    return function if isinstance(function, ast.Lambda) else None


def _returned(body: Body) -> list[ast.expr]:
    if isinstance(body, ast.Lambda):
        return [body.body]
    return [n.value for n in ast.walk(body) if isinstance(n, ast.Return) and n.value is not None]


def _may_be_traced(document: Document, cut: Cut) -> bool:
    """Whether the place may run in a graph: in a layer's call, a compiled loss, or what tf.function calls."""
    syntax = syntax_of(document)
    around = [cut.spot.node, *syntax.ancestors(cut.spot.node)]
    if any(isinstance(node, ast.FunctionDef) and node.name in ("call", "train_step") for node in around):
        return "tf.function" in document.text or ".fit(" in document.text
    return "tf.function" in document.text or (".fit(" in document.text and "run_eagerly=True" not in document.text)


def _waits(document: Document, body: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether the body, or a function of the file that it calls, has a `while` loop."""
    seen.add(body)
    called = {n.func.id for n in ast.walk(body) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    inner = [
        n for n in ast.walk(document.tree) if isinstance(n, ast.FunctionDef) and n.name in called and n not in seen
    ]
    names = tensor_names(body) if isinstance(body, Body) else set()
    waits = any(isinstance(n, ast.While) and reaches(n.test, names) for n in ast.walk(body))
    return waits or any(_waits(document, n, seen) for n in inner)


def _translate(model: Model, edits: EditSet, body: Body) -> Refusal | None:
    """Every NumPy call on what comes from the parameters, said in TensorFlow: a graph takes no other."""
    tensors = tensor_names(body)
    for node in ast.walk(body):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr == "numpy" and reaches(node.func.value, tensors):
            put(edits, node, "{value}", value=node.func.value)
        if not model.api_of(node.func).startswith(("numpy.", "math.")):
            continue
        reached = [one for one in _inputs_of(node) if reaches(one, tensors)]
        if not reached:
            continue
        rewrite = translate_call(edits.document, node, model.api_of(node.func), reached)
        problem = rewrite if isinstance(rewrite, Refusal) else write(edits, node, rewrite)
        if problem is not None:
            return problem
    return None


def _inputs_of(call: ast.Call) -> list[ast.expr]:
    every = [*call.args, *(k.value for k in call.keywords)]
    return [e for one in every for e in (one.elts if isinstance(one, (ast.List, ast.Tuple)) else [one])]


def _is_plain(model: Model, body: Body) -> bool:
    """Whether the body only computes: no control flow, no calls but those of the array libraries and of arrays."""
    if isinstance(body, ast.Lambda):
        statements: list[ast.stmt] = []
    else:
        statements = body.body
    if not all(isinstance(statement, _SIMPLE) for statement in statements):
        return False
    for node in ast.walk(body):
        if isinstance(node, ast.Call):
            name = model.api_of(node.func)
            method = isinstance(node.func, ast.Attribute) and not name
            builtin = isinstance(node.func, ast.Name) and node.func.id in ("len", "sum", "abs", "float", "max", "min")
            if not (name.startswith(_LIBRARIES) or method or builtin):
                return False
    return True
