"""Functions without a counterpart, and what a person can do instead."""

from __future__ import annotations

_COUNT = "it counts, and a count has no gradient"
_POSITION = "it gives positions, and positions have no gradient"
_IN_PLACE = "it writes into an array in place; build the result from its parts and `tf.stack` them"
_TRUTH = "its answer is a truth value, which has no gradient"
_RANDOM = "a draw has no gradient in its parameters; write it as `mean + scale * tf.random.normal(shape)`"
_PYTHON = "it calls a Python function per element; write that function with TensorFlow and use `tf.map_fn`"
_UNKNOWN = "TensorFlow has no function of this meaning with a gradient"

#: the canonical name -> the reason
REFUSED: dict[str, str] = {
    **{f"numpy.{name}": _COUNT for name in ("histogram", "histogram2d", "histogramdd", "bincount", "unique")},
    **{
        f"numpy.{name}": _POSITION
        for name in ("nonzero", "flatnonzero", "argwhere", "searchsorted", "digitize", "argpartition", "nanargmax",
                     "nanargmin", "unravel_index", "ravel_multi_index")
    },
    **{
        f"numpy.{name}": _IN_PLACE
        for name in ("put", "put_along_axis", "place", "copyto", "putmask", "fill_diagonal", "add.at", "subtract.at",
                     "maximum.at", "minimum.at", "multiply.at")
    },
    **{f"numpy.{name}": _TRUTH for name in ("array_equal", "allclose", "isclose", "isin", "in1d", "signbit")},
    **{
        f"numpy.random.{name}": _RANDOM
        for name in ("normal", "uniform", "binomial", "choice", "poisson", "gamma", "beta", "exponential",
            "multinomial",
                     "multivariate_normal", "laplace", "gumbel", "dirichlet", "permutation", "shuffle")
    },
    **{f"numpy.{name}": _PYTHON for name in ("vectorize", "apply_along_axis", "apply_over_axes", "frompyfunc",
        "piecewise",
                                             "fromiter", "fromfunction")},
    **{
        f"numpy.{name}": _UNKNOWN
        for name in ("percentile", "quantile", "nanpercentile", "nanquantile", "nanmedian", "nanstd", "nanvar",
            "gradient",
                     "correlate", "polyfit", "roots", "unwrap", "insert", "resize", "lexsort", "partition", "select",
                     "choose", "array_split", "trim_zeros", "spacing", "nextafter", "frexp", "ldexp", "modf",
                     "copysign", "fmax", "fmin", "fmod", "trunc", "fix", "geomspace", "logspace", "nancumsum",
                     "nancumprod", "union1d", "intersect1d", "setdiff1d", "ediff1d", "divmod", "gcd", "lcm")
    },
    **{
        f"numpy.linalg.{name}": _UNKNOWN
        for name in ("eig", "eigvals", "lstsq", "qr", "cond", "matrix_rank", "matrix_power", "multi_dot", "tensorinv",
                     "tensorsolve")
    },
    **{f"numpy.fft.{name}": _UNKNOWN for name in ("fftn", "ifftn", "rfftn", "irfftn", "hfft", "ihfft")},
    "numpy.interp": "TensorFlow has no interpolation in a table; `tfp.math.interp_regular_1d_grid` has a gradient",
    "numpy.cov": "write it out: `d = x - tf.reduce_mean(x, axis=1, keepdims=True)`, `d @ tf.transpose(d) / (n - 1)`",
    "numpy.corrcoef": "write it out from the centred values, divided by their norms",
    "numpy.arange": "the steps of `tf.range` have no gradient; multiply a range of whole numbers by the step",
    "numpy.fromstring": "it reads text, and text has no gradient",
    "numpy.frombuffer": "it reads bytes, and bytes have no gradient",
    "numpy.save": "it writes a file",
    "math.fmod": "`tf.truncatemod` has no gradient; `%` has one and differs for negative numbers alone",
    "math.gamma": "`tf.exp(tf.math.lgamma(x))` has a gradient and is the same for positive numbers",
    **{
        f"math.{name}": "its result is a whole number or a pair of parts, which have no gradient"
        for name in ("trunc", "frexp", "modf", "ldexp", "factorial", "comb", "perm", "gcd", "lcm", "isqrt", "isclose",
                     "copysign", "remainder", "nextafter", "ulp")
    },
    **{
        f"ndarray.{name}": _IN_PLACE for name in ("fill", "put", "itemset", "sort", "partition", "resize", "setfield",
                                                  "setflags", "byteswap")
    },
    **{f"ndarray.{name}": "it leaves TensorFlow" for name in ("tobytes", "tostring", "dump", "dumps", "tofile", "view",
                                                               "getfield", "choose")},
    **{f"ndarray.{name}": _POSITION for name in ("nonzero", "searchsorted", "argpartition")},
}  # fmt: skip
