"""Variables where a program expects arrays: what a Variable can't do, a tensor made of it can."""

from __future__ import annotations

import ast
import re

from tapefix.flow import Model
from tapefix.flow.values import Kind, Var
from tapefix.rewrite.accumulators.syntax import Syntax
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.leaving.writing import put
from tapefix.rewrite.numpy_table.row import Rewrite


def may_be_variable(model: Model, node: ast.expr) -> bool:
    """Whether the expression may be a Variable, or a list with one in it."""
    return bool(model.kind_of(node) & Kind.VARIABLE)


def may_be_keras_weight(model: Model, node: ast.expr) -> bool:
    """Whether the expression may be a weight of Keras 3, which TensorFlow does not take within a list."""
    value = model.value_of(node)
    if value is None or not value.kind & Kind.VARIABLE:
        return False
    return not value.refs or not all(isinstance(ref, Var) and _by_tensorflow(ref) for ref in value.refs)


def _by_tensorflow(variable: Var) -> bool:
    made = variable.spot.node if variable.spot is not None else None
    name = made.func if isinstance(made, ast.Call) else None
    return isinstance(name, (ast.Name, ast.Attribute)) and not ast.unparse(name).endswith("add_weight")


def only_computed_with(model: Model, syntax: Syntax, names: set[str], scope: ast.AST) -> bool:
    """Whether the names are only read as operands and as arguments of the array libraries: a Variable will do."""
    return all(
        _is_operand(model, syntax, node)
        for node in ast.walk(scope)
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
    )


def _is_operand(model: Model, syntax: Syntax, node: ast.Name) -> bool:
    above = syntax.parent(node)
    if isinstance(above, ast.BinOp):
        return True
    if isinstance(above, ast.Call) and node in above.args:
        return model.api_of(above.func).startswith(("tensorflow.", "numpy.", "keras."))
    return False


def converted(model: Model, edits: EditSet, rewrite: Rewrite) -> None:
    """The Keras weights among a translated call's parts become tensors where TensorFlow does not take them:
    in lists, and where their type is asked for its limits.
    """
    for name, part in rewrite.parts.items():
        limits = re.search(rf"\{{{name}\}}\.dtype\.\w", rewrite.template)
        if limits and may_be_keras_weight(model, part):
            _convert(edits, part)
        else:
            _convert_elements(model, edits, part)


def _convert_elements(model: Model, edits: EditSet, node: ast.expr) -> None:
    if isinstance(node, (ast.List, ast.Tuple)):
        for element in node.elts:
            _convert_elements(model, edits, element)
            if may_be_keras_weight(model, element):
                _convert(edits, element)
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp)) and may_be_keras_weight(model, node.elt):
        _convert(edits, node.elt)


def _convert(edits: EditSet, node: ast.expr) -> None:
    put(edits, node, "tf.convert_to_tensor({value})", value=node)
