"""Functions of each element: `numpy.exp`, `numpy.maximum`, `numpy.where`, and their namesakes in `math`."""

from __future__ import annotations

import ast

from tapefix.codemod import Refusal
from tapefix.rewrite.numpy_table.row import Bound, Code, Row, is_number

_OUT = ", out=None, where=True, dtype=None"
_NO_GRADIENT = "its derivative is zero or undefined everywhere: no gradient flows through it in TensorFlow either"

_UNARY = {
    "abs": "tf.abs", "absolute": "tf.abs", "fabs": "tf.abs", "sqrt": "tf.sqrt", "square": "tf.square",
    "exp": "tf.exp", "expm1": "tf.math.expm1", "log": "tf.math.log", "log1p": "tf.math.log1p",
    "sin": "tf.sin", "cos": "tf.cos", "tan": "tf.tan", "sinh": "tf.sinh", "cosh": "tf.cosh", "tanh": "tf.tanh",
    "arcsin": "tf.asin", "arccos": "tf.acos", "arctan": "tf.atan",
    "arcsinh": "tf.asinh", "arccosh": "tf.acosh", "arctanh": "tf.atanh",
    "asin": "tf.asin", "acos": "tf.acos", "atan": "tf.atan",
    "asinh": "tf.asinh", "acosh": "tf.acosh", "atanh": "tf.atanh",
    "negative": "tf.negative", "positive": "tf.identity", "reciprocal": "tf.math.reciprocal",
    "conj": "tf.math.conj", "conjugate": "tf.math.conj",
}  # fmt: skip
_UNARY_FLAT = {
    "sign": "tf.sign", "floor": "tf.floor", "ceil": "tf.math.ceil", "rint": "tf.math.rint",
    "isnan": "tf.math.is_nan", "isinf": "tf.math.is_inf", "isfinite": "tf.math.is_finite",
    "logical_not": "tf.logical_not",
}  # fmt: skip
_UNARY_WRITTEN = {
    "log2": ("tf.math.log({x}) / 0.6931471805599453", "tf.math.log"),
    "log10": ("tf.math.log({x}) / 2.302585092994046", "tf.math.log"),
    "exp2": ("2.0 ** {x}", "tf.pow"),
    "deg2rad": ("{x} * 0.017453292519943295", "tf.multiply"),
    "radians": ("{x} * 0.017453292519943295", "tf.multiply"),
    "rad2deg": ("{x} * 57.29577951308232", "tf.multiply"),
    "degrees": ("{x} * 57.29577951308232", "tf.multiply"),
    "cbrt": ("tf.sign({x}) * tf.abs({x}) ** (1 / 3)", "tf.pow"),
    "sinc": ("tf.experimental.numpy.sinc({x})", "tf.experimental.numpy.sinc"),
}
_OPERATOR = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "power": "**", "pow": "**",
    "float_power": "**", "mod": "%", "remainder": "%",
}  # fmt: skip
_BINARY = {
    "maximum": "tf.maximum", "minimum": "tf.minimum", "arctan2": "tf.atan2", "atan2": "tf.atan2",
    "logaddexp2": "tf.experimental.numpy.logaddexp2",
}  # fmt: skip
_COMPARISON = {"greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<="}
_BINARY_FLAT = {
    "heaviside": "tf.experimental.numpy.heaviside", "equal": "tf.equal", "not_equal": "tf.not_equal",
    "logical_and": "tf.logical_and", "logical_or": "tf.logical_or", "logical_xor": "tf.math.logical_xor",
    "floor_divide": "tf.math.floordiv",
}  # fmt: skip
#: of `math`: what NumPy calls the same (or otherwise)
_MATH = {
    "sqrt": "sqrt", "exp": "exp", "expm1": "expm1", "exp2": "exp2", "log1p": "log1p", "log2": "log2",
    "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "fabs": "fabs", "degrees": "degrees", "radians": "radians", "isnan": "isnan", "isinf": "isinf",
    "isfinite": "isfinite", "cbrt": "cbrt",
}  # fmt: skip
_SPECIAL = {
    "expit": "tf.sigmoid({x})", "log_expit": "tf.math.log_sigmoid({x})", "erf": "tf.math.erf({x})",
    "erfc": "tf.math.erfc({x})", "erfinv": "tf.math.erfinv({x})", "gammaln": "tf.math.lgamma({x})",
    "psi": "tf.math.digamma({x})", "digamma": "tf.math.digamma({x})", "expm1": "tf.math.expm1({x})",
    "log1p": "tf.math.log1p({x})", "ndtri": "tf.math.ndtri({x})", "i0": "tf.math.bessel_i0({x})",
    "i1": "tf.math.bessel_i1({x})", "logit": "tf.math.log({x}) - tf.math.log1p(-{x})",
    "entr": "-tf.math.multiply_no_nan(tf.math.log({x}), {x})",
}  # fmt: skip


def _logaddexp(bound: Bound) -> str:
    """Of smooth functions: tf.experimental.numpy.logaddexp has a gradient of zero where its arguments are equal."""
    for number, other in (("x1", "x2"), ("x2", "x1")):
        if is_number(bound.node(number)):
            if bound.literal(number) == 0:
                return f"tf.nn.softplus({{{other}}})"
            return f"{{{number}}} + tf.nn.softplus({{{other}}} - {{{number}}})"
    parts = f"{bound.matched('x1', 'x2')}, {bound.matched('x2', 'x1')}"
    return f"tf.reduce_logsumexp(tf.stack(tf.experimental.numpy.broadcast_arrays({parts})), axis=0)"


def _source(code: str) -> str:
    start = code.find("tf.")
    return code[start:].split("(")[0] if start >= 0 else "tf.Tensor operators"


def _of_one(name: str) -> str:
    return f"{_UNARY.get(name) or _UNARY_FLAT[name]}({{x}})"


def _clip(bound: Bound) -> str | Refusal:
    low = "a_min" if bound.has("a_min") else "min" if bound.has("min") else ""
    high = "a_max" if bound.has("a_max") else "max" if bound.has("max") else ""
    if low and high:
        return f"tf.clip_by_value({{a}}, {{{low}}}, {{{high}}})"
    if low:
        return f"tf.maximum({{a}}, {{{low}}})"
    if high:
        return f"tf.minimum({{a}}, {{{high}}})"
    return Refusal("numpy.clip without a bound")


def _is_condition(node: ast.expr | None) -> bool:
    """Whether the expression is of type bool by its form."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.Invert, ast.Not)) and _is_condition(node.operand)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr)) and _is_condition(node.left) and _is_condition(node.right)
    return isinstance(node, ast.Compare)


def _first(bound: Bound, name: str, other: str) -> str:
    """A first operand that the second's type decides: a number is converted by eager TensorFlow, not in a graph."""
    node = bound.node(name)
    if isinstance(node, ast.Constant) and type(node.value) is int and not bound.plain(other):
        bound.used.add(name)
        return f"{node.value}.0"
    return f"{{{name}}}" if is_number(node) and not bound.plain(other) else bound.matched(name, other)


def _two(function: str) -> Code:
    symmetric = function in ("tf.maximum", "tf.minimum")

    def code(bound: Bound) -> str:
        if symmetric and not bound.is_tensor("x1"):
            return f"{function}({{x2}}, {{x1}})"  # the type of the first decides in a graph
        second = bound.matched("x2", "x1") if "numpy" in function else "{x2}"
        return f"{function}({_first(bound, 'x1', 'x2')}, {second})"

    return code


def _where(bound: Bound) -> str | Refusal:
    condition = "{condition}" if _is_condition(bound.node("condition")) else "tf.cast({condition}, tf.bool)"
    if bound.has("x") and bound.has("y"):
        return f"tf.where({condition}, {_first(bound, 'x', 'y')}, {{y}})"
    return Refusal("numpy.where with a condition alone gives positions, and positions have no gradient")


def _nan_to_num(bound: Bound) -> str | Refusal:
    if bound.has("posinf", "neginf"):
        return Refusal("numpy.nan_to_num with `posinf=` or `neginf=` has no counterpart in TensorFlow")
    new = "tf.cast({nan}, {x}.dtype)" if bound.has("nan") else "tf.zeros_like({x})"
    # the two clips bring the infinities to the largest finite numbers, as NumPy does
    kept = f"tf.where(tf.math.is_nan({{x}}), {new}, {{x}})"
    return f"tf.maximum(tf.minimum({kept}, {{x}}.dtype.max), {{x}}.dtype.min)"


def _round(bound: Bound) -> str:
    if not bound.has("decimals"):
        return "tf.round({a})"
    return "tf.round({a} * 10.0 ** {decimals}) / 10.0 ** {decimals}"


def _math_log(bound: Bound) -> str:
    return "tf.math.log({x}) / tf.math.log(tf.cast({base}, {x}.dtype))" if bound.has("base") else "tf.math.log({x})"


def _angle(bound: Bound) -> str | Refusal:
    deg = bound.literal("deg", False)
    return (
        Refusal("`deg=` of numpy.angle is not written out")
        if deg is ...
        else ("tf.math.angle({z}) * 57.29577951308232" if deg else "tf.math.angle({z})")
    )


ROWS: list[Row] = [
    *(Row(f"numpy.{name}", "x" + _OUT, f"{to}({{x}})", to) for name, to in _UNARY.items()),
    *(
        Row(f"numpy.{name}", "x" + _OUT, f"{to}({{x}})", to, _NO_GRADIENT, differentiable=False)
        for name, to in _UNARY_FLAT.items()
    ),
    *(Row(f"numpy.{name}", "x" + _OUT, code, source) for name, (code, source) in _UNARY_WRITTEN.items()),
    *(
        Row(f"numpy.{name}", "x1, x2" + _OUT, f"{{x1}} {sign} {{x2}}", "tf.Tensor operators", exactness="dtype")
        for name, sign in _OPERATOR.items()
    ),
    *(Row(f"numpy.{name}", "x1, x2" + _OUT, _two(to), to, exactness="dtype") for name, to in _BINARY.items()),
    Row("numpy.logaddexp", "x1, x2" + _OUT, _logaddexp, "tf.reduce_logsumexp", exactness="dtype"),
    Row("numpy.hypot", "x1, x2" + _OUT, "tf.sqrt({x1} ** 2 + {x2} ** 2)", "tf.sqrt", exactness="dtype"),
    *(
        Row(f"numpy.{name}", "x1, x2" + _OUT, f"{{x1}} {sign} {{x2}}", "tf.Tensor operators", _NO_GRADIENT,
            differentiable=False)
        for name, sign in _COMPARISON.items()
    ),
    *(
        Row(f"numpy.{name}", "x1, x2" + _OUT, _two(to), to, _NO_GRADIENT, differentiable=False)
        for name, to in _BINARY_FLAT.items()
    ),
    Row("numpy.real", "val", "tf.math.real({val})", "tf.math.real"),
    Row("numpy.imag", "val", "tf.math.imag({val})", "tf.math.imag"),
    Row("numpy.angle", "z, deg=False", _angle, "tf.math.angle"),
    Row("numpy.i0", "x", "tf.math.bessel_i0({x})", "tf.math.bessel_i0"),
    Row("numpy.clip", "a, a_min=None, a_max=None, out=None, min=None, max=None", _clip, "tf.clip_by_value",
        exactness="dtype"),
    Row("numpy.where", "condition, x=None, y=None", _where, "tf.where", exactness="dtype"),
    Row("numpy.nan_to_num", "x, copy=True, nan=0.0, posinf=None, neginf=None", _nan_to_num, "tf.where",
        dropped=frozenset({"copy"})),
    *(
        Row(f"numpy.{name}", "a, decimals=0, out=None", _round, "tf.round", _NO_GRADIENT, differentiable=False)
        for name in ("round", "around", "round_")
    ),
    *(
        Row(f"math.{name}", "x", _UNARY_WRITTEN[to][0] if to in _UNARY_WRITTEN else _of_one(to),
            f"numpy.{to}", exactness="dtype", differentiable=to not in _UNARY_FLAT)
        for name, to in _MATH.items()
    ),
    Row("math.log", "x, base=None", _math_log, "tf.math.log", exactness="dtype"),
    Row("math.pow", "x, y", "{x} ** {y}", "tf.pow", exactness="dtype"),
    Row("math.atan2", "y, x", "tf.atan2({y}, {x})", "tf.atan2", exactness="dtype"),
    Row("math.erf", "x", "tf.math.erf({x})", "tf.math.erf", exactness="dtype"),
    Row("math.erfc", "x", "tf.math.erfc({x})", "tf.math.erfc", exactness="dtype"),
    Row("math.lgamma", "x", "tf.math.lgamma({x})", "tf.math.lgamma", exactness="dtype"),
    Row("math.hypot", "x, y", "tf.sqrt({x} ** 2 + {y} ** 2)", "tf.sqrt", exactness="dtype"),
    Row("math.dist", "p, q", "tf.norm(tf.subtract({p}, {q}))", "tf.norm", exactness="dtype"),
    Row("math.fsum", "seq", "tf.reduce_sum({seq})", "tf.reduce_sum", exactness="dtype"),
    Row("math.prod", "seq, *, start=1", "tf.reduce_prod({seq})", "tf.reduce_prod", exactness="dtype"),
    *(
        Row(f"math.{name}", "x", f"tf.math.{name}({{x}})", f"tf.math.{name}",
            "math.floor and math.ceil give an int; " + _NO_GRADIENT, "dtype", differentiable=False)
        for name in ("floor", "ceil")
    ),
    *(Row(f"scipy.special.{name}", "x, out=None", code, _source(code)) for name, code in _SPECIAL.items()),
    Row("scipy.special.xlogy", "x, y, out=None", "tf.math.xlogy({x}, {y})", "tf.math.xlogy"),
    Row("scipy.special.xlog1py", "x, y, out=None", "tf.math.xlog1py({x}, {y})", "tf.math.xlog1py"),
    Row("scipy.special.softmax", "x, axis=None", lambda bound: "tf.nn.softmax({x}, axis={axis})" if bound.has("axis")
        else "tf.reshape(tf.nn.softmax(tf.reshape({x}, [-1])), tf.shape({x}))", "tf.nn.softmax"),
    Row("scipy.special.log_softmax", "x, axis=None", lambda bound: "tf.nn.log_softmax({x}, axis={axis})"
        if bound.has("axis") else "tf.reshape(tf.nn.log_softmax(tf.reshape({x}, [-1])), tf.shape({x}))",
        "tf.nn.log_softmax"),
    Row("scipy.special.logsumexp", "a, axis=None, b=None, keepdims=False, return_sign=False",
        "tf.reduce_logsumexp({a}, axis=axis?, keepdims=keepdims?)", "tf.reduce_logsumexp"),
]  # fmt: skip
