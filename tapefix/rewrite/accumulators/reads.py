"""What reads a buffer, said anew for a tensor: `.T`, `.size`, `.mean()`, `.copy()`, `.value()`, fancy indices, constants around it."""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators.access import At, Fancy, Read
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import NotProven
from tapefix.rewrite.accumulators.syntax import dotted
from tapefix.rewrite.edits import EditSet

_SAME_ON_TENSORS = {"shape", "dtype", "numpy", "ndim", "get_shape", "device", "name"}
_REDUCED = {"mean": "reduce_mean", "sum": "reduce_sum", "max": "reduce_max", "min": "reduce_min", "prod": "reduce_prod",
            "std": "math.reduce_std", "var": "math.reduce_variance", "any": "reduce_any", "all": "reduce_all"}  # fmt: skip
_CONSTANT = ("tf.constant", "tf.convert_to_tensor", "tensorflow.constant", "tensorflow.convert_to_tensor")


def as_tensor(job: Job, edits: EditSet, read: Read, text: str | None = None) -> None:
    """Edits for one read of a buffer that is a tensor now; `text` is what stands for the buffer, if not its name."""
    node = read.use.spot.node
    assert isinstance(node, ast.expr)
    if text is not None:
        edits.replace(node, text)
    for element in read.access.index:
        if isinstance(element, Fancy) or (isinstance(element, At) and job.facts.is_array_index(element.node)):
            _gathered(job, edits, read)
            break
    _surroundings(job, edits, read.access.node)


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
    """The attribute, method or constant that takes the value of `node`."""
    parent = job.syntax.parent(node)
    match parent:
        case ast.Attribute(value=value, attr=attr) if value is node:
            _attribute(job, edits, parent, attr)
        case ast.Call(func=func, args=[first, *rest], keywords=keywords) if first is node and dotted(func) in _CONSTANT:
            dtype = rest[0] if rest else next((k.value for k in keywords if k.arg == "dtype"), None)
            if any(k.arg == "shape" for k in keywords):
                return
            if dtype is None:
                edits.rewrite(parent, "{inner}", inner=node)
            else:
                tf = job.tf(edits, node)
                edits.rewrite(parent, tf + ".cast({inner}, {dtype})", inner=node, dtype=dtype)


def _attribute(job: Job, edits: EditSet, node: ast.Attribute, attr: str) -> None:
    tf = job.tf(edits, node)
    call = job.syntax.parent(node)
    method = call if isinstance(call, ast.Call) and call.func is node else None
    inner = node.value
    if attr in _SAME_ON_TENSORS:
        return
    if method is None:
        match attr:
            case "T":
                edits.rewrite(node, tf + ".transpose({inner})", inner=inner)
                return
            case "size":
                edits.rewrite(node, tf + ".size({inner})", inner=inner)
                return
        raise NotProven(f"line {job.line(node)} reads `.{attr}`, which a tensor doesn't have")
    if attr in ("copy", "value", "read_value", "__array__") and not method.args:
        edits.rewrite(method, "{inner}", inner=inner)
    elif attr in _REDUCED and all(k.arg in ("axis", "keepdims") for k in method.keywords) and len(method.args) < 2:
        axis = method.args[0] if method.args else None
        rest = "".join(f", {k.arg}={{{k.arg}}}" for k in method.keywords)
        parts: dict[str, ast.AST | str] = {str(k.arg): k.value for k in method.keywords}
        if axis is not None:
            parts["axis"] = axis
            rest = ", axis={axis}" + rest
        edits.rewrite(method, f"{tf}.{_REDUCED[attr]}({{inner}}{rest})", inner=inner, **parts)
    elif attr == "astype" and len(method.args) == 1 and not method.keywords:
        edits.rewrite(method, tf + ".cast({inner}, {dtype})", inner=inner, dtype=_dtype(job, method.args[0], tf))
    elif attr == "reshape" and method.args and not method.keywords:
        if len(method.args) == 1:
            one = method.args[0]
            shape = "{shape}" if not isinstance(one, ast.Constant | ast.UnaryOp) else "[{shape}]"
            edits.rewrite(method, f"{tf}.reshape({{inner}}, {shape})", inner=inner, shape=one)
        else:
            names = [f"size{k}" for k in range(len(method.args))]
            shape = ", ".join(f"{{{n}}}" for n in names)
            edits.rewrite(method, f"{tf}.reshape({{inner}}, [{shape}])", inner=inner, **dict(zip(names, method.args)))
    elif attr in ("flatten", "ravel") and not method.args and not method.keywords:
        edits.rewrite(method, tf + ".reshape({inner}, [-1])", inner=inner)
    elif attr == "squeeze" and not method.args and not method.keywords:
        edits.rewrite(method, tf + ".squeeze({inner})", inner=inner)
    elif attr == "transpose" and not method.keywords:
        perm = ", ".join(job.source(a) for a in method.args)
        perm = f", [{perm}]" if len(method.args) > 1 else f", {perm}" if perm else ""
        edits.rewrite(method, f"{tf}.transpose({{inner}}{perm})", inner=inner)
    elif attr in ("tolist", "item") and not method.args:
        edits.rewrite(method, f"{{inner}}.numpy().{attr}()", inner=inner)
    elif attr == "dot" and len(method.args) == 1:
        edits.rewrite(method, tf + ".tensordot({inner}, {other}, 1)", inner=inner, other=method.args[0])
    else:
        raise NotProven(f"line {job.line(node)} calls `.{attr}(...)`, which a tensor doesn't have")


def _dtype(job: Job, node: ast.expr, tf: str) -> str | ast.expr:
    return {"float": f"{tf}.float64", "int": f"{tf}.int64", "bool": f"{tf}.bool"}.get(ast.unparse(node), node)
