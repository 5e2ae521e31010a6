"""Methods and attributes of an array, as they are called on what has become a tensor."""

from __future__ import annotations

import ast

from tapefix.codemod import Refusal
from tapefix.rewrite.numpy_table.row import Bound, Row
from tapefix.rewrite.numpy_table.shapes import shape_text

#: methods whose arguments are those of the function of the same name, behind the array
SAME_AS_FUNCTION = (
    "sum", "mean", "prod", "max", "min", "std", "var", "ptp", "all", "any", "argmax", "argmin", "argsort",
    "cumsum", "cumprod", "round", "clip", "dot", "trace", "diagonal", "swapaxes", "squeeze", "ravel", "repeat", "take",
    "conj", "conjugate", "astype",
)  # fmt: skip


def _reshape(bound: Bound) -> str | Refusal:
    if bound.literal("order", "C") not in ("C", "K"):
        return Refusal("an element order other than rows first has no counterpart in TensorFlow")
    sizes = bound.rest[1:]
    if not sizes and bound.has("shape"):
        return f"tf.reshape({{rest0}}, {shape_text(bound.node('shape'), 'shape')})"
    if len(sizes) == 1 and not isinstance(sizes[0], ast.Starred):
        return f"tf.reshape({{rest0}}, {shape_text(sizes[0], 'rest1')})"
    if not sizes:
        return Refusal("no shape is given")
    return f"tf.reshape({{rest0}}, [{_listed(sizes)}])"


def _transpose(bound: Bound) -> str | Refusal:
    axes = bound.rest[1:]
    if not axes:
        return "tf.transpose({rest0})"
    if len(axes) == 1:
        none = isinstance(axes[0], ast.Constant) and axes[0].value is None
        return "tf.transpose({rest0})" if none else "tf.transpose({rest0}, perm={rest1})"
    return f"tf.transpose({{rest0}}, perm=[{_listed(axes)}])"


def _listed(nodes: list[ast.expr]) -> str:
    # a starred element keeps its star in a list display, where a part can't carry it
    return ", ".join(f"{{*rest{k}}}" if isinstance(n, ast.Starred) else f"{{rest{k}}}" for k, n in enumerate(nodes, 1))


def _flatten(bound: Bound) -> str | Refusal:
    if bound.literal("order", "C") not in ("C", "K"):
        return Refusal("an element order other than rows first has no counterpart in TensorFlow")
    return "tf.reshape({a}, [-1])"


def _item(bound: Bound) -> str:
    return "{a}" if bound.rank("a") == 0 else "tf.reshape({a}, [])"


ROWS: list[Row] = [
    Row("ndarray.reshape", "*sizes, order='C', shape=None, copy=None", _reshape, "tf.reshape",
        dropped=frozenset({"copy"})),
    Row("ndarray.transpose", "*axes", _transpose, "tf.transpose"),
    Row("ndarray.flatten", "a, order='C'", _flatten, "tf.reshape"),
    Row("ndarray.copy", "a, order='C'", "tf.identity({a})", "tf.identity", dropped=frozenset({"order"})),
    Row("ndarray.item", "a", _item, "tf.reshape", exactness="dtype"),
    Row("ndarray.tolist", "a", "tf.unstack({a})", "tf.unstack", exactness="dtype",
        note="a list of tensors; of an array with several dimensions the rows stay tensors"),
    Row("ndarray.compress", "a, condition, axis=0, out=None",
        "tf.boolean_mask({a}, tf.cast({condition}, tf.bool), axis=axis?)", "tf.boolean_mask"),
]  # fmt: skip

#: attribute -> template, note, differentiable
ATTRIBUTES: dict[str, tuple[str, str, bool]] = {
    "T": ("tf.transpose({a})", "tf.transpose", True),
    "mT": ("tf.linalg.matrix_transpose({a})", "tf.linalg.matrix_transpose", True),
    "real": ("tf.math.real({a})", "tf.math.real", True),
    "imag": ("tf.math.imag({a})", "tf.math.imag", True),
    "size": ("{a}.shape.num_elements()", "tf.TensorShape.num_elements", False),
    "ndim": ("{a}.shape.rank", "tf.TensorShape.rank", False),
    "shape": ("{a}.shape", "tf.Tensor.shape", False),
    "dtype": ("{a}.dtype", "tf.Tensor.dtype", False),
}
