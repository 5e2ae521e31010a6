"""The correspondence from NumPy, `math`, SciPy and `statistics` to TensorFlow functions with the same meaning.

`translate_call` and `translate_attribute` know syntax alone: the caller tells which arguments are tensors.
Every row is tested against NumPy for its value, its type and, by a directional derivative, its gradient.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Collection, Mapping

from tapefix.codemod import Refusal
from tapefix.documents.document import Document
from tapefix.rewrite.numpy_table import elementwise, joining, linear, methods, reductions, scientific, shapes, ufuncs
from tapefix.rewrite.numpy_table.refused import REFUSED
from tapefix.rewrite.numpy_table.row import Rewrite, Row
from tapefix.rewrite.numpy_table.written import write

__all__ = ["REFUSED", "Refusal", "Rewrite", "Row", "rows", "translate_attribute", "translate_call", "write"]


@functools.cache
def rows() -> Mapping[str, Row]:
    """All rows by canonical name: "numpy.linalg.norm", "math.sqrt", "ndarray.mean"."""
    table: dict[str, Row] = {}
    for area in (elementwise, reductions, ufuncs, shapes, joining, linear, methods, scientific):
        for row in area.ROWS:
            if row.name in table:
                raise ValueError(f"two rows for {row.name}")
            table[row.name] = row
    for name in methods.SAME_AS_FUNCTION:
        table[f"ndarray.{name}"] = dataclasses.replace(table[f"numpy.{name}"], name=f"ndarray.{name}")
    return table


def translate_call(
    document: Document,
    call: ast.Call,
    resolved_name: str,
    tensor_args: Collection[ast.expr],
    ranks: Mapping[ast.expr, int] | None = None,
) -> Rewrite | Refusal:
    """The call in TensorFlow, or why it can't be said there.

    `resolved_name` is canonical: "numpy.mean", "numpy.linalg.norm", "math.sqrt", and "ndarray.mean" for a method
    (the array is then what the method is called on). `tensor_args` are the argument expressions (or elements of
    list arguments) that are tensors; `ranks` may tell the number of dimensions of some, for plainer code.
    """
    name = resolved_name.removesuffix("()")
    if name in REFUSED:
        return Refusal(f"{name} has no counterpart: {REFUSED[name]}")
    row = rows().get(name)
    if row is None:
        return Refusal(f"{name} is not in the table of NumPy and TensorFlow functions")
    positional = list(call.args)
    tensors = list(tensor_args)
    if name.startswith("ndarray."):
        if not isinstance(call.func, ast.Attribute):
            return Refusal(f"{name} is not called on an expression")
        positional.insert(0, call.func.value)
        tensors.append(call.func.value)
    return row.translate(positional, call.keywords, tensors, ranks or {})


def translate_attribute(node: ast.Attribute) -> Rewrite | Refusal:
    """`x.T`, `x.size`, `x.real` and the like, of an array that has become a tensor."""
    known = methods.ATTRIBUTES.get(node.attr)
    if known is None:
        return Refusal(f"the attribute `{node.attr}` of an array has no counterpart on a tensor")
    template, _, differentiable = known
    return Rewrite(template, {"a": node.value}, frozenset({"tensorflow"}), differentiable=differentiable)
