"""Variables where a program expects arrays: what a Variable can't do, a tensor made of it can."""

from __future__ import annotations

import ast

from tapefix.flow import Model
from tapefix.flow.values import Kind, Var
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.leaving.writing import put


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


def converted(model: Model, edits: EditSet, nodes: list[ast.expr]) -> None:
    """Each Keras weight among the elements of the lists that are given becomes a tensor."""
    for node in nodes:
        if isinstance(node, (ast.List, ast.Tuple)):
            converted(model, edits, node.elts)
            for element in node.elts:
                if may_be_keras_weight(model, element):
                    put(edits, element, "tf.convert_to_tensor({value})", value=element)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)) and may_be_keras_weight(model, node.elt):
            put(edits, node.elt, "tf.convert_to_tensor({value})", value=node.elt)
