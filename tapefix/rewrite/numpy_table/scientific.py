"""Functions of SciPy and of Python's `statistics` that TensorFlow has too."""

from __future__ import annotations

import dataclasses

from tapefix.codemod import Refusal
from tapefix.rewrite.numpy_table import linear
from tapefix.rewrite.numpy_table.row import Bound, Row

_CHECKS = "overwrite_a=False, check_finite=True"
_DROPPED = frozenset({"overwrite_a", "overwrite_b", "check_finite", "overwrite_x", "workers", "disp", "blocksize"})


def _linear(name: str, signature: str) -> Row:
    row = next(row for row in linear.ROWS if row.name == f"numpy.linalg.{name}")
    return dataclasses.replace(
        row, name=f"scipy.linalg.{name}", signature=signature, exactness="dtype", dropped=_DROPPED
    )


def _cholesky(bound: Bound) -> str | Refusal:
    lower = bound.literal("lower", False)
    if lower is ...:
        return Refusal("scipy.linalg.cholesky with a `lower=` that is not written out")
    return "tf.linalg.cholesky({a})" if lower else "tf.linalg.matrix_transpose(tf.linalg.cholesky({a}))"


def _cdist(bound: Bound) -> str | Refusal:
    metric = bound.literal("metric", "euclidean")
    left, right = bound.matched("XA", "XB"), bound.matched("XB", "XA")
    if metric == "sqeuclidean":
        return f"tf.reduce_sum(tf.square({left}[:, None] - {right}[None]), axis=-1)"
    if metric == "cityblock":
        return f"tf.reduce_sum(tf.abs({left}[:, None] - {right}[None]), axis=-1)"
    return Refusal(
        "the distance has no gradient at equal points; write `tf.norm(a[:, None] - b[None], axis=-1)`, with a small "
        "number under the root where points may be equal"
    )


def _normal(bound: Bound, of: str) -> str:
    loc, scale = ("{loc}" if bound.has("loc") else ""), ("{scale}" if bound.has("scale") else "")
    centred = f"({{x}} - {loc})" if loc else "{x}"
    z = f"({centred} / {scale})" if scale else centred
    if of == "cdf":
        return f"0.5 * tf.math.erfc(-{z} * 0.7071067811865476)"
    shift = f" - tf.math.log({scale})" if scale else ""
    log = f"-0.5 * {z} ** 2 - 0.9189385332046727{shift}"
    return log if of == "logpdf" else f"tf.exp({log})"


ROWS: list[Row] = [
    _linear("inv", f"a, {_CHECKS}"),
    _linear("det", f"a, {_CHECKS}"),
    _linear("solve", "a, b, lower=False, overwrite_a=False, overwrite_b=False, check_finite=True, assume_a=None"),
    Row("scipy.linalg.expm", "A", "tf.linalg.expm({A})", "tf.linalg.expm"),
    Row("scipy.linalg.sqrtm", "A, disp=True, blocksize=64", "tf.linalg.sqrtm({A})", "tf.linalg.sqrtm", dropped=_DROPPED,
        note="real where the matrix is"),
    Row("scipy.linalg.cholesky", "a, lower=False, overwrite_a=False, check_finite=True", _cholesky,
        "tf.linalg.cholesky", dropped=_DROPPED),
    Row("scipy.spatial.distance.cdist", "XA, XB, metric='euclidean'", _cdist, "tf.reduce_sum", exactness="dtype"),
    *(
        Row(f"scipy.stats.norm.{name}", "x, loc=0, scale=1", lambda bound, of=name: _normal(bound, of), to,  # type: ignore[misc]
            exactness="dtype")
        for name, to in (("logpdf", "tf.math.log"), ("pdf", "tf.exp"), ("cdf", "tf.math.erfc"))
    ),
    *(
        Row(f"scipy.{module}.dct", "x, type=2, n=None, axis=-1, norm=None, overwrite_x=False",
            "tf.signal.dct({x}, type=type?, norm=norm?)", "tf.signal.dct", dropped=_DROPPED)
        for module in ("fft", "fftpack")
    ),
    *(
        Row(f"statistics.{name}", "data", f"{to}({{data}})", to, exactness="dtype")
        for name, to in (("mean", "tf.reduce_mean"), ("fmean", "tf.reduce_mean"), ("pstdev", "tf.math.reduce_std"),
                         ("pvariance", "tf.math.reduce_variance"))
    ),
]  # fmt: skip
