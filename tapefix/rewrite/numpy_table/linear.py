"""Products, `numpy.linalg` and `numpy.fft`."""

from __future__ import annotations

import ast
import re

from tapefix.codemod import Refusal
from tapefix.rewrite.numpy_table.row import Bound, Code, Row

_TNP = "tf.experimental.numpy."
_PART = re.compile(r"\{\w+\}")


def _product(name: str) -> Code:
    """`dot` and `matmul`: readable where both ranks are known to be two, else with NumPy's rules for every rank."""

    def code(bound: Bound) -> str:
        one, two = bound.rank("a"), bound.rank("b")
        if one is not None and two is not None and one >= 2 and two >= 2 and (name == "matmul" or one == two == 2):
            return "tf.matmul({a}, {b})"
        if name == "dot" and one is not None and two is not None and one >= 1 and two in (1, 2):
            return "tf.tensordot({a}, {b}, axes=1)" if two == 2 else "tf.reduce_sum({a} * {b}, axis=-1)"
        return _paired(bound, _TNP + name + "({a}, {b})")

    return code


def _pairwise(template: str) -> Code:
    """A template with `{a}` and `{b}`, the one that is no tensor brought to the other's type."""

    return lambda bound: _paired(bound, template)


def _paired(bound: Bound, template: str) -> str:
    # the promotion of types is NumPy's in tf.experimental.numpy and an error elsewhere: keep the tensor's own
    left, right = bound.matched("a", "b"), bound.matched("b", "a")
    return _PART.sub(lambda match: {"{a}": left, "{b}": right}.get(match[0], match[0]), template)


def _einsum(bound: Bound) -> str | Refusal:
    if not bound.rest or not (isinstance(bound.rest[0], ast.Constant) and isinstance(bound.rest[0].value, str)):
        return Refusal("numpy.einsum without its equation as a string")
    if any(isinstance(one, ast.Starred) for one in bound.rest):
        return Refusal("numpy.einsum of operands that are not written out")
    operands = bound.alike(bound.rest[1:], "operand") or [f"{{rest{k}}}" for k in range(1, len(bound.rest))]
    return f"tf.einsum({', '.join(['{rest0}', *operands])})"


def _norm(bound: Bound) -> str | Refusal:
    order = bound.literal("ord")
    axis = bound.literal("axis")
    bound.used -= {"ord", "axis"}
    infinite = isinstance(bound.node("ord"), ast.Attribute) and getattr(bound.node("ord"), "attr", "") == "inf"
    if not bound.has("ord") or (order == "fro" and not bound.has("axis")):
        bound.used.add("ord")
        return "tf.norm({x}, axis=axis?, keepdims=keepdims?)"
    if not (infinite or (isinstance(order, (int, float)) and order > 0)):
        return Refusal(f"numpy.linalg.norm with ord={order if order is not ... else '…'} has no counterpart here")
    if not bound.has("axis"):
        if bound.rank("x") == 1:
            return "tf.norm({x}, ord={ord}, keepdims=keepdims?)"
        return Refusal("with `ord=` and no `axis=` NumPy takes the norm of a vector or of a matrix, by the rank")
    if axis is ... or isinstance(axis, (tuple, list)):
        return Refusal("a matrix norm other than Frobenius' has no counterpart in TensorFlow")
    return "tf.norm({x}, ord={ord}, axis={axis}, keepdims=keepdims?)"


def _solve(bound: Bound) -> str:
    left, right = bound.matched("a", "b"), bound.matched("b", "a")
    if (bound.rank("b") or 0) >= 2:
        return f"tf.linalg.solve({left}, {right})"
    # b may be a vector or a matrix: as columns, and back
    columns = f"tf.reshape({right}, [tf.shape({{a}})[-1], -1])"
    return f"tf.reshape(tf.linalg.solve({left}, {columns}), tf.shape({{b}}))"


def _svd(bound: Bound) -> str | Refusal:
    if bound.literal("compute_uv", True) is False:
        bound.used |= {"full_matrices"}
        return "tf.linalg.svd({a}, compute_uv=False)"
    return Refusal("numpy.linalg.svd returns (u, s, v^T), tf.linalg.svd (s, u, v): the unpacking has to change too")


def _fourier(function: str, length: str = "") -> Code:
    """A transform along the last axis (or axes), of unscaled forward transforms as TensorFlow's."""

    def code(bound: Bound) -> str | Refusal:
        if bound.literal("axis", -1) != -1 or (bound.has("axes") and bound.literal("axes") != (-2, -1)):
            return Refusal("a Fourier transform along another axis than the last: transpose first")
        if bound.literal("norm", "backward") not in ("backward", None):
            return Refusal("a Fourier transform with `norm=` has no counterpart in TensorFlow: scale by hand")
        if bound.has("s") or (bound.has("n") and not length):
            return Refusal("a Fourier transform with a length of its own: pad or cut first")
        if bound.has("n"):
            # cut first: the gradient of TensorFlow's own cut fails
            return f"tf.signal.{function}({{a}}[..., :{length}], fft_length=[{{n}}])"
        return f"tf.signal.{function}({'{a}' if 'rfft' in function else 'tf.cast({a}, tf.complex64)'})"

    return code


def _convolve(bound: Bound) -> str | Refusal:
    mode = bound.literal("mode", "full")
    if mode not in ("full", "valid"):
        return Refusal("numpy.convolve with the mode 'same' has no counterpart in TensorFlow")
    left, right = bound.matched("a", "v"), bound.matched("v", "a")
    if mode == "full":
        left = f"tf.pad({left}, [[tf.size({{v}}) - 1, tf.size({{v}}) - 1]])"
    # conv1d is a correlation of (batch, width, channels) with (width, in, out)
    kernel = f"tf.reverse({right}, axis=[0])[:, None, None]"
    return f'tf.reshape(tf.nn.conv1d(({left})[None, :, None], {kernel}, 1, "VALID"), [-1])'


def _linalg(name: str, signature: str, code: Code, source: str = "", note: str = "", exactness: str = "same") -> Row:
    return Row(f"numpy.linalg.{name}", signature, code, source or f"tf.linalg.{name}", note, exactness)


def _row(name: str, signature: str, code: Code, source: str, exactness: str = "dtype") -> Row:
    return Row(f"numpy.{name}", signature, code, source, exactness=exactness, dropped=frozenset({"optimize"}))


ROWS: list[Row] = [
    _row("dot", "a, b, out=None", _product("dot"), "tf.experimental.numpy.dot"),
    _row("matmul", "a, b, out=None", _product("matmul"), "tf.experimental.numpy.matmul"),
    _row("inner", "a, b", _pairwise(_TNP + "inner({a}, {b})"), "tf.experimental.numpy.inner"),
    _row("outer", "a, b, out=None", _pairwise("tf.tensordot(tf.reshape({a}, [-1]), tf.reshape({b}, [-1]), axes=0)"),
         "tf.tensordot"),
    _row("vdot", "a, b", _pairwise(_TNP + "vdot({a}, {b})"), "tf.experimental.numpy.vdot"),
    _row("kron", "a, b", _pairwise(_TNP + "kron({a}, {b})"), "tf.experimental.numpy.kron"),
    _row("cross", "a, b, axisa=-1, axisb=-1, axisc=-1, axis=None",
         _pairwise(_TNP + "cross({a}, {b}, axisa=axisa?, axisb=axisb?, axisc=axisc?, axis=axis?)"),
         "tf.experimental.numpy.cross"),
    _row("tensordot", "a, b, axes=2",
         lambda bound: _paired(bound, "tf.tensordot({a}, {b}, axes=" + ("{axes})" if bound.has("axes") else "2)")),
         "tf.tensordot"),
    _row("einsum", "*operands, out=None, optimize=False", _einsum, "tf.einsum"),
    _row("trace", "a, offset=0, axis1=0, axis2=1, dtype=None, out=None",
         _TNP + "trace({a}, offset=offset?, axis1=axis1?, axis2=axis2?)", "tf.experimental.numpy.trace", "same"),
    _row("convolve", "a, v, mode='full'", _convolve, "tf.nn.conv1d"),
    _linalg("norm", "x, ord=None, axis=None, keepdims=False", _norm, "tf.norm"),
    _linalg("inv", "a", "tf.linalg.inv({a})"),
    _linalg("det", "a", "tf.linalg.det({a})"),
    _linalg("slogdet", "a", "tf.linalg.slogdet({a})"),
    _linalg("solve", "a, b", _solve, exactness="dtype"),
    _linalg("cholesky", "a, *, upper=False", "tf.linalg.cholesky({a})"),
    _linalg("eigvalsh", "a, UPLO='L'", "tf.linalg.eigvalsh({a})"),
    _linalg("eigh", "a, UPLO='L'", "tf.linalg.eigh({a})",
            note="an eigenvector's sign is free and may come out the other way"),
    _linalg("svd", "a, full_matrices=True, compute_uv=True, hermitian=False", _svd),
    _linalg("svdvals", "x", "tf.linalg.svd({x}, compute_uv=False)", "tf.linalg.svd"),
    _linalg("pinv", "a, rcond=None, hermitian=False", "tf.linalg.pinv({a}, rcond=rcond?)",
            note="TensorFlow's default `rcond` is larger: values differ where the matrix is nearly singular"),
    _linalg("matmul", "a, b", _product("matmul"), "tf.experimental.numpy.matmul", exactness="dtype"),
    *(
        Row(f"numpy.fft.{name}", signature, _fourier(to, length), f"tf.signal.{to}", exactness="dtype",

            note="complex64, where older NumPy gives complex128")
        for name, to, length, signature in (
            ("fft", "fft", "", "a, n=None, axis=-1, norm=None, out=None"),
            ("ifft", "ifft", "", "a, n=None, axis=-1, norm=None, out=None"),
            ("rfft", "rfft", "{n}", "a, n=None, axis=-1, norm=None, out=None"),
            ("irfft", "irfft", "{n} // 2 + 1", "a, n=None, axis=-1, norm=None, out=None"),
            ("fft2", "fft2d", "", "a, s=None, axes=(-2, -1), norm=None, out=None"),
            ("ifft2", "ifft2d", "", "a, s=None, axes=(-2, -1), norm=None, out=None"),
            ("rfft2", "rfft2d", "", "a, s=None, axes=(-2, -1), norm=None, out=None"),
            ("irfft2", "irfft2d", "", "a, s=None, axes=(-2, -1), norm=None, out=None"),
        )
    ),
    *(
        Row(f"numpy.fft.{name}", "x, axes=None", f"tf.signal.{name}({{x}}, axes=axes?)", f"tf.signal.{name}")
        for name in ("fftshift", "ifftshift")
    ),
]  # fmt: skip
