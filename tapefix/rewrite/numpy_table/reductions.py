"""Functions along an axis: sums, means, extremes, running sums, sorting."""

from __future__ import annotations

from tapefix.codemod import Refusal
from tapefix.rewrite.numpy_table.row import Bound, Code, Row

_REDUCE = "a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True"
_EXTREME = "a, axis=None, out=None, keepdims=False, initial=None, where=True"
_SPREAD = "a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None, correction=0"
_INDEX = "a position has no gradient; a soft position, `tf.reduce_sum(tf.nn.softmax(x) * positions)`, has one"
_BOOL = "a truth value has no gradient"


def _count(bound: Bound) -> str | Refusal:
    """How many elements go into one result, as a tensor of the input's type."""
    axis = bound.literal("axis")
    if isinstance(axis, (list, tuple)):
        product = " * ".join(f"tf.shape({{a}})[{one}]" for one in axis)
        return f"tf.cast({product}, {{a}}.dtype)"
    return "tf.cast(tf.shape({a})[{axis}], {a}.dtype)" if bound.has("axis") else "tf.cast(tf.size({a}), {a}.dtype)"


def _spread(function: str) -> Code:
    def code(bound: Bound) -> str | Refusal:
        ddof = "ddof" if bound.has("ddof") else "correction" if bound.has("correction") else ""
        if not ddof:
            return f"tf.math.{function}({{a}}, axis=axis?, keepdims=keepdims?)"
        count = _count(bound)
        variance = "tf.math.reduce_variance({a}, axis=axis?, keepdims=keepdims?)"
        scaled = f"{variance} * {count} / ({count} - {{{ddof}}})"
        return f"tf.sqrt({scaled})" if function == "reduce_std" else scaled

    return code


def _median(bound: Bound) -> str | Refusal:
    # the mean of the two middle ones, which are one and the same where the count is odd
    if not bound.has("axis"):
        if bound.has("keepdims"):
            return Refusal("numpy.median with `keepdims=` but no axis has no counterpart in TensorFlow")
        middle = "[(tf.size({a}) - 1) // 2, tf.size({a}) // 2]"
        return f"tf.reduce_mean(tf.gather(tf.sort(tf.reshape({{a}}, [-1])), {middle}))"
    if not isinstance(bound.literal("axis"), int):
        return Refusal("numpy.median along several axes, or one that is not written out, has no counterpart")
    size = "tf.shape({a})[{axis}]"
    picked = f"tf.gather(tf.sort({{a}}, axis={{axis}}), [({size} - 1) // 2, {size} // 2], axis={{axis}})"
    return f"tf.reduce_mean({picked}, axis={{axis}}, keepdims=keepdims?)"


def _running(function: str) -> Code:
    def code(bound: Bound) -> str:
        return (
            f"tf.math.{function}({{a}}, axis={{axis}})"
            if bound.has("axis")
            else (f"tf.math.{function}(tf.reshape({{a}}, [-1]))")
        )

    return code


def _position(function: str) -> Code:
    def code(bound: Bound) -> str:
        if bound.has("axis"):
            found = f"tf.{function}({{a}}, axis={{axis}})"
            return f"tf.expand_dims({found}, axis={{axis}})" if bound.literal("keepdims", False) is True else found
        return f"tf.{function}(tf.reshape({{a}}, [-1]))"

    return code


def _sort(bound: Bound) -> str | Refusal:
    axis = bound.literal("axis", -1)
    if axis is None:
        return "tf.sort(tf.reshape({a}, [-1]))"
    return "tf.sort({a}, axis=axis?)"


def _argsort(bound: Bound) -> str | Refusal:
    if bound.literal("axis", -1) is None:
        return "tf.argsort(tf.reshape({a}, [-1]), stable=True)"
    return "tf.argsort({a}, axis=axis?, stable=True)"


def _average(bound: Bound) -> str | Refusal:
    if not bound.has("weights"):
        return "tf.reduce_mean({a}, axis=axis?, keepdims=keepdims?)"
    if bound.has("keepdims"):
        return Refusal("numpy.average with both `weights=` and `keepdims=` has no counterpart in TensorFlow")
    if not bound.has("axis"):
        return "tf.reduce_sum({a} * {weights}) / tf.reduce_sum({weights})"
    return "tf.experimental.numpy.average({a}, axis={axis}, weights={weights})"


def _nan_extreme(function: str, fill: str) -> Code:
    def code(bound: Bound) -> str:
        kept = f"tf.where(tf.math.is_nan({{a}}), {{a}}.dtype.{fill}, {{a}})"
        return f"tf.{function}({kept}, axis=axis?, keepdims=keepdims?)"

    return code


def _diff(bound: Bound) -> str | Refusal:
    return "tf.experimental.numpy.diff({a}, n=n?, axis=axis?)"


def _trapezoid(bound: Bound) -> str | Refusal:
    if bound.literal("axis", -1) != -1:
        return Refusal("numpy.trapz along another axis than the last has no counterpart in TensorFlow")
    middle = "({y}[..., 1:] + {y}[..., :-1]) / 2"
    if bound.has("x"):
        return f"tf.reduce_sum(({{x}}[..., 1:] - {{x}}[..., :-1]) * {middle}, axis=-1)"
    step = "{dx} * " if bound.has("dx") else ""
    return f"{step}tf.reduce_sum({middle}, axis=-1)"


def _rows(
    names: tuple[str, ...],
    signature: str,
    code: Code,
    source: str,
    note: str = "",
    flat: bool = False,
    exactness: str = "same",
) -> list[Row]:
    return [
        Row(f"numpy.{name}", signature, code, source, note, exactness, not flat, frozenset({"kind"})) for name in names
    ]


def _plain(function: str) -> str:
    return f"{function}({{a}}, axis=axis?, keepdims=keepdims?)"


ROWS: list[Row] = [
    *_rows(("sum",), _REDUCE, _plain("tf.reduce_sum"), "tf.reduce_sum"),
    *_rows(("prod", "product"), _REDUCE, _plain("tf.reduce_prod"), "tf.reduce_prod"),
    *_rows(("mean",), "a, axis=None, dtype=None, out=None, keepdims=False, *, where=True",
           _plain("tf.reduce_mean"), "tf.reduce_mean"),
    *_rows(("max", "amax"), _EXTREME, _plain("tf.reduce_max"), "tf.reduce_max",
           "where several elements are the largest, TensorFlow shares the gradient among them"),
    *_rows(("min", "amin"), _EXTREME, _plain("tf.reduce_min"), "tf.reduce_min",
           "where several elements are the smallest, TensorFlow shares the gradient among them"),
    *_rows(("std",), _SPREAD, _spread("reduce_std"), "tf.math.reduce_std"),
    *_rows(("var",), _SPREAD, _spread("reduce_variance"), "tf.math.reduce_variance"),
    *_rows(("median",), "a, axis=None, out=None, overwrite_input=False, keepdims=False", _median, "tf.sort"),
    *_rows(("ptp",), "a, axis=None, out=None, keepdims=False",
           f"{_plain('tf.reduce_max')} - {_plain('tf.reduce_min')}", "tf.reduce_max"),
    *_rows(("average",), "a, axis=None, weights=None, returned=False, *, keepdims=False", _average, "tf.reduce_mean",
           exactness="dtype"),
    *_rows(("nansum",), _REDUCE, "tf.reduce_sum(tf.where(tf.math.is_nan({a}), tf.zeros_like({a}), {a})"
           ", axis=axis?, keepdims=keepdims?)", "tf.where"),
    *_rows(("nanprod",), _REDUCE, "tf.reduce_prod(tf.where(tf.math.is_nan({a}), tf.ones_like({a}), {a})"
           ", axis=axis?, keepdims=keepdims?)", "tf.where"),
    *_rows(("nanmean",), "a, axis=None, dtype=None, out=None, keepdims=False, *, where=True",
           "tf.math.divide_no_nan(tf.reduce_sum(tf.where(tf.math.is_nan({a}), tf.zeros_like({a}), {a})"
           ", axis=axis?, keepdims=keepdims?), tf.reduce_sum(tf.cast(~tf.math.is_nan({a}), {a}.dtype)"
           ", axis=axis?, keepdims=keepdims?))", "tf.where", "a slice of NaNs alone gives 0, not NaN"),
    *_rows(("nanmax",), _EXTREME, _nan_extreme("reduce_max", "min"), "tf.reduce_max"),
    *_rows(("nanmin",), _EXTREME, _nan_extreme("reduce_min", "max"), "tf.reduce_min"),
    *_rows(("cumsum",), "a, axis=None, dtype=None, out=None", _running("cumsum"), "tf.math.cumsum"),
    *_rows(("cumprod", "cumproduct"), "a, axis=None, dtype=None, out=None", _running("cumprod"), "tf.math.cumprod"),
    *_rows(("all",), "a, axis=None, out=None, keepdims=False, *, where=True",
           "tf.reduce_all(tf.cast({a}, tf.bool), axis=axis?, keepdims=keepdims?)", "tf.reduce_all", _BOOL, flat=True),
    *_rows(("any",), "a, axis=None, out=None, keepdims=False, *, where=True",
           "tf.reduce_any(tf.cast({a}, tf.bool), axis=axis?, keepdims=keepdims?)", "tf.reduce_any", _BOOL, flat=True),
    *_rows(("argmax",), "a, axis=None, out=None, *, keepdims=False", _position("argmax"), "tf.argmax", _INDEX,
        flat=True),
    *_rows(("argmin",), "a, axis=None, out=None, *, keepdims=False", _position("argmin"), "tf.argmin", _INDEX,
        flat=True),
    *_rows(("argsort",), "a, axis=-1, kind=None, order=None", _argsort, "tf.argsort", _INDEX, flat=True),
    *_rows(("count_nonzero",), "a, axis=None, *, keepdims=False", _plain("tf.math.count_nonzero"),
           "tf.math.count_nonzero", "a count has no gradient", flat=True),
    *_rows(("diff",), "a, n=1, axis=-1, prepend=None, append=None", _diff, "tf.experimental.numpy.diff"),
    *_rows(("trapz", "trapezoid"), "y, x=None, dx=1.0, axis=-1", _trapezoid, "tf.reduce_sum", exactness="dtype"),
    Row("numpy.sort", "a, axis=-1, kind=None, order=None", _sort, "tf.sort", dropped=frozenset({"kind"})),
]  # fmt: skip
