"""Methods of NumPy's element functions: `np.maximum.accumulate`, `np.add.reduce`, `np.subtract.outer`."""

from __future__ import annotations

from tapefix.codemod import Refusal
from tapefix.rewrite.numpy_table.row import Bound, Code, Row

_MOVED = "tf.experimental.numpy.moveaxis"
_REDUCE = "array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=True"
_TRUTH = "a truth value has no gradient"
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "power": "**"}


def _reduced(function: str, given: str = "{array}") -> Code:
    def code(bound: Bound) -> str:
        axis = "{axis}" if bound.has("axis") else "0"
        return f"tf.{function}({given}, axis={axis}, keepdims=keepdims?)"

    return code


def _running(function: str) -> Code:
    def code(bound: Bound) -> str:
        return (
            f"tf.math.{function}({{array}}, axis={{axis}})" if bound.has("axis") else f"tf.math.{function}({{array}})"
        )

    return code


def _scanned(function: str) -> Code:
    """Along the first axis, as tf.scan goes; another axis is brought there and back."""

    def code(bound: Bound) -> str | Refusal:
        axis = bound.literal("axis", 0)
        if axis == 0:
            return f"tf.scan(tf.{function}, {{array}})"
        if not isinstance(axis, int):
            return Refusal("the axis along which is accumulated is not written out")
        bound.used.discard("axis")
        return f"{_MOVED}(tf.scan(tf.{function}, {_MOVED}({{array}}, {{axis}}, 0)), 0, {{axis}})"

    return code


def _outer(name: str) -> Code:
    """Each element of the first with each of the second: the first gets as many new axes as the second has."""

    def code(bound: Bound) -> str:
        one, two = bound.matched("A", "B"), bound.matched("B", "A")
        if name == "multiply":
            return f"tf.tensordot({one}, {two}, axes=0)"
        axes = "[..., None]" if bound.rank("B") == 1 else "[(..., *([None] * len({B}.shape)))]"
        wide = f"({one}){axes}"
        return f"{wide} {_SIGNS[name]} {two}" if name in _SIGNS else f"tf.{name}({wide}, {two})"

    return code


def _reducer(name: str, function: str) -> Row:
    return Row(f"numpy.{name}.reduce", _REDUCE, _reduced(function), f"tf.{function}")


def _accumulator(name: str, code: Code, source: str) -> Row:
    return Row(f"numpy.{name}.accumulate", "array, axis=0, dtype=None, out=None", code, source)


ROWS: list[Row] = [
    _reducer("add", "reduce_sum"),
    _reducer("multiply", "reduce_prod"),
    _reducer("maximum", "reduce_max"),
    _reducer("minimum", "reduce_min"),
    _reducer("logaddexp", "reduce_logsumexp"),
    *(
        Row(f"numpy.{name}.reduce", _REDUCE, _reduced(function, "tf.cast({array}, tf.bool)"), f"tf.{function}", _TRUTH,
            differentiable=False)
        for name, function in (("logical_and", "reduce_all"), ("logical_or", "reduce_any"))
    ),
    _accumulator("add", _running("cumsum"), "tf.math.cumsum"),
    _accumulator("multiply", _running("cumprod"), "tf.math.cumprod"),
    _accumulator("logaddexp", _running("cumulative_logsumexp"), "tf.math.cumulative_logsumexp"),
    _accumulator("maximum", _scanned("maximum"), "tf.scan"),
    _accumulator("minimum", _scanned("minimum"), "tf.scan"),
    *(
        Row(f"numpy.{name}.outer", "A, B, dtype=None", _outer(name), "tf.tensordot", exactness="dtype")
        for name in (*_SIGNS, "maximum", "minimum")
    ),
]  # fmt: skip
