"""What reads a buffer, said anew for a tensor: `.T`, `.mean()`, `.copy()`, `.value()`, arrays as indices, constants."""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators.access import At, Fancy, Read
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import NotProven
from tapefix.rewrite.accumulators.syntax import dotted
from tapefix.rewrite.accumulators.values import wanted_cast
from tapefix.rewrite.edits import EditSet

_SAME_ON_TENSORS = {"shape", "dtype", "numpy", "ndim", "get_shape", "device", "name"}
_REDUCED = {
    "mean": "reduce_mean",
    "sum": "reduce_sum",
    "max": "reduce_max",
    "min": "reduce_min",
    "prod": "reduce_prod",
    "std": "math.reduce_std",
    "var": "math.reduce_variance",
    "any": "reduce_any",
    "all": "reduce_all",
}
_CONSTANT = ("tf.constant", "tf.convert_to_tensor", "tensorflow.constant", "tensorflow.convert_to_tensor")


def as_tensor(job: Job, edits: EditSet, read: Read, text: str | None = None) -> None:
    """Edits for one read of a buffer that is a tensor now; `text` stands for the buffer, if not its name."""
    node = read.use.spot.node
    assert isinstance(node, ast.expr)
    if text is not None:
        edits.replace(node, text)
    for element in read.access.index:
        if isinstance(element, Fancy) or (isinstance(element, At) and job.facts.is_array_index(element.node)):
            _gathered(job, edits, read)
            break
    if meets_float64(job, read.access.node):
        tf = job.tf(edits, read.access.node)
        edits.rewrite(read.access.node, tf + ".cast({inner}, " + tf + ".float64)", inner=read.access.node)
        return
    _surroundings(job, edits, read.access.node)


def redirected(job: Job, edits: EditSet, read: Read, name: str) -> None:
    """The read of a Variable that is kept reads the tensor `name`; what only a Variable has is still asked of it."""
    parent = job.syntax.parent(read.access.node)
    if isinstance(parent, ast.Attribute) and parent.attr in ("name", "trainable", "handle", "path", "initializer"):
        return
    as_tensor(job, edits, read, name)


def meets_float64(job: Job, node: ast.expr) -> bool:
    """Whether a float64 NumPy buffer is combined with a float64 tensor, which takes arrays but no float32 tensors."""
    if job.made.library != "numpy" or job.made.dtype != "float64" or wanted_cast(job) is not None:
        return False
    parent = job.syntax.parent(node)
    match parent:
        case ast.BinOp(left=left, right=right):
            others = [right if left is node else left]
        case ast.Call(func=ast.Attribute(), args=args) if node in args and (dotted(parent.func) or "").startswith(
            "tf."
        ):
            others = [arg for arg in args if arg is not node]
        case _:
            return False
    uses = [use.use.spot.node for use in job.uses]  # what is computed from the buffer changes its type along with it
    others = [other for other in others if not any(job.syntax.inside(use, other) for use in uses)]
    return any(job.facts.dtype(other) == "float64" and not _is_array(job, other) for other in others)


def _is_array(job: Job, node: ast.expr) -> bool:
    """Whether an operand is a NumPy array, which takes the type of the tensor that it meets."""
    if isinstance(node, ast.Name):
        value = job.dims.single_value(node)
        return value is not None and _is_array(job, value)
    if isinstance(node, ast.Subscript):
        return _is_array(job, node.value)
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("np.", "numpy."))


def _gathered(job: Job, edits: EditSet, read: Read) -> None:
    """`buf[[0, 2]]`: TensorFlow's subscripts take no arrays but masks; `tf.gather` does."""
    subscript = read.access.node
    element = read.access.index[0]
    if len(read.access.index) != 1 or not isinstance(subscript, ast.Subscript) or not isinstance(element, At | Fancy):
        raise NotProven(f"line {job.line(subscript)} picks with an array among other indices")
    if isinstance(element.node, ast.Compare | ast.BoolOp):
        return
    if isinstance(element.node, ast.UnaryOp):
        return
    tf = job.tf(edits, subscript)
    edits.rewrite(subscript, tf + ".gather({whole}, {index})", whole=subscript.value, index=element.node)


def _surroundings(job: Job, edits: EditSet, node: ast.expr) -> None:
    """What takes the value of `node`, as far as it stays an array: attributes, methods, arithmetic, constants."""
    following: ast.expr | None = node
    while following is not None:
        node, following = following, None
        parent = job.syntax.parent(node)
        match parent:
            case ast.Attribute(value=value, attr=attr) if value is node:
                following = _attribute(job, edits, parent, attr)
            case ast.BinOp() | ast.UnaryOp(op=ast.USub()):
                following = parent
            case ast.Subscript(value=value) if value is node:
                following = parent
            case ast.Call(func=func, args=[first, *rest], keywords=keywords) if (
                first is node and dotted(func) in _CONSTANT
            ):
                dtype = rest[0] if rest else next((k.value for k in keywords if k.arg == "dtype"), None)
                if any(k.arg == "shape" for k in keywords):
                    return
                if dtype is None:
                    edits.rewrite(parent, "{inner}", inner=node)
                else:
                    tf = job.tf(edits, node)
                    edits.rewrite(parent, tf + ".cast({inner}, {dtype})", inner=node, dtype=dtype)


def _attribute(job: Job, edits: EditSet, node: ast.Attribute, attr: str) -> ast.expr | None:
    """Rewrites an attribute or method; returns the expression whose value is an array again, if it is one."""
    call = job.syntax.parent(node)
    method = call if isinstance(call, ast.Call) and call.func is node else None
    inner = node.value
    if attr in _SAME_ON_TENSORS:
        return None
    tf = job.tf(edits, node)
    if method is not None:
        return _method(job, edits, tf, node, method)
    match attr:
        case "T":
            edits.rewrite(node, tf + ".transpose({inner})", inner=inner)
            return node
        case "size":
            edits.rewrite(node, "{inner}.shape.num_elements()", inner=inner)
            return None
    raise NotProven(f"line {job.line(node)} reads `.{attr}`, which a tensor doesn't have")


def _method(job: Job, edits: EditSet, tf: str, node: ast.Attribute, method: ast.Call) -> ast.expr | None:
    inner, attr, args = node.value, node.attr, method.args
    plain = not method.keywords
    if attr in ("copy", "value", "read_value", "__array__") and not args:
        edits.rewrite(method, "{inner}", inner=inner)
    elif attr in _REDUCED and all(k.arg in ("axis", "keepdims") for k in method.keywords) and len(args) < 2:
        parts: dict[str, ast.AST | str] = {str(k.arg): k.value for k in method.keywords}
        if args:
            parts["axis"] = args[0]
        rest = "".join(f", {name}={{{name}}}" for name in sorted(parts))
        edits.rewrite(method, f"{tf}.{_REDUCED[attr]}({{inner}}{rest})", inner=inner, **parts)
    elif attr == "astype" and len(args) == 1 and plain:
        edits.rewrite(method, tf + ".cast({inner}, {dtype})", inner=inner, dtype=_dtype(job, args[0], tf))
    elif attr == "reshape" and args and plain:
        names = [f"size{k}" for k in range(len(args))]
        shape = "[" + ", ".join(f"{{{n}}}" for n in names) + "]"
        if len(args) == 1 and not isinstance(args[0], ast.Constant | ast.UnaryOp):
            shape = "{size0}"
        edits.rewrite(method, f"{tf}.reshape({{inner}}, {shape})", inner=inner, **dict(zip(names, args)))
    elif attr in ("flatten", "ravel") and not args and plain:
        edits.rewrite(method, tf + ".reshape({inner}, [-1])", inner=inner)
    elif attr == "squeeze" and not args and plain:
        edits.rewrite(method, tf + ".squeeze({inner})", inner=inner)
    elif attr == "transpose" and plain:
        perm = ", ".join(job.source(a) for a in args)
        perm = f", [{perm}]" if len(args) > 1 else f", {perm}" if perm else ""
        edits.rewrite(method, f"{tf}.transpose({{inner}}{perm})", inner=inner)
    elif attr in ("tolist", "item") and not args:
        edits.rewrite(method, f"{{inner}}.numpy().{attr}()", inner=inner)
        return None
    elif attr == "dot" and len(args) == 1:
        edits.rewrite(method, tf + ".tensordot({inner}, {other}, 1)", inner=inner, other=args[0])
    else:
        raise NotProven(f"line {job.line(node)} calls `.{attr}(...)`, which a tensor doesn't have")
    return method


def _dtype(job: Job, node: ast.expr, tf: str) -> str | ast.expr:
    return {"float": f"{tf}.float64", "int": f"{tf}.int64", "bool": f"{tf}.bool"}.get(ast.unparse(node), node)
