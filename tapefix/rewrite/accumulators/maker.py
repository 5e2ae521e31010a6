"""How a buffer is made: its library, first content, shape and element type."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from tapefix.rewrite.accumulators.dims import Dims, Linear, shape_owner
from tapefix.rewrite.accumulators.syntax import dotted

Content = Literal["zeros", "ones", "empty", "full", "other"]
_PLAIN = {"zeros": "zeros", "ones": "ones", "empty": "empty", "full": "full", "fill": "full"}
_LIKE = {"zeros_like": "zeros", "ones_like": "ones", "empty_like": "empty", "full_like": "full"}
_AROUND = ("constant", "convert_to_tensor", "asarray", "array", "cast")
_FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Made:
    """A call that makes a buffer. `array` is the expression of its first content: for `tf.Variable(x)` it is `x`."""

    call: ast.expr
    library: Literal["numpy", "variable"]
    array: ast.expr
    content: Content
    shape: tuple[ast.expr, ...] | None  # the sizes, where they are written out
    like: ast.expr | None  # the array whose shape it has
    dtype: str | None  # "float32", ...; None where it is that of something unknown
    dtype_written: bool  # whether the type stands in the call

    @property
    def core(self) -> ast.expr:
        """The call that names the content: `tf.zeros(...)` of `tf.cast(tf.zeros(...), tf.float64)`."""
        node = self.array
        while isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
                node = node.func.value
            elif (dotted(node.func) or "").split(".")[-1] in _AROUND and node.args:
                node = node.args[0]
            else:
                break
        return node

    @property
    def fill(self) -> ast.expr | None:
        """The number that a `full` array holds."""
        core = self.core
        if self.content != "full" or not isinstance(core, ast.Call):
            return None
        named = _keyword(core, "fill_value") or _keyword(core, "value")
        return named or (core.args[1] if len(core.args) > 1 else None)

    @property
    def rank(self) -> int | None:
        return len(self.shape) if self.shape is not None else None

    def size(self, axis: int, dims: Dims) -> Linear | None:
        """The size of an axis."""
        if self.shape is not None:
            return dims.of(self.shape[axis]) if -len(self.shape) <= axis < len(self.shape) else None
        return dims.dim(self.like, axis) if self.like is not None else None


def made_by(call: ast.expr, library: str, dims: Dims) -> Made:
    """Reads the call that makes a buffer; what it can't read is None or "other"."""
    if library == "variable":
        return _variable(call, dims)
    content, shape, like, dtype, written = _array(call, dims)
    if dtype is None and not written and content != "other":
        dtype = _default_type(call, content, like, dims)
    return Made(call, "numpy", call, content, shape, like, dtype, written)


def _variable(call: ast.expr, dims: Dims) -> Made:
    """`tf.Variable(x)`, `tf.Variable(lambda: x)`, `K.variable(value=x)`; `add_weight` and unknown calls are "other"."""
    initial: ast.expr | None = None
    dtype: str | None = None
    if isinstance(call, ast.Call) and (dotted(call.func) or "").split(".")[-1] in ("Variable", "variable"):
        named = _keyword(call, "initial_value") or _keyword(call, "value") or _keyword(call, "initializer")
        initial = call.args[0] if call.args else named
        if isinstance(initial, ast.Lambda) and not initial.args.args:
            initial = initial.body
        dtype = dtype_name(_keyword(call, "dtype"))
    if initial is None:
        return Made(call, "variable", call, "other", None, None, dtype, dtype is not None)
    content, shape, like, inner, written = _array(initial, dims)
    if inner is None and not written and content != "other" and like is None:
        inner = (
            "float64" if (dotted(getattr(initial, "func", initial)) or "").startswith(("np.", "numpy.")) else "float32"
        )
    return Made(call, "variable", initial, content, shape, like, dtype or inner, dtype is not None or written)


def _array(
    call: ast.expr, dims: Dims
) -> tuple[Content, tuple[ast.expr, ...] | None, ast.expr | None, str | None, bool]:
    if not isinstance(call, ast.Call):
        return "other", None, None, None, False
    if isinstance(call.func, ast.Attribute) and call.func.attr == "astype" and call.args:
        content, shape, like, _, _ = _array(call.func.value, dims)
        return content, shape, like, dtype_name(call.args[0]), True
    name = (dotted(call.func) or "").split(".")[-1]
    if name in _AROUND and call.args:
        content, shape, like, dtype, written = _array(call.args[0], dims)
        named = _keyword(call, "dtype") or (call.args[1] if len(call.args) > 1 else None)
        return content, shape, like, dtype_name(named) or dtype, written or named is not None
    positions = {"full": 2, "fill": 9, "full_like": 2}
    named_type = _keyword(call, "dtype")
    if named_type is None and len(call.args) > positions.get(name, 1):
        named_type = call.args[positions.get(name, 1)]
    dtype, written = dtype_name(named_type), named_type is not None
    if name in _PLAIN:
        size = _keyword(call, "shape") or _keyword(call, "dims") or (call.args[0] if call.args else None)
        shape, like = shape_of_argument(size, dims) if size is not None else (None, None)
        return _PLAIN[name], shape, like, dtype, written  # type: ignore[return-value]
    if name in _LIKE and call.args:
        return _LIKE[name], None, call.args[0], dtype, written  # type: ignore[return-value]
    return "other", None, None, dtype, written


def _default_type(call: ast.expr, content: Content, like: ast.expr | None, dims: Dims) -> str | None:
    """The type NumPy gives an array whose type is not written: float64, or that of what it is made from."""
    if like is not None and isinstance(call, ast.Call) and (dotted(call.func) or "").endswith("_like"):
        return None
    if content == "full" and isinstance(call, ast.Call):
        fill = _keyword(call, "fill_value") or (call.args[1] if len(call.args) > 1 else None)
        if isinstance(fill, ast.Name):
            fill = dims.single_value(fill) or fill
        match fill:
            case ast.Constant(value=bool()):
                return "bool"
            case ast.Constant(value=int()) | ast.UnaryOp(operand=ast.Constant(value=int())):
                return "int64"
    return "float64"


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def shape_of_argument(size: ast.expr, dims: Dims) -> tuple[tuple[ast.expr, ...] | None, ast.expr | None]:
    """(sizes, array) of a shape argument: the sizes of `(n, d)`, the array of `x.shape`; `n` is a size if a number."""
    if isinstance(size, ast.Tuple | ast.List):
        return (None, None) if any(isinstance(e, ast.Starred) for e in size.elts) else (tuple(size.elts), None)
    if (owner := shape_owner(size)) is not None:
        return None, owner
    if isinstance(size, ast.Name):
        value = dims.single_value(size)
        if isinstance(value, ast.Tuple | ast.List) or (value is not None and shape_owner(value) is not None):
            return shape_of_argument(value, dims)
    return ((size,), None) if _is_count(size, dims) else (None, None)


def _is_count(size: ast.expr, dims: Dims) -> bool:
    """Whether a shape argument is one number, not a sequence of them."""
    match size:
        case ast.Constant(value=int()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_count(left, dims) or _is_count(right, dims)
        case ast.Call(func=ast.Name(id="len" | "int" | "max" | "min" | "sum")):
            return True
        case ast.Subscript(value=whole, slice=ast.Constant(value=int())):
            return shape_owner(whole) is not None
        case ast.Name():
            linear = dims.of(size)
            if linear.value is not None or any(atom.startswith("dim(") for atom in linear.terms):
                return True
            return _counts_a_loop(size, dims)
    return False


def _counts_a_loop(name: ast.Name, dims: Dims) -> bool:
    """Whether the name is used as the stop of a `range` somewhere in its scope."""
    scope = dims.syntax.function(name) or dims.syntax.tree
    return any(
        isinstance(node, ast.Call)
        and (dotted(node.func) or "").split(".")[-1] == "range"
        and any(isinstance(n, ast.Name) and n.id == name.id for arg in node.args for n in ast.walk(arg))
        for node in ast.walk(scope)
    )


def dtype_name(node: ast.expr | None) -> str | None:
    """The element type that an expression names: `tf.float32`, `np.float64`, `"float32"`, `float`."""
    match node:
        case ast.Constant(value=str() as text):
            return text if text.isidentifier() else {"f": "float32", "f4": "float32", "f8": "float64"}.get(text)
        case ast.Name(id="float") | ast.Attribute(attr="float_" | "double"):
            return "float64"
        case ast.Name(id="int"):
            return "int64"
        case ast.Name(id="bool"):
            return "bool"
        case ast.Attribute(attr="single"):
            return "float32"
        case ast.Attribute(attr=attr) if attr.rstrip("0123456789") in (
            "float",
            "bfloat",
            "int",
            "uint",
            "complex",
            "bool",
        ):
            return attr
        case ast.Name(id=name) if name.rstrip("0123456789") in ("float", "int", "complex", "uint"):
            return name
    return None


def is_float(dtype: str | None) -> bool:
    return dtype is None or dtype in _FLOATS or dtype.startswith("complex")
