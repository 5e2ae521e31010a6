"""Functions that make one array of several: `array`, `stack`, `concatenate`, `append`, `meshgrid`, `linspace`."""

from __future__ import annotations

import ast

from tapefix.codemod import Refusal
from tapefix.rewrite.numpy_table.row import Bound, Code, Row, is_number

_TNP = "tf.experimental.numpy."


def _array(bound: Bound) -> str | Refusal:
    if bound.literal("ndmin", 0) != 0:
        return Refusal("numpy.array with `ndmin=` has no counterpart in TensorFlow")
    name = "object" if bound.has("object") else "a"
    node = bound.node(name)
    part = f"{{{name}}}"
    if isinstance(node, (ast.GeneratorExp, ast.Set, ast.SetComp)):
        return Refusal("numpy.array of a generator or set is an array of one object")
    # nested lists of numbers and tensors are packed; a name may hold a tensor or a list of tensors: right for each
    made = f"tf.stack({bound.listed(name)})" if _is_flat(node) else f"tf.convert_to_tensor({part})"
    return f"tf.cast({made}, {{dtype}})" if bound.has("dtype") else made


def _is_nested(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.Tuple, ast.ListComp))


def _is_flat(node: ast.expr | None) -> bool:
    """Whether the expression lists its elements, none of them a list again."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return bool(node.elts) and not any(map(_is_nested, node.elts))
    return isinstance(node, ast.ListComp) and not _is_nested(node.elt)


def _concatenate(bound: Bound) -> str | Refusal:
    name = "arrays" if bound.has("arrays") else "seq"
    if bound.literal("axis", 0) is None:
        node = bound.node(name)
        if not isinstance(node, (ast.List, ast.Tuple)) or any(isinstance(one, ast.Starred) for one in node.elts):
            return Refusal("numpy.concatenate with `axis=None` of a list that is not written out")
        return Refusal("numpy.concatenate with `axis=None`: reshape the parts to one dimension first")
    axis = "{axis}" if bound.has("axis") else "0"
    return f"tf.concat({bound.listed(name)}, axis={axis})"


def _stack(bound: Bound) -> str:
    return f"tf.stack({bound.listed('arrays')}, axis=axis?)"


def _stacked(function: str) -> Code:
    return lambda bound: f"{_TNP}{function}({bound.listed('tup')})"


def _append(bound: Bound) -> str:
    if bound.has("axis"):
        return f"tf.concat([{bound.matched('arr', 'values')}, {bound.matched('values', 'arr')}], axis={{axis}})"
    left, right = bound.matched("arr", "values"), bound.matched("values", "arr")
    return f"tf.concat([tf.reshape({left}, [-1]), tf.reshape({right}, [-1])], axis=0)"


def _block(bound: Bound) -> str | Refusal:
    node = bound.node("arrays")
    rows = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    if not rows or not all(isinstance(row, ast.List) and row.elts for row in rows):
        return Refusal("numpy.block of what is not written out as rows of blocks")
    bound.used.add("arrays")
    blocks = [block for row in rows if isinstance(row, ast.List) for block in row.elts]
    texts = bound.alike(blocks, "block") or [f"{{block_{k}}}" for k in range(len(blocks))]
    bound.elements |= {f"block_{k}": block for k, block in enumerate(blocks)}
    parts = [
        text if _is_matrix(block) else f"{_TNP}atleast_2d({text})" for text, block in zip(texts, blocks, strict=True)
    ]
    joined = []
    for row in rows:
        assert isinstance(row, ast.List)
        own, parts = parts[: len(row.elts)], parts[len(row.elts) :]
        joined.append(f"tf.concat([{', '.join(own)}], axis=1)" if len(own) > 1 else own[0])
    return f"tf.concat([{', '.join(joined)}], axis=0)" if len(joined) > 1 else joined[0]


def _is_matrix(node: ast.expr) -> bool:
    """Whether a block surely has two dimensions; NumPy gives them to what has fewer."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _is_matrix(node.left) and _is_matrix(node.right)
    if isinstance(node, ast.BinOp):
        return _is_matrix(node.left) or _is_matrix(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_matrix(node.operand)
    if isinstance(node, ast.Call):
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        sized = bool(node.args) and isinstance(node.args[0], (ast.List, ast.Tuple)) and len(node.args[0].elts) == 2
        return last in ("eye", "identity", "diag", "transpose") or (last in ("zeros", "ones") and sized)
    return False


def _linspace(bound: Bound) -> str | Refusal:
    if bound.has("endpoint", "retstep", "axis"):
        return Refusal("numpy.linspace with `endpoint=`, `retstep=` or `axis=` has no counterpart in TensorFlow")
    start, stop = bound.matched("start", "stop"), bound.matched("stop", "start")
    return f"tf.linspace({start}, {stop}, {'{num}' if bound.has('num') else '50'})"


def _meshgrid(bound: Bound) -> str | Refusal:
    if bound.literal("sparse", False) or not bound.rest:
        return Refusal("numpy.meshgrid with `sparse=` has no counterpart in TensorFlow")
    if any(isinstance(one, ast.Starred) for one in bound.rest):
        return Refusal("numpy.meshgrid of a list that is not written out")
    parts = ", ".join(f"{{rest{k}}}" for k in range(len(bound.rest)))
    return f"tf.meshgrid({parts}, indexing=indexing?)"


def _broadcast_arrays(bound: Bound) -> str:
    return f"{_TNP}broadcast_arrays({', '.join(f'{{rest{k}}}' for k in range(len(bound.rest)))})"


def _polyval(bound: Bound) -> str | Refusal:
    coefficients = bound.node("p")
    if (
        isinstance(coefficients, (ast.List, ast.Tuple))
        and all(map(is_number, coefficients.elts))
        and bound.is_tensor("x")
    ):
        return "tf.math.polyval([tf.cast(c, {x}.dtype) for c in {p}], {x})"
    return (
        "tf.math.polyval(tf.unstack({p}), {x})"
        if bound.is_tensor("p")
        else ("tf.math.polyval([tf.cast(c, {x}.dtype) for c in {p}], {x})")
    )


ROWS: list[Row] = [
    *(
        Row(f"numpy.{name}", "object, dtype=None, *, copy=True, order='K', subok=False, ndmin=0, like=None", _array,
            "tf.stack, tf.convert_to_tensor", exactness="dtype", dropped=frozenset({"copy", "order", "subok"}))
        for name in ("array",)
    ),
    *(
        Row(f"numpy.{name}", "a, dtype=None, order=None, *, copy=None, like=None", _array, "tf.convert_to_tensor",
            exactness="dtype", dropped=frozenset({"copy", "order"}))
        for name in ("asarray", "asanyarray", "asfarray")
    ),
    Row("numpy.stack", "arrays, axis=0, out=None, *, dtype=None", _stack, "tf.stack",
        exactness="dtype"),
    *(
        Row(f"numpy.{name}", "arrays, axis=0, out=None, *, dtype=None", _concatenate, "tf.concat", exactness="dtype")
        for name in ("concatenate", "concat")
    ),
    *(
        Row(f"numpy.{name}", "tup", _stacked(to), f"{_TNP}{to}", exactness="dtype")
        for name, to in (("vstack", "vstack"), ("row_stack", "vstack"), ("hstack", "hstack"), ("dstack", "dstack"))
    ),
    Row("numpy.column_stack", "tup", "tf.concat([c[:, None] if len(c.shape) == 1 else c for c in {tup}], axis=1)",
        "tf.concat", exactness="dtype"),
    Row("numpy.append", "arr, values, axis=None", _append, "tf.concat", exactness="dtype"),
    Row("numpy.block", "arrays", _block, "tf.concat", exactness="dtype", note="of rows of blocks in two dimensions"),
    Row("numpy.linspace", "start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0", _linspace,
        "tf.linspace", exactness="dtype"),
    Row("numpy.meshgrid", "*xi, copy=True, sparse=False, indexing='xy'", _meshgrid, "tf.meshgrid",
        dropped=frozenset({"copy"})),
    Row("numpy.broadcast_arrays", "*args, subok=False", _broadcast_arrays, _TNP + "broadcast_arrays"),
    Row("numpy.polyval", "p, x", _polyval, "tf.math.polyval", exactness="dtype"),
    Row("numpy.vander", "x, N=None, increasing=False", _TNP + "vander({x}, N=N?, increasing=increasing?)",
        _TNP + "vander", exactness="dtype"),
]  # fmt: skip
