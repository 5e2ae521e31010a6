"""`tf.numpy_function` and `tf.py_function` left out: the function is called on the tensors themselves."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.flow.values import Bound, Function
from tapefix.rewrite.accumulators.syntax import syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
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
    if body is not None and (reason := _why_not_in_a_graph(document, cut, body)):
        return Refusal(f"{reason}; write it with TensorFlow operations, or {_GRADIENT}")
    template = "{function}({*inputs})" if isinstance(inputs, (ast.List, ast.Tuple)) else "{function}(*{inputs})"
    if isinstance(outputs, (ast.List, ast.Tuple)) and len(outputs.elts) == 1 and body is not None:
        if not all(isinstance(value, (ast.List, ast.Tuple)) for value in _returned(body)):
            template = f"[{template}]"
    listed = inputs.elts if isinstance(inputs, (ast.List, ast.Tuple)) else []
    text = ", ".join(document.source(one) for one in listed)
    edits = EditSet(document)
    safe = body is not None and _is_plain(model, body)
    try:
        put(edits, call, template, function=function, inputs=text if listed else inputs)
        if body is not None and safe and body in syntax_of(document).order:
            problem = _translate(model, edits, body)
            if problem is not None:
                return problem
        return finished(edits, "call the function on the tensors themselves", (_GRADIENT,), safe=safe)
    except EditConflict as conflict:
        return Refusal(str(conflict))


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


def _body(model: Model, function: ast.expr) -> ast.FunctionDef | ast.Lambda | None:
    """The one function of the program that is called."""
    value = model.value_of(function)
    refs = value.refs if value is not None else []
    found = [ref.function.ref if isinstance(ref, Bound) else ref for ref in refs]
    nodes = [ref.node for ref in found if isinstance(ref, Function)]
    if len(nodes) == 1 and isinstance(nodes[0], (ast.FunctionDef, ast.Lambda)):
        return nodes[0]
    return function if isinstance(function, ast.Lambda) else None


def _returned(body: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    if isinstance(body, ast.Lambda):
        return [body.body]
    return [n.value for n in ast.walk(body) if isinstance(n, ast.Return) and n.value is not None]


def _why_not_in_a_graph(document: Document, cut: Cut, body: ast.FunctionDef | ast.Lambda) -> str:
    """Why the body can't stand where a graph may be traced; "" if it can, or where everything is eager."""
    if not _may_be_traced(document, cut):
        return ""
    for node in ast.walk(body):
        line = f"line {getattr(node, 'lineno', body.lineno)}"
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.For, ast.Try)):
            return f"{line} decides or repeats in Python, which a graph does not do on tensors"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "bool", "print"):
            return f"{line} wants a Python number"
    return ""


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
    return any(isinstance(n, ast.While) for n in ast.walk(body)) or any(_waits(document, n, seen) for n in inner)


def _translate(model: Model, edits: EditSet, body: ast.FunctionDef | ast.Lambda) -> Refusal | None:
    """Every NumPy call on what comes from the parameters, said in TensorFlow: a graph takes no other."""
    arguments = body.args
    tensors = {a.arg for a in [*arguments.posonlyargs, *arguments.args] if a.arg != "self"}
    statements = body.body if isinstance(body, ast.FunctionDef) else []
    for _ in range(2):
        for node in (inner for statement in statements for inner in ast.walk(statement)):
            if isinstance(node, (ast.Assign, ast.AugAssign)) and _reaches(node.value, tensors):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                tensors |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    for node in ast.walk(body):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr == "numpy" and _reaches(node.func.value, tensors):
            put(edits, node, "{value}", value=node.func.value)
        if not model.api_of(node.func).startswith(("numpy.", "math.")):
            continue
        reached = [one for one in _inputs_of(node) if _reaches(one, tensors)]
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


def _reaches(node: ast.expr, names: set[str]) -> bool:
    """Whether a value of one of the names goes into the expression, not only its form."""
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "ndim", "size"):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return False
    if isinstance(node, ast.Name):
        return node.id in names
    children = (n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.expr, ast.keyword, ast.comprehension)))
    return any(_reaches(n, names) for n in children)  # type: ignore[arg-type]


def _is_plain(model: Model, body: ast.FunctionDef | ast.Lambda) -> bool:
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
