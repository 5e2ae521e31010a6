"""Every row of the NumPy table against NumPy: the value, the type, and the gradient along a random direction."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import pytest

from tapefix.documents.document import Document
from tapefix.rewrite import imports, numpy_table
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.numpy_table import Refusal, Rewrite, elementwise

np = pytest.importorskip("numpy")
tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

# what the expressions below may speak of; the tensors among them are TENSORS
_random = np.random.default_rng(7)
TENSORS: dict[str, Any] = {
    "x": _random.normal(size=(3, 4)) + 0.05,
    "y": _random.normal(size=(3, 4)),
    "u": _random.uniform(0.15, 0.85, size=(3, 4)),
    "g": _random.uniform(1.2, 2.0, size=(3, 4)),
    "v": _random.normal(size=5),
    "w": _random.normal(size=5),
    "b3": _random.normal(size=3),
    "c3": _random.normal(size=3),
    "cube": _random.normal(size=(2, 3, 4)),
    "m": _random.normal(size=(3, 3)) + 3 * np.eye(3),
    "spd": (lambda a: a @ a.T + 2 * np.eye(3))(_random.normal(size=(3, 3))),
    "s": np.asarray(0.7),
    "r": np.asarray(1.9),
    "holes": np.where(_random.uniform(size=(3, 4)) > 0.7, np.nan, _random.normal(size=(3, 4))),
}
ARRAYS: dict[str, Any] = {
    "arr": _random.normal(size=(3, 4)),
    "vec": _random.normal(size=5),
    "mat": _random.normal(size=(4, 2)),
    "mask": _random.uniform(size=(3, 4)) > 0.5,
    "flags": (_random.uniform(size=(3, 4)) > 0.5).astype(int),
    "idx": np.array([2, 0, -1]),
    "n": 12,
    "pair": (4, 3),
    "eps": 1e-3,
}

#: what the expressions call the modules of SciPy and the standard library
SCIENTIFIC = {
    "distance.": "scipy.spatial.distance.",
    "sfft.": "scipy.fft.",
    "slinalg.": "scipy.linalg.",
    "statistics.": "statistics.",
    "stats.": "scipy.stats.",
}
_UNARY_DOMAIN = {"arccosh": "g", "acosh": "g", "log": "u", "log1p": "u", "log2": "u", "log10": "u", "sqrt": "u",
                 "arcsin": "u", "arccos": "u", "arctanh": "u", "asin": "u", "acos": "u", "atanh": "u"}  # fmt: skip
CASES = [
    *(f"np.{name}({_UNARY_DOMAIN.get(name, 'x')})" for name in elementwise._UNARY if hasattr(np, name)),
    *(f"np.{name}({_UNARY_DOMAIN.get(name, 'x')})" for name in elementwise._UNARY_WRITTEN),
    *(f"np.{name}(x)" for name in elementwise._UNARY_FLAT if name != "logical_not"),
    "np.logical_not(mask)",
    *(f"np.{name}(g, u)" for name in elementwise._OPERATOR if hasattr(np, name)),
    *(f"np.{name}({a}, {b})" for name in elementwise._BINARY if hasattr(np, name)
      for a, b in (("x", "y"), ("x", "arr"), ("arr", "x"), ("x", "0"), ("0", "-x"), ("x", "v[:4]"))),
    *(f"np.{name}({pair})" for name in (*elementwise._BINARY_FLAT, *elementwise._COMPARISON) if "logical" not in name
      for pair in ("x, arr", "arr, x")),
    "np.hypot(x, arr)", "np.hypot(arr, x)", "np.hypot(x, 0)",
    "np.logical_and(mask, mask)", "np.logical_or(mask, mask)", "np.logical_xor(mask, mask)",
    "np.add(x, arr)", "np.subtract(arr, x)", "np.multiply(2, x)", "np.divide(x, arr[0])", "np.power(u, 3)",
    "np.power(2.0, x)", "np.add(x, y, dtype=np.float64)",
    "np.real(x)", "np.imag(np.fft.fft(v))",
    "np.angle(np.fft.fft(v))", "np.angle(np.fft.fft(v), deg=True)", "np.real(np.fft.fft(v))", "np.i0(x)",
    "np.clip(x, -0.5, 0.5)", "np.clip(x, 0, None)", "np.clip(x, None, 0)", "np.clip(x, a_min=arr - 1, a_max=arr + 1)",
    "np.where(x > 0, x, y)", "np.where(mask, x, 0)", "np.where(mask, 1.0, x)", "np.where(mask, 0, -x)",
    "np.where(arr > 0, 2, x)", "np.where(arr > 0, arr, x)",
    "np.where(flags, x, -x)", "np.nan_to_num(x)", "np.nan_to_num(holes)", "np.nan_to_num(holes, nan=1.5)",
    "np.round(x)", "np.around(x, 2)", "np.round_(x, decimals=1)",
    *(f"math.{name}({'r' if name == 'acosh' else 's'})" for name in elementwise._MATH if hasattr(math, name)),
    "math.log(s)", "math.log(s, 2)", "math.pow(s, 3)", "math.pow(2, s)", "math.atan2(s, r)", "math.erf(s)",
    "math.erfc(s)", "math.lgamma(s)", "math.hypot(s, r)", "math.hypot(3, s)", "math.dist(v, w)", "math.fsum(v)",
    "math.prod(v)", "math.floor(r)", "math.ceil(r)",
    *(f"special.{name}(u)" for name in elementwise._SPECIAL),
    "special.xlogy(u, g)", "special.xlog1py(u, g)", "special.softmax(x)", "special.softmax(x, axis=1)",
    "special.log_softmax(x)", "special.log_softmax(x, axis=0)", "special.logsumexp(x)",
    "special.logsumexp(x, axis=1, keepdims=True)",
    "slinalg.inv(m)", "slinalg.det(m)", "slinalg.solve(m, b3)", "slinalg.solve(m, spd)", "slinalg.expm(m * 0.1)",
    "slinalg.sqrtm(spd)", "slinalg.cholesky(spd)", "slinalg.cholesky(spd, lower=True)",
    "distance.cdist(x, y, 'sqeuclidean')", "distance.cdist(x, arr, metric='cityblock')",
    "stats.norm.logpdf(x)", "stats.norm.logpdf(x, loc=y, scale=u)", "stats.norm.pdf(x, 0.5)", "stats.norm.cdf(x, y, g)",
    "sfft.dct(x)", "sfft.dct(x, type=2, norm='ortho')",
    "statistics.fmean(v)", "statistics.mean(v)", "statistics.pstdev(v)", "statistics.pvariance(v)",
    "np.logaddexp(x, y)", "np.logaddexp(x, arr)", "np.logaddexp(0, x)", "np.logaddexp(x, 1.5)", "np.logaddexp(x, x)",
    "np.block([[m, spd], [spd, m]])", "np.block([[m, np.zeros((3, 2))], [np.eye(2), np.ones((2, 3))]])",
    # along an axis
    *(f"np.{name}(x{rest})" for name in ("sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "ptp")
      for rest in ("", ", axis=0", ", 1", ", axis=-1, keepdims=True", ", axis=None, keepdims=True")),
    *(f"np.{name}(cube, axis=(0, 2))" for name in ("sum", "mean", "prod", "max", "min", "std", "var")),
    "np.sum(x, axis=0, dtype=np.float64)", "np.mean(x, 0, np.float64)", "np.sum(x, dtype='float32')", "np.product(x)",
    "np.sum([s, r, 2.0])", "np.mean([x, y], axis=0)", "np.sum((x, arr))",
    *(f"np.{name}(x{rest}, ddof=1)" for name in ("std", "var") for rest in ("", ", axis=0",
        ", axis=-1, keepdims=True")),
    "np.std(cube, axis=(0, 1), ddof=2)",
    "np.median(x)", "np.median(v)", "np.median(x, axis=0)", "np.median(x, axis=1, keepdims=True)",
    "np.average(x)", "np.average(x, axis=1)", "np.average(x, weights=u)", "np.average(x, axis=1, weights=arr[0] ** 2)",
    *(f"np.{name}(holes{rest})" for name in ("nansum", "nanprod", "nanmean", "nanmax", "nanmin")
      for rest in ("", ", axis=1", ", axis=0, keepdims=True")),
    *(f"np.{name}(x{rest})" for name in ("cumsum", "cumprod", "cumproduct") for rest in ("", ", axis=0", ", 1")),
    "np.all(mask)", "np.any(mask, axis=0)", "np.all(x, axis=1)", "np.any(x)",
    *(f"np.{name}(x{rest})" for name in ("argmax", "argmin") for rest in ("", ", axis=0", ", -1",
        ", axis=1, keepdims=True")),
    "np.argsort(x)", "np.argsort(x, axis=0)", "np.argsort(x, axis=None)", "np.count_nonzero(x)",
    "np.count_nonzero(x, axis=0)", "np.sort(x)", "np.sort(x, axis=0)", "np.sort(x, axis=None)",
    "np.sort(x, kind='stable')",
    "np.diff(x)", "np.diff(x, axis=0)", "np.diff(x, n=2)", "np.trapz(v)", "np.trapezoid(v, dx=0.5)",
    "np.trapezoid(x, u)", "np.trapezoid(v, vec)",
    "np.add.reduce(x)", "np.add.reduce(x, axis=1)", "np.multiply.reduce(x, axis=1)", "np.maximum.reduce(x)",
    "np.minimum.reduce([x, y])", "np.maximum.reduce(cube, axis=(0, 2))", "np.add.reduce(x, axis=1, keepdims=True)",
    "np.logaddexp.reduce(x)", "np.logaddexp.reduce(x, axis=1)", "np.logical_and.reduce(x, axis=1)",
    "np.logical_or.reduce(mask)",
    *(f"np.{name}.accumulate({rest})" for name in ("add", "multiply", "logaddexp", "maximum", "minimum")
      for rest in ("v", "x", "x, axis=1", "cube, -1")),
    *(f"np.{name}.outer({rest})" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")
      for rest in ("v, w", "x, v", "v, arr", "arr, w", "s, v")),
    "np.power.outer(g[0], v)", "np.true_divide.outer(v, w)",
    # shapes
    "np.reshape(x, (4, 3))", "np.reshape(x, -1)", "np.reshape(x, n)", "np.reshape(x, np.shape(x.T))",
    "np.reshape(x, pair)", "np.reshape(x, [2, -1])",
    "np.reshape(x, x.shape[0] * 4)", "np.ravel(x)", "np.ravel(x, order='C')", "np.transpose(x)",
    "np.transpose(cube, (1, 0, 2))", "np.permute_dims(cube, [2, 0, 1])", "np.matrix_transpose(cube)",
    "np.swapaxes(cube, 0, 2)", "np.moveaxis(cube, 0, -1)", "np.moveaxis(cube, [0, 1], [1, 2])", "np.expand_dims(x, 1)",
    "np.expand_dims(x, axis=-1)", "np.squeeze(x[None])", "np.squeeze(x[:, None], axis=1)",
    "np.broadcast_to(v, (2, 5))", "np.broadcast_to(s, 3)", "np.tile(v, 2)", "np.tile(x, (2, 1, 2))", "np.repeat(x, 2)",
    "np.repeat(x, 3, axis=1)", "np.repeat(v, [1, 2, 0, 1, 3])", "np.pad(x, ((1, 0), (2, 1)))",
    "np.pad(x, [(1, 1), (0, 0)], mode='reflect')", "np.pad(x, ((1, 1), (2, 2)), 'symmetric')",
    "np.pad(x, ((1, 0), (0, 0)), constant_values=2.5)", "np.roll(x, 1)", "np.roll(x, -2, axis=1)",
    "np.roll(x, (1, 2), axis=(0, 1))", "np.flip(x)", "np.flip(x, 1)", "np.flip(x, axis=(0, 1))", "np.flipud(x)",
    "np.fliplr(x)", "np.rot90(x)", "np.rot90(x, 2)", "np.atleast_1d(s)", "np.atleast_2d(v)", "np.atleast_3d(x)",
    "np.take(x, [0, 5, 11])", "np.take(x, idx, axis=0)", "np.take(x, -1, axis=1)", "np.take(x, idx)", "np.take(v, 2)",
    "np.take_along_axis(x, np.argsort(arr, axis=1), axis=1)", "np.delete(x, 1, axis=0)", "np.delete(x, 0, axis=0)",
    "np.delete(x, -1, axis=0)", "np.delete(v, 2)", "np.delete(x, idx, axis=1)", "np.delete(x, [0, 2], axis=1)",
    "np.compress(mask[0], x, axis=1)", "np.diag(v)", "np.diag(m)", "np.diag(x, k=1)", "np.diag(v, -1)",
    "np.diagflat(v)",
    "np.diagonal(m)", "np.diagonal(x, offset=1)", "np.tril(x)", "np.triu(x, 1)", "np.split(x, 2, axis=1)",
    "np.split(v, [1, 3])", "np.vsplit(x, 3)", "np.hsplit(x, 2)", "np.dsplit(cube, 2)", "np.copy(x)",
    "np.ascontiguousarray(x)", "np.zeros_like(x)", "np.ones_like(x)", "np.full_like(arr, s)", "np.full((2, 3), s)",
    "np.full(4, s)", "np.full_like(x, 2.5)", "np.float16(x)", "np.float32(x)", "np.float64(x)", "np.complex64(x)",
    "np.complex128(x)", "np.astype(x, np.float64)", "np.ndim(x)", "np.size(x)",
    # joining
    "np.array([s, r])", "np.array([s, 1, 2.5])", "np.array([[1, 0], [0, s]])", "np.array([[s, r], [r, s]])",
    "np.array([x, y])", "np.array([x, arr])", "np.array(x)", "np.array([2 * e for e in v])",
    "np.array([[a * c for a in v] for c in w])", "np.array((s, r), dtype=np.float64)", "np.asarray([s, r])",
    "np.asarray(x)", "np.asanyarray([v, w])", "np.asfarray([s, r])", "np.stack([x, y])", "np.stack([x, arr], axis=-1)",
    "np.stack((x, y), 1)", "np.concatenate([x, y])", "np.concatenate((x, arr), axis=1)", "np.concatenate([arr, x], -1)",
    "np.concat([x, y])", "np.vstack([x, y])", "np.vstack([x, arr])", "np.hstack((arr, x))",
    "np.array([x[0], arr[0]])", "np.vstack((v, w))", "np.row_stack((v, w))", "np.hstack([x, y])",
    "np.hstack((v, w))", "np.dstack([x, y])", "np.column_stack([v, w])", "np.append(x, y)", "np.append(v, 3.0)",
    "np.append(x, y, axis=0)", "np.append(arr, x, axis=1)", "np.append(v, [s, r])", "np.linspace(0, s, 5)",
    "np.linspace(s, r, num=4)", "np.linspace(s, 3.0)", "np.meshgrid(v, w)", "np.meshgrid(v, w, indexing='ij')",
    "np.broadcast_arrays(x, v[:4])", "np.polyval([1, 2.0, -3], x)", "np.polyval(v, x)", "np.polyval(vec, x)",
    "np.vander(v)", "np.vander(v, 3, increasing=True)",
    # products
    "np.dot(v, w)", "np.dot(x, mat)", "np.dot(x, y.T)", "np.dot(cube, mat)", "np.dot(m, b3)", "np.dot(b3, x)",
    "np.dot(s, x)", "np.dot(cube, np.swapaxes(cube, 1, 2))", "np.dot(2.0, x)", "np.matmul(x, mat)",
    "np.matmul(m, b3)", "np.matmul(b3, m)",
    "np.matmul(v, vec)", "np.matmul(cube, mat)", "np.inner(v, w)", "np.inner(x, arr)", "np.inner(cube, x)",
    "np.outer(v, w)", "np.outer(x, vec)", "np.vdot(v, w)", "np.vdot(x, arr)", "np.kron(m, x)", "np.kron(v, vec)",
    "np.cross(b3, c3)", "np.cross(m, c3)", "np.tensordot(x, y)", "np.tensordot(x, mat, axes=1)",
    "np.tensordot(cube, x, axes=([1, 2], [0, 1]))", "np.tensordot(v, vec, 0)", "np.einsum('ij,kj->ik', x, arr)",
    "np.einsum('ii', m)", "np.einsum('...j,j', cube, x[0], optimize=True)", "np.trace(m)", "np.trace(x, offset=1)",
    "np.convolve(v, b3)", "np.convolve(v, b3, mode='valid')", "np.convolve(v, vec[:2])",
    # linear algebra
    *(f"np.linalg.norm(x{rest})" for rest in ("", ", axis=1", ", axis=0, keepdims=True", ", ord=1, axis=1",
      ", 2, 0", ", np.inf, axis=1", ", 3, axis=-1", ", 'fro'", ", axis=(0, 1)", ", keepdims=True")),
    "np.linalg.inv(m)", "np.linalg.det(m)", "np.linalg.slogdet(m)", "np.linalg.solve(m, b3)", "np.linalg.solve(m, x)",
    "np.linalg.solve(m, arr)", "np.linalg.cholesky(spd)", "np.linalg.eigvalsh(spd)", "np.linalg.eigh(spd)[0]",
    "np.linalg.svd(x, compute_uv=False)", "np.linalg.svdvals(x)", "np.linalg.pinv(x)", "np.linalg.pinv(m)",
    "np.linalg.matmul(m, x)",
    # Fourier transforms
    "np.abs(np.fft.fft(v))", "np.abs(np.fft.ifft(x))", "np.abs(np.fft.fft2(x))", "np.abs(np.fft.ifft2(x))",
    "np.abs(np.fft.rfft(v))", "np.abs(np.fft.rfft(v, 8))", "np.abs(np.fft.rfft(x, n=3))", "np.abs(np.fft.rfft2(x))",
    "np.abs(np.fft.rfft(x, n=4))", "np.fft.irfft(np.fft.rfft(x), n=2)", "np.fft.irfft(np.fft.rfft(v), n=3)",
    "np.fft.irfft(np.fft.rfft(x))", "np.fft.irfft(np.fft.rfft(v), 5)",
    "np.fft.irfft(np.fft.rfft(x), n=6)", "np.fft.irfft2(np.fft.rfft2(x))", "np.fft.fftshift(x)",
    "np.fft.fftshift(x, axes=1)", "np.fft.ifftshift(x, axes=(0,))",
    # methods and attributes
    *(f"x.{name}({rest})" for name in ("sum", "mean", "prod", "max", "min", "std", "var") for rest in ("", "0",
        "axis=1, keepdims=True")),
    "x.std(ddof=1)", "x.ptp()", "mask.all()", "mask.any(axis=0)", "x.argmax()", "x.argmin(1)", "x.argsort(axis=0)",
    "x.cumsum()", "x.cumsum(axis=1)", "x.cumprod(0)", "x.round(2)", "x.clip(0, 1)", "x.clip(max=0)", "x.clip(min=0)",
    "v.dot(w)", "x.dot(mat)", "m.trace()", "m.diagonal()", "x.swapaxes(0, 1)", "x[None].squeeze()", "x.ravel()",
    "x.repeat(2, axis=0)", "x.take([0, 3])", "x.conj()", "x.conjugate()", "x.astype(np.float64)", "x.astype('float32')",
    "x.astype(float)", "x.astype(np.float32, copy=False)", "x.reshape(4, 3)", "x.reshape((4, 3))", "x.reshape(-1)",
    "x.reshape(n)", "x.reshape(pair)", "x.reshape(2, *(3, 2))", "x.reshape(len(x), -1)", "x.transpose()",
    "cube.transpose(1, 0, 2)", "cube.transpose((2, 1, 0))", "x.flatten()", "x.copy()", "s.item()", "v.tolist()",
    "x.compress(mask[:, 0], axis=0)", "x.T", "cube.mT", "x.real", "np.fft.fft(v).real", "np.fft.fft(v).imag",
    "(x + y).mean(axis=0).reshape(2, 2).astype(np.float64).T",
]  # fmt: skip


def resolved(node: ast.expr) -> str:
    text = ast.unparse(node)
    for short, full in (("np.", "numpy."), ("math.", "math."), ("special.", "scipy.special."), *SCIENTIFIC.items()):
        if text.startswith(short):
            return full + text[len(short) :]
    assert isinstance(node, ast.Attribute)
    return f"ndarray.{node.attr}"


def in_tensorflow(expression: str) -> tuple[str, list[Rewrite]]:
    """The expression with every NumPy call on a tensor translated, the innermost first, as a rule would do it."""
    rewrites: list[Rewrite] = []
    text = expression
    while True:
        doc = Document("m.py", text.encode())
        found = None
        for node in ast.walk(doc.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _foreign(node):
                found = node  # the last one is the deepest
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("T", "mT", "real", "imag")
                and _root(node) not in MODULES
            ):
                found = node
        if found is None:
            return text, rewrites
        if isinstance(found, ast.Call):
            tensors = [one for one in ast.walk(found) if isinstance(one, ast.expr) and _is_tensor(one)]
            result = numpy_table.translate_call(doc, found, resolved(found.func), tensors)
        else:
            result = numpy_table.translate_attribute(found)
        assert isinstance(result, Rewrite), (expression, result)
        rewrites.append(result)
        start, end = doc.span(found)
        text = f"{doc.text[:start]}({result.text(doc)}){doc.text[end:]}"


MODULES = ("np", "math", "special", "tf", *(short[:-1] for short in SCIENTIFIC))


def _root(node: ast.expr) -> str:
    """The name that a dotted path begins with; "" for a method of an expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _foreign(node: ast.Call) -> bool:
    """Whether the call is one of NumPy's on a tensor (or on `mask`, whose functions are of interest here)."""
    root = _root(node.func)
    if root in MODULES:
        inputs = [*node.args, *(keyword.value for keyword in node.keywords)]
        return root != "tf" and any(_has_tensor(one) or "mask" in ast.unparse(one) for one in inputs)
    assert isinstance(node.func, ast.Attribute)
    return (_has_tensor(node.func.value) or root == "mask") and node.func.attr != "num_elements"


def _has_tensor(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Name) and (one.id in TENSORS or one.id == "tf") for one in ast.walk(node))


def _is_tensor(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Subscript, ast.Call, ast.Attribute, ast.BinOp, ast.UnaryOp)) and _has_tensor(
        node
    )


def evaluated(expression: str, names: dict[str, Any]) -> Any:
    scipy_special = pytest.importorskip("scipy.special") if "special." in expression else None
    others = {short[:-1]: pytest.importorskip(full[:-1]) for short, full in SCIENTIFIC.items() if short in expression}
    known = {"np": np, "math": math, "tf": tf, "special": scipy_special, **others}
    return eval(expression, {**known, **ARRAYS, **names})


def _flat(value: Any) -> Any:
    """All numbers of a result in one vector, complex ones as two."""
    if isinstance(value, (list, tuple)) or hasattr(value, "_fields"):
        return np.concatenate([_flat(one) for one in value]) if len(value) else np.zeros(0)
    value = np.ravel(np.asarray(value))
    if np.iscomplexobj(value):
        return np.concatenate([value.real, value.imag]).astype(np.float64)
    return value.astype(np.float64)


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)) or hasattr(value, "_fields"):
        return [_shape(one) for one in value]
    return tuple(np.shape(value))


def _tf_flat(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tf.concat([_tf_flat(one) for one in value], axis=0)
    value = tf.reshape(tf.convert_to_tensor(value), [-1])
    if value.dtype.is_complex:
        value = tf.concat([tf.math.real(value), tf.math.imag(value)], axis=0)
    return tf.cast(value, tf.float64)


def _scalars(names: dict[str, Any], expression: str) -> dict[str, Any]:
    """`math` takes numbers."""
    return {name: value.item() if value.ndim == 0 and "math." in expression else value for name, value in names.items()}


def _known_to_this_numpy(expression: str) -> bool:
    try:
        evaluated(expression, _scalars(TENSORS, expression))
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("expression", CASES)
def test_row_agrees_with_numpy(expression: str) -> None:
    if not _known_to_this_numpy(expression):
        pytest.skip("this NumPy has no such function")
    translated, rewrites = in_tensorflow(expression)
    assert rewrites, "nothing was translated"
    names = dict(TENSORS)
    used = [
        name for name in names if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(ast.parse(expression)))
    ]
    loose = "complex64" in translated or "float32" in translated or "float16" in translated

    # the value, in float64
    expected = evaluated(expression, _scalars(names, expression))
    tensors = {name: tf.constant(names[name]) for name in names}
    with tf.GradientTape() as tape:
        for name in used:
            tape.watch(tensors[name])
        result = evaluated(translated, tensors)
        flat = _tf_flat(result)
        weights = np.random.default_rng(3).normal(size=flat.shape)
        target = tf.reduce_sum(flat * weights)
    tolerance = 2e-3 if "float16" in translated else 2e-5 if loose else 1e-9
    assert _shape(result) == _shape(expected), translated
    np.testing.assert_allclose(flat, _flat(expected), rtol=tolerance, atol=tolerance, err_msg=translated)

    # the gradient, along a random direction
    if used and all(one.differentiable for one in rewrites):
        found = tape.gradient(target, [tensors[name] for name in used])
        gradients = [None if one is None else tf.convert_to_tensor(one) for one in found]
        assert any(one is not None for one in gradients), f"no gradient: {translated}"
        direction = {name: np.random.default_rng(11).normal(size=names[name].shape) for name in used}
        if "spd" in used:  # the decompositions read one triangle: stay among the symmetric matrices
            direction["spd"] = direction["spd"] + direction["spd"].T
        step = 1e-6

        def moved(sign: int) -> float:
            there = {
                name: value + sign * step * direction[name] if name in used else value for name, value in names.items()
            }
            return float(np.sum(_flat(evaluated(expression, _scalars(there, expression))) * weights))

        if not loose:
            numeric = (moved(1) - moved(-1)) / (2 * step)
            along = sum(
                float(tf.reduce_sum(one * direction[name]))
                for one, name in zip(gradients, used, strict=True)
                if one is not None
            )
            assert along == pytest.approx(numeric, rel=2e-5, abs=2e-6), translated

    # the type and the value, in float32
    small = {name: value.astype(np.float32) for name, value in names.items()}
    expected32 = evaluated(expression, _scalars(small, expression))
    result32 = evaluated(translated, {name: tf.constant(value) for name, value in small.items()})
    limit = 5e-3 if "float16" in translated else 2e-4
    np.testing.assert_allclose(_flat_any(result32), _flat(expected32), rtol=limit, atol=limit, err_msg=translated)
    if all(one.exactness == "same" and one.differentiable for one in rewrites) and hasattr(expected32, "dtype"):
        assert result32.dtype.name == expected32.dtype.name, translated


def _flat_any(value: Any) -> Any:
    return _tf_flat(value).numpy()


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("np.mean(x, out=arr)", "`out=`"),
        ("np.sum(x, where=mask)", "`where=`"),
        ("np.sum(x, initial=3.0)", "`initial=`"),
        ("np.mean(*x)", r"`\*` arguments"),
        ("np.mean(x, **k)", r"`\*\*` arguments"),
        ("np.mean(x, axes=0)", "`axes=`"),
        ("np.mean(x, 0, None, None, False, 3)", "more arguments"),
        ("np.histogram(x)", "count"),
        ("np.interp(x, vec, vec)", "interpolation"),
        ("np.percentile(x, 50)", "no function"),
        ("np.random.normal(x, 1.0)", "draw"),
        ("np.unheard_of(x)", "not in the table"),
        ("np.linalg.svd(x)", "unpacking"),
        ("np.linalg.norm(x, 2)", "by the rank"),
        ("np.linalg.norm(x, -1, axis=0)", "ord=-1"),
        ("np.linalg.norm(x, 'nuc')", "ord=nuc"),
        ("np.reshape(x, (4, 3), order='F')", "order"),
        ("np.pad(x, 1)", "pairs"),
        ("np.pad(x, ((1, 1), (2, 2)), mode='edge')", "edge"),
        ("np.fft.fft(x, axis=0)", "axis"),
        ("np.fft.fft(x, norm='ortho')", "norm"),
        ("np.where(x)", "positions"),
        ("np.array([x], dtype=np.int64)", "`int64`"),
        ("np.array([x], dtype=object)", "`object`"),
        ("x.astype(int)", "`int`"),
        ("x.astype('int32')", "`int32`"),
        ("x.astype(np.bool_)", "`bool_`"),
        ("x.sort()", "in place"),
        ("x.tobytes()", "leaves TensorFlow"),
        ("np.linspace(s, r, endpoint=False)", "endpoint"),
        ("np.convolve(v, w, 'same')", "same"),
        ("np.median(cube, axis=(0, 1))", "several axes"),
        ("np.maximum.accumulate(x, axis=k)", "not written out"),
        ("np.subtract.accumulate(v)", "not in the table"),
        ("np.add.at(x, idx, v)", "in place"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_a_reason(expression: str, reason: str) -> None:
    doc = Document("m.py", expression.encode())
    call = doc.tree.body[0].value  # type: ignore[attr-defined]
    tensors = [node for node in ast.walk(call) if isinstance(node, ast.Name) and node.id in TENSORS]
    result = numpy_table.translate_call(doc, call, resolved(call.func), tensors)
    assert isinstance(result, Refusal)
    assert pytest.importorskip("re").search(reason, result.reason), result.reason


def test_every_row_has_a_case() -> None:
    spoken = set()
    for expression in CASES:
        for node in ast.walk(ast.parse(expression)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                spoken.add(resolved(node.func))
    absent = {name for name in numpy_table.rows() if name not in spoken}
    # of NumPy's functions of other versions
    assert {name for name in absent if _exists(name)} == set()


def _exists(name: str) -> bool:
    root: Any = {"numpy": np, "math": math, "ndarray": np.ndarray}.get(name.split(".")[0])
    for part in name.split(".")[1:]:
        root = getattr(root, part, None)
    return root is not None


def translate(expression: str, *tensors: str, ranks: dict[str, int] | None = None) -> Rewrite:
    doc = Document("m.py", expression.encode())
    call = doc.tree.body[0].value  # type: ignore[attr-defined]
    nodes = [node for node in ast.walk(call) if isinstance(node, ast.expr)]
    named: Callable[[str], list[ast.expr]] = lambda text: [n for n in nodes if doc.source(n) == text]  # noqa: E731
    known = {n: rank for text, rank in (ranks or {}).items() for n in named(text)}
    result = numpy_table.translate_call(doc, call, resolved(call.func), [n for t in tensors for n in named(t)], known)
    assert isinstance(result, Rewrite), result
    return result


def test_attributes() -> None:
    x = tf.ones((3, 4))
    for name, expected in (("T", (4, 3)), ("size", 12), ("ndim", 2), ("shape", (3, 4)), ("dtype", tf.float32)):
        node = ast.parse(f"x.{name}", mode="eval").body
        assert isinstance(node, ast.Attribute)
        result = numpy_table.translate_attribute(node)
        assert isinstance(result, Rewrite)
        value = eval(result.text(Document("m.py", f"x.{name}".encode())), {"tf": tf, "x": x})
        assert (tuple(value.shape) if name == "T" else value) == expected
    node = ast.parse("x.strides", mode="eval").body
    assert isinstance(node, ast.Attribute)
    assert isinstance(numpy_table.translate_attribute(node), Refusal)


def test_known_ranks_give_plainer_code() -> None:
    def text(expression: str, ranks: dict[str, int]) -> str:
        return translate(expression, "x", "y", ranks=ranks).text(Document("m.py", expression.encode()))

    assert text("np.dot(x, y)", {"x": 2, "y": 2}) == "tf.matmul(x, y)"
    assert text("np.dot(x, y)", {"x": 2, "y": 1}) == "tf.reduce_sum(x * y, axis=-1)"
    assert text("np.dot(x, y)", {}) == "tf.experimental.numpy.dot(x, y)"
    assert text("np.linalg.solve(x, y)", {"y": 2}) == "tf.linalg.solve(x, y)"
    assert text("np.linalg.norm(x, 1)", {"x": 1}) == "tf.norm(x, ord=1)"


def test_what_a_rewrite_tells_of_itself() -> None:
    assert translate("np.mean(x)", "x").needs == {"tensorflow"}
    assert translate("np.vstack([x, x])", "x").needs == {"tensorflow", "tensorflow>=2.4"}
    assert not translate("np.argmax(x)", "x").differentiable
    assert translate("np.std(f(x), ddof=1)", "f(x)").repeated == {"a"}
    assert translate("np.std(x, ddof=1)", "x").repeated == frozenset()


def written(text: str, target: str) -> str | Refusal:
    """The document after the call written as `target` was translated and written."""
    doc = Document("m.py", text.encode())
    call = next(n for n in ast.walk(doc.tree) if isinstance(n, ast.Call) and doc.source(n) == target)
    rewrite = numpy_table.translate_call(doc, call, resolved(call.func), call.args)
    assert isinstance(rewrite, Rewrite)
    edits = EditSet(doc)
    refused = numpy_table.write(edits, call, rewrite)
    if refused:
        assert not edits
        return refused
    imports.remove_unused(edits)
    return edits.apply().text


def test_writing_a_call_brings_import_and_name() -> None:
    before = "import numpy as np\n\ndef f(x):\n    return 1 - np.var(g(x), ddof=1)\n"
    values = "tf.math.reduce_variance(values) * count / (count - 1)".replace(
        "count", "tf.cast(tf.size(values), values.dtype)"
    )
    assert written(before, "np.var(g(x), ddof=1)") == (
        f"import tensorflow as tf\n\ndef f(x):\n    values = g(x)\n    return 1 - {values}\n"
    )


def test_writing_uses_the_documents_own_name_for_tensorflow() -> None:
    assert written("import tensorflow as T\ny = np.mean(x)\n", "np.mean(x)") == (
        "import tensorflow as T\ny = T.reduce_mean(x)\n"
    )


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("y = [np.std(g(x), ddof=1) for x in z]", "again and again"),
        ("y = a if b else np.std(g(x), ddof=1)", "not always"),
        ("y = b and np.std(g(x), ddof=1)", "not always"),
        ("y = h() + np.std(g(x), ddof=1)", "another call"),
        ("while np.std(g(x), ddof=1): pass", "compound"),
        ("y = lambda: np.std(g(x), ddof=1)", "again and again"),
    ],
)
def test_what_cannot_be_named_before_its_statement_is_refused(statement: str, reason: str) -> None:
    refused = written(statement + "\n", "np.std(g(x), ddof=1)")
    assert isinstance(refused, Refusal)
    assert reason in refused.reason
