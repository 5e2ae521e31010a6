"""Tensors that were made Python numbers, kept tensors."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.flow.values import Kind, Var
from tapefix.rewrite.accumulators import SyntaxFacts
from tapefix.rewrite.accumulators.syntax import syntax_of
from tapefix.rewrite.leaving.writing import replaced


def scalar(model: Model, document: Document, node: ast.expr) -> bool:
    """Surely one number, so that `float()` around it changes no shape."""
    value = model.value_of(node)
    if value is None:
        return SyntaxFacts(syntax_of(document)).rank(node) == 0
    return value.reduced or _scalar_variable(value.ref) or SyntaxFacts(syntax_of(document)).rank(node) == 0


def _scalar_variable(ref: object) -> bool:
    """Whether a Variable was made of one number."""
    call = ref.spot.node if isinstance(ref, Var) and ref.spot is not None else None
    if not isinstance(call, ast.Call) or not call.args:
        return False
    first = call.args[0].operand if isinstance(call.args[0], ast.UnaryOp) else call.args[0]
    return isinstance(first, ast.Constant) and isinstance(first.value, (int, float))


def kept(model: Model, cut: Cut) -> Fix | Refusal:
    """`float(x)` and `complex(x)` without the conversion."""
    call = cut.spot.node
    if not isinstance(call, ast.Call) or not call.args:
        return Refusal("the number is written into a text")
    document = model.document_of(cut.spot)
    if isinstance(call.func, ast.Name) and call.func.id == "map":
        return _mapped(model, document, call)
    value = call.args[0]
    message = f"keep `{document.source(value)}` a tensor"
    if cut.detail == "complex()":
        return _complex(model, document, call, message)
    if cut.detail != "float()":
        return Refusal(f"{cut.detail} makes a whole number or a truth value, which has no gradient")
    if not scalar(model, document, value):
        return replaced(document, call, "tf.reshape({value}, [])", message, value=value)
    above = syntax_of(document).parent(call)
    used_up = isinstance(above, (ast.BinOp, ast.UnaryOp, ast.Compare)) or (
        isinstance(above, ast.Call) and model.api_of(above.func).startswith(("tensorflow.", "numpy.", "math."))
    )
    if model.kind_of(value) & Kind.VARIABLE and not used_up:
        # the name must go on meaning today's value
        return replaced(document, call, "tf.convert_to_tensor({value})", message, value=value)
    return replaced(document, call, "{value}", message, value=value)


def _complex(model: Model, document: Document, call: ast.Call, message: str) -> Fix | Refusal:
    real, imag = call.args[0], call.args[1] if len(call.args) > 1 else None
    if call.keywords or len(call.args) > 2:
        return Refusal("complex() is called in an unusual way; write tf.complex(real, imag)")
    if imag is None:
        return replaced(document, call, "tf.cast({value}, tf.complex64)", message, value=real)
    if model.is_tensor(real) and model.is_tensor(imag):
        return replaced(document, call, "tf.complex({real}, {imag})", message, real=real, imag=imag)
    if model.is_tensor(real):
        template = "tf.complex({real}, tf.cast({imag}, {real}.dtype))"
    else:
        template = "tf.complex(tf.cast({real}, {imag}.dtype), {imag})"
    if not isinstance(real if model.is_tensor(real) else imag, (ast.Name, ast.Attribute)):
        return Refusal("one part is a number: give the other a name and write tf.complex(real, imag)")
    return replaced(document, call, template, message, real=real, imag=imag)


def _mapped(model: Model, document: Document, call: ast.Call) -> Fix | Refusal:
    """`map(float, values)`: the values themselves."""
    function = call.args[0]
    if not (isinstance(function, ast.Name) and function.id == "float") or len(call.args) != 2:
        return Refusal("what is mapped makes a whole number or a truth value, which has no gradient")
    values = call.args[1]
    message = f"keep the elements of `{document.source(values)}` tensors"
    if model.is_tensor(values) and not model.kind_of(values) & Kind.CONTAINER:
        return replaced(document, call, "tf.unstack({values})", message, values=values)
    return replaced(
        document, call, "iter({values})" if _called(document, call, "next") else "{values}", message, values=values
    )


def _called(document: Document, node: ast.expr, name: str) -> bool:
    above = syntax_of(document).parent(node)
    return isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id == name
