"""Functions that move elements about: reshape, transpose, tile, pad, take, diag; and conversions of the type."""

from __future__ import annotations

import ast

from tapefix.codemod import Refusal
from tapefix.rewrite.numpy_table.row import Bound, Row, dtype_of, is_number

_TNP = "tf.experimental.numpy."


def shape_text(node: ast.expr | None, name: str) -> str:
    """A shape argument as TensorFlow takes it: a list or tuple as it is, a number as a list of one."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return f"{{{name}}}"
    if is_number(node) or _is_dimension(node):
        return f"[{{{name}}}]"
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return f"{{{name}}}"
    if isinstance(node, ast.BinOp) and not (_is_shape(node.left) or _is_shape(node.right)):
        return f"[{{{name}}}]"
    # a name may hold a number or a tuple; a one-dimensional tensor of it is right for both
    return f"tf.reshape({{{name}}}, [-1])"


def _is_dimension(node: ast.expr | None) -> bool:
    """`x.shape[0]`, `len(x)`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("len", "int")
    return isinstance(node, ast.Subscript) and _is_shape(node.value) and not isinstance(node.slice, ast.Slice)


def _is_shape(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_shape(node.value) and isinstance(node.slice, ast.Slice)
    return isinstance(node, (ast.List, ast.Tuple)) or (isinstance(node, ast.Attribute) and node.attr == "shape")


def _row_major(bound: Bound) -> bool:
    """Whether `order=` is one that means rows first."""
    return bound.literal("order", "C") in ("C", "K")


_ORDER = Refusal("an element order other than rows first has no counterpart in TensorFlow")


def _reshape(bound: Bound) -> str | Refusal:
    if not _row_major(bound):
        return _ORDER
    name = next((n for n in ("shape", "newshape") if bound.has(n)), "")
    return f"tf.reshape({{a}}, {shape_text(bound.node(name), name)})" if name else Refusal("no shape is given")


def _ravel(bound: Bound) -> str | Refusal:
    return "tf.reshape({a}, [-1])" if _row_major(bound) else _ORDER


def _expand_dims(bound: Bound) -> str | Refusal:
    if isinstance(bound.node("axis"), (ast.Tuple, ast.List)):
        return Refusal("numpy.expand_dims with several axes has no counterpart in TensorFlow")
    return "tf.expand_dims({a}, axis={axis})"


def _pad(bound: Bound) -> str | Refusal:
    mode = bound.literal("mode", "constant")
    if mode not in ("constant", "reflect", "symmetric"):
        return Refusal(f"numpy.pad with the mode {mode!r} has no counterpart in TensorFlow")
    if bound.literal("reflect_type", "even") != "even":
        return Refusal("numpy.pad with `reflect_type=` has no counterpart in TensorFlow")
    pairs = bound.node("pad_width")
    if not (
        isinstance(pairs, (ast.List, ast.Tuple)) and pairs.elts
        and all(isinstance(one, (ast.List, ast.Tuple)) and len(one.elts) == 2 for one in pairs.elts)
    ):  # fmt: skip
        return Refusal("TensorFlow pads by one pair per axis; here `pad_width` is not written out as pairs")
    rank = bound.rank("array")
    if len(pairs.elts) == 1 and rank != 1:
        return Refusal("one pair of `pad_width` for all axes: TensorFlow wants a pair for each")
    if bound.has("constant_values") and not is_number(bound.node("constant_values")):
        return Refusal("numpy.pad with several `constant_values` has no counterpart in TensorFlow")
    kind = f', mode="{mode.upper()}"' if mode != "constant" else ""
    return f"tf.pad({{array}}, {{pad_width}}{kind}, constant_values=constant_values?)"


def _roll(bound: Bound) -> str:
    if not bound.has("axis"):
        if bound.rank("a") == 1:
            return "tf.roll({a}, shift={shift}, axis=0)"
        return "tf.reshape(tf.roll(tf.reshape({a}, [-1]), shift={shift}, axis=0), tf.shape({a}))"
    return "tf.roll({a}, shift={shift}, axis={axis})"


def _flip(bound: Bound) -> str | Refusal:
    if not bound.has("axis"):
        return _TNP + "flip({m})"
    axis = bound.node("axis")
    return (
        "tf.reverse({m}, axis={axis})" if isinstance(axis, (ast.Tuple, ast.List)) else "tf.reverse({m}, axis=[{axis}])"
    )


def _take(bound: Bound) -> str | Refusal:
    if bound.literal("mode", "raise") != "raise":
        return Refusal("numpy.take with `mode=` has no counterpart in TensorFlow")
    indices = bound.literal("indices")
    bound.used.discard("indices")
    flat = [indices] if isinstance(indices, int) else indices
    positive = isinstance(flat, (list, tuple)) and all(isinstance(one, int) and one >= 0 for one in flat)
    source, size = ("{a}", "tf.shape({a})[{axis}]") if bound.has("axis") else ("tf.reshape({a}, [-1])", "tf.size({a})")
    axis = ", axis={axis}" if bound.has("axis") else ""
    # tf.gather takes no negative index; the remainder counts it from the end as NumPy does
    chosen = "{indices}" if positive else f"tf.cast({{indices}}, tf.int32) % {size}"
    return f"tf.gather({source}, {chosen}{axis})"


def _delete(bound: Bound) -> str | Refusal:
    position = bound.literal("obj")
    axis = bound.literal("axis")
    if isinstance(position, int) and position >= 0 and (axis == 0 or (axis is None and bound.rank("arr") == 1)):
        if position == 0:
            return "{arr}[1:]"
        return f"tf.concat([{{arr}}[:{position}], {{arr}}[{position + 1}:]], axis=0)"
    bound.used -= {"obj", "axis"}
    axis_text = "{axis}" if bound.has("axis") else "0"
    source = "{arr}" if bound.has("axis") else "tf.reshape({arr}, [-1])"
    size = "tf.shape({arr})[{axis}]" if bound.has("axis") else "tf.size({arr})"
    if not bound.has("axis") and bound.is_tensor("obj"):
        return Refusal("numpy.delete at a position that is a tensor")
    if position is ... and not isinstance(bound.node("obj"), (ast.Name, ast.Attribute, ast.Subscript, ast.List)):
        return Refusal("numpy.delete of a slice or mask has no short counterpart; index the parts that stay")
    # the positions that are not among those deleted, which may count from the end
    gone = f"tf.cast(tf.reshape({{obj}}, [-1]), tf.int32) % {size}"
    kept = f"tf.reduce_all(tf.range({size})[:, None] != ({gone})[None, :], axis=1)"
    return f"tf.boolean_mask({source}, {kept}, axis={axis_text})"


def _squeeze(bound: Bound) -> str:
    return "tf.squeeze({a}, axis=axis?)"


def _broadcast_to(bound: Bound) -> str:
    return f"tf.broadcast_to({{array}}, {shape_text(bound.node('shape'), 'shape')})"


def _astype(bound: Bound) -> str | Refusal:
    known = dtype_of(bound.node("dtype"))
    if isinstance(known, Refusal):
        return known
    return "tf.cast({x}, {dtype})"


def _fill_like(bound: Bound) -> str | Refusal:
    if bound.has("dtype", "shape"):
        return Refusal("numpy.full_like with `dtype=` or `shape=` is left to you")
    if not bound.is_tensor("a"):
        return "tf.fill({a}.shape, {fill_value})"
    bound.constant = not bound.is_tensor("fill_value")
    return "tf.zeros_like({a}) + {fill_value}"


def _full(bound: Bound) -> str | Refusal:
    return f"tf.fill({shape_text(bound.node('shape'), 'shape')}, {{fill_value}})"


def _split(bound: Bound) -> str:
    sections = bound.literal("indices_or_sections")
    bound.used.discard("indices_or_sections")
    if isinstance(sections, int):
        return "tf.split({ary}, {indices_or_sections}, axis=axis?)"
    return _TNP + "split({ary}, {indices_or_sections}, axis=axis?)"


def _cast_row(name: str) -> Row:
    return Row(f"numpy.{name}", "x", f"tf.cast({{x}}, tf.{name})", "tf.cast")


def _tnp(name: str, signature: str, *used: str, also: str = "") -> Row:
    first, *others = used
    arguments = ", ".join(
        [f"{{{first}}}", *(f"{one}={one}?" if f"{one}=" in signature else f"{{{one}}}" for one in others)]
    )
    return Row(f"numpy.{name}", signature, f"{_TNP}{also or name}({arguments})", f"{_TNP}{also or name}")


ROWS: list[Row] = [
    Row("numpy.reshape", "a, shape=None, order='C', *, newshape=None, copy=None", _reshape, "tf.reshape",
        dropped=frozenset({"copy"})),
    Row("numpy.ravel", "a, order='C'", _ravel, "tf.reshape"),
    Row("numpy.transpose", "a, axes=None", "tf.transpose({a}, perm=axes?)", "tf.transpose"),
    Row("numpy.permute_dims", "a, axes=None", "tf.transpose({a}, perm=axes?)", "tf.transpose"),
    Row("numpy.matrix_transpose", "x", "tf.linalg.matrix_transpose({x})", "tf.linalg.matrix_transpose"),
    _tnp("swapaxes", "a, axis1, axis2", "a", "axis1", "axis2"),
    _tnp("moveaxis", "a, source, destination", "a", "source", "destination"),
    Row("numpy.expand_dims", "a, axis", _expand_dims, "tf.expand_dims"),
    Row("numpy.squeeze", "a, axis=None", _squeeze, "tf.squeeze"),
    Row("numpy.broadcast_to", "array, shape, subok=False", _broadcast_to, "tf.broadcast_to"),
    _tnp("tile", "a, reps", "a", "reps"),
    Row("numpy.repeat", "a, repeats, axis=None", "tf.repeat({a}, {repeats}, axis=axis?)", "tf.repeat"),
    Row("numpy.pad", "array, pad_width, mode='constant', *, constant_values=0, reflect_type='even'", _pad, "tf.pad"),
    Row("numpy.roll", "a, shift, axis=None", _roll, "tf.roll"),
    Row("numpy.flip", "m, axis=None", _flip, "tf.reverse"),
    Row("numpy.flipud", "m", "tf.reverse({m}, axis=[0])", "tf.reverse"),
    Row("numpy.fliplr", "m", "tf.reverse({m}, axis=[1])", "tf.reverse"),
    _tnp("rot90", "m, k=1, axes=(0, 1)", "m", "k", "axes"),
    *(_tnp(name, "a", "a") for name in ("atleast_1d", "atleast_2d", "atleast_3d")),
    Row("numpy.take", "a, indices, axis=None, out=None, mode='raise'", _take, "tf.gather"),
    _tnp("take_along_axis", "arr, indices, axis", "arr", "indices", "axis"),
    Row("numpy.delete", "arr, obj, axis=None", _delete, "tf.boolean_mask"),
    Row("numpy.compress", "condition, a, axis=0, out=None",
        "tf.boolean_mask({a}, tf.cast({condition}, tf.bool), axis=axis?)", "tf.boolean_mask"),
    _tnp("diag", "v, k=0", "v", "k"),
    _tnp("diagflat", "v, k=0", "v", "k"),
    _tnp("diagonal", "a, offset=0, axis1=0, axis2=1", "a", "offset", "axis1", "axis2"),
    _tnp("tril", "m, k=0", "m", "k"),
    _tnp("triu", "m, k=0", "m", "k"),
    Row("numpy.split", "ary, indices_or_sections, axis=0", _split, "tf.split"),
    *(_tnp(name, "ary, indices_or_sections", "ary", "indices_or_sections") for name in ("vsplit", "hsplit", "dsplit")),
    Row("numpy.copy", "a, order='K', subok=False", "tf.identity({a})", "tf.identity", dropped=frozenset({"order"})),
    Row("numpy.ascontiguousarray", "a, dtype=None", "tf.convert_to_tensor({a})", "tf.convert_to_tensor"),
    Row("numpy.zeros_like", "a, dtype=None, order='K', subok=True, shape=None", "tf.zeros_like({a})",
        "tf.zeros_like", "a constant: no gradient flows through it", differentiable=False),
    Row("numpy.ones_like", "a, dtype=None, order='K', subok=True, shape=None", "tf.ones_like({a})",
        "tf.ones_like", "a constant: no gradient flows through it", differentiable=False),
    Row("numpy.full_like", "a, fill_value, dtype=None, order='K', subok=True, shape=None", _fill_like, "tf.zeros_like",
        exactness="dtype"),
    Row("numpy.full", "shape, fill_value, dtype=None, order='C'", _full, "tf.fill"),
    *(_cast_row(name) for name in ("float16", "float32", "float64", "complex64", "complex128")),
    Row("numpy.astype", "x, dtype, copy=True", _astype, "tf.cast", dropped=frozenset({"copy"})),
    Row("numpy.shape", "a", "{a}.shape", "tf.Tensor.shape", "a shape has no gradient", differentiable=False),
    Row("numpy.ndim", "a", "{a}.shape.rank", "tf.TensorShape.rank", "a rank has no gradient", differentiable=False),
    Row("numpy.size", "a", "{a}.shape.num_elements()", "tf.TensorShape.num_elements", "a size has no gradient",
        differentiable=False),
]  # fmt: skip
