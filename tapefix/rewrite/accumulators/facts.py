"""What the ladder asks about a program beyond its syntax.

`Facts` is the question list; the flow model answers it with all it knows. `SyntaxFacts` answers from
one document's tree alone and says None where that is not enough.
"""

from __future__ import annotations

import ast
import functools
from typing import Protocol

from tapefix.rewrite.accumulators.maker import dtype_name
from tapefix.rewrite.accumulators.positions import Positions
from tapefix.rewrite.accumulators.syntax import Loop, dotted


class Facts(Protocol):
    """Questions about one document. None (or False) always means "not known"."""

    def rank(self, node: ast.expr) -> int | None:
        """How many axes the value of an expression has; 0 for a number."""

    def dtype(self, node: ast.expr) -> str | None:
        """The element type of a tensor or array: "float32", "int64", ..."""

    def is_number(self, node: ast.expr) -> bool:
        """Whether the value is a Python or NumPy number, never a tensor."""

    def is_array_index(self, node: ast.expr) -> bool:
        """Whether an index is an array, a list or a mask rather than one position."""

    def is_position(self, node: ast.expr) -> bool:
        """Whether an index is one whole number that Python knows."""

    def is_natural(self, node: ast.expr) -> bool:
        """Whether an index is one whole number (also of a tensor) that is never negative."""

    def traced(self, node: ast.AST) -> bool:
        """Whether the code around may run while a graph is traced: below `@tf.function`, in a layer's `call`."""

    def graph_loop(self, loop: Loop) -> bool:
        """Whether AutoGraph turns the loop into a loop of the graph."""

    def pure(self, node: ast.expr) -> bool:
        """Whether the expression can be evaluated again, or later, without any other effect than its value."""


_REDUCTIONS = {
    "reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp", "reduce_std",
    "reduce_variance", "reduce_any", "reduce_all", "reduce_euclidean_norm", "norm",
}  # fmt: skip
_SAME_RANK = {
    "relu", "sigmoid", "tanh", "softmax", "log_softmax", "softplus", "exp", "log", "sqrt", "square", "abs", "negative",
    "sin", "cos", "elu", "selu", "gelu", "identity", "cast", "stop_gradient", "clip_by_value", "zeros_like",
    "ones_like",
    "cumsum", "reverse", "sign", "round", "floor", "convert_to_tensor", "dropout", "leaky_relu", "log1p", "expm1",
    "sort", "l2_normalize", "erf", "constant", "ensure_shape",
}  # fmt: skip
_SHAPED = {"zeros", "ones", "fill", "full", "normal", "uniform", "truncated_normal", "empty"}
_PURE_CALLS = {"len", "min", "max", "int", "float", "abs", "tuple", "list", "range"}


class SyntaxFacts(Positions):
    """Answers from the tree of one document."""

    # ranks

    def rank(self, node: ast.expr, depth: int = 8) -> int | None:
        if depth <= 0:
            return None
        match node:
            case ast.Constant(value=int() | float()):
                return 0
            case ast.UnaryOp(operand=operand):
                return self.rank(operand, depth - 1)
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                a, b = self.rank(left, depth - 1), self.rank(right, depth - 1)
                if a is None or b is None:
                    return None
                return max(a, b) if min(a, b) >= 2 else max(a + b - 2, 0)
            case ast.BinOp(left=left, right=right):
                a, b = self.rank(left, depth - 1), self.rank(right, depth - 1)
                return max(a, b) if a is not None and b is not None else None
            case ast.IfExp(body=body, orelse=orelse):
                a, b = self.rank(body, depth - 1), self.rank(orelse, depth - 1)
                return a if a == b else None
            case ast.Subscript():
                return self._subscript_rank(node, depth)
            case ast.Call():
                return self._call_rank(node, depth)
            case ast.Name():
                return self._name_rank(node, depth)
        return None

    def _subscript_rank(self, node: ast.Subscript, depth: int) -> int | None:
        from tapefix.rewrite.accumulators.access import At, NewAxis, Rest, Span, parse_index

        whole = self.rank(node.value, depth - 1)
        if whole is None:
            return None
        for element in parse_index(node.slice, self.syntax):
            match element:
                case At(node=position) if self.is_array_index(position):
                    return None
                case At():
                    whole -= 1
                case NewAxis():
                    whole += 1
                case Span() | Rest():
                    pass
                case _:
                    return None
        return whole if whole >= 0 else None

    def _call_rank(self, node: ast.Call, depth: int) -> int | None:
        name = (dotted(node.func) or "").split(".")[-1]
        first = node.args[0] if node.args else None
        keywords = {k.arg: k.value for k in node.keywords}
        if name in _SHAPED:
            size = keywords.get("shape") or first
            return len(size.elts) if isinstance(size, ast.List | ast.Tuple) else None
        if name in ("float", "int", "len"):
            return 0
        if first is None or not isinstance(node.func, ast.Attribute):
            return None
        if name in ("Variable", "constant", "convert_to_tensor") and isinstance(first, ast.List | ast.Tuple):
            return _nesting(first)
        inner = self.rank(first, depth - 1)
        if name in _SAME_RANK:
            return inner
        axis = keywords.get("axis", node.args[1] if len(node.args) > 1 else None)
        if name in _REDUCTIONS:
            keep = keywords.get("keepdims")
            if keep is not None:
                return inner if isinstance(keep, ast.Constant) and keep.value is True else None
            if axis is None or (isinstance(axis, ast.Constant) and axis.value is None):
                return 0
            if inner is None:
                return None
            if isinstance(axis, ast.List | ast.Tuple):
                return inner - len(axis.elts)
            return inner - 1
        if name == "reshape" and len(node.args) > 1 and isinstance(node.args[1], ast.List | ast.Tuple):
            return len(node.args[1].elts)
        if name == "einsum" and isinstance(first, ast.Constant):
            _, arrow, result = str(first.value).partition("->")
            return len(result.strip()) if arrow and "." not in result else None
        if name in ("stack", "concat") and isinstance(first, ast.List | ast.Tuple) and first.elts:
            ranks = {self.rank(e, depth - 1) for e in first.elts} - {None}
            return ranks.pop() + (name == "stack") if len(ranks) == 1 else None  # type: ignore[operator]
        if name == "matvec" and len(node.args) > 1:
            matrix, vector = inner, self.rank(node.args[1], depth - 1)
            return max(matrix - 1, vector) if matrix is not None and vector is not None else None
        if name == "expand_dims":
            return inner + 1 if inner is not None else None
        if name == "squeeze" and axis is not None:
            return inner - 1 if inner is not None and not isinstance(axis, ast.List | ast.Tuple) else None
        return None

    def _name_rank(self, node: ast.Name, depth: int) -> int | None:
        value = self.last_value(node)
        if value is not None:
            return self.rank(value, depth - 1)
        _, bindings = self.syntax.visible(node.id, node)
        if len(bindings) != 1:
            return None
        parent = self.syntax.parent(bindings[0])
        if isinstance(parent, ast.For) and parent.target is bindings[0]:
            if isinstance(parent.iter, ast.Call) and (dotted(parent.iter.func) or "").split(".")[-1] == "range":
                return 0
            inner = self.rank(parent.iter, depth - 1)
            return inner - 1 if inner else None
        return None

    def last_value(self, node: ast.Name) -> ast.expr | None:
        """What a name was last bound to before this use, where every way to the use passes that binding."""
        single = self.dims.single_value(node)
        if single is not None:
            return single
        _, bindings = self.syntax.visible(node.id, node)
        earlier = [b for b in bindings if self.syntax.before(b, node)]
        if not earlier:
            return None
        assign = self.syntax.parent(earlier[-1])
        if not (isinstance(assign, ast.Assign) and earlier[-1] in assign.targets):
            return None
        block = self.syntax.block(assign)
        use = self.syntax.statement(node)
        if use is assign:
            return None
        return assign.value if any(self.syntax.inside(use, s) for s in block[block.index(assign) + 1 :]) else None

    # types

    def dtype(self, node: ast.expr, depth: int = 6) -> str | None:
        if depth <= 0:
            return None
        match node:
            case ast.Call(func=ast.Attribute(attr="cast"), args=[_, named]):
                return dtype_name(named)
            case ast.Call(func=ast.Attribute(attr="astype"), args=[named]):
                return dtype_name(named)
            case ast.Call(func=func, args=args, keywords=keywords):
                named_type = next((k.value for k in keywords if k.arg == "dtype"), None)
                if named_type is not None:
                    return dtype_name(named_type)
                name = ast.unparse(func)
                last = name.split(".")[-1]
                if name.startswith("tf.") and last in ("zeros", "ones", "normal", "uniform"):
                    return "float32"
                if last in ("constant", "convert_to_tensor", "Variable") and args:
                    return self._plain_type(args[0], depth - 1)
                if name.startswith(("np.", "numpy.")) and last in (
                    "zeros",
                    "ones",
                    "rand",
                    "randn",
                    "normal",
                    "uniform",
                    "linspace",
                ):
                    return "float64"
                if last == "reshape" and isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call):
                    return self.dtype(func.value, depth - 1)  # `np.linspace(0, 1, 12).reshape(4, 3)`
                if (last in _SAME_RANK or last in _REDUCTIONS or last == "reshape") and args:
                    return self.dtype(args[0], depth - 1)
            case ast.BinOp(left=left, right=right):
                a, b = self.dtype(left, depth - 1), self.dtype(right, depth - 1)
                return a if a == b or self.is_number(right) else b if self.is_number(left) else None
            case ast.Subscript(value=value) | ast.UnaryOp(operand=value):
                return self.dtype(value, depth - 1)
            case ast.Name():
                value_of = self.last_value(node)
                return self.dtype(value_of, depth - 1) if value_of is not None else None
        return None

    def _plain_type(self, node: ast.expr, depth: int) -> str | None:
        numbers = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
        if isinstance(node, ast.List | ast.Tuple | ast.Constant | ast.UnaryOp) and numbers:
            if any(isinstance(n, float) for n in numbers):
                return "float32"
            return "int32" if all(isinstance(n, int) for n in numbers) else None
        return self.dtype(node, depth)

    def is_number(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant(value=int() | float()):
                return True
            case ast.UnaryOp(operand=operand):
                return self.is_number(operand)
            case ast.BinOp(left=left, right=right):
                return self.is_number(left) and self.is_number(right)
            case ast.Call(func=ast.Name(id="len" | "int" | "float")):
                return True
            case ast.Attribute():
                return dotted(node) in ("np.inf", "np.pi", "np.nan", "np.e", "math.inf", "math.pi", "math.nan")
            case ast.Name():
                value = self.dims.single_value(node)
                return value is not None and self.is_number(value)
        return False

    # loops and effects

    def traced(self, node: ast.AST) -> bool:
        return self._converted(node) or any(
            isinstance(above, ast.FunctionDef) and above.name == "call" for above in self.syntax.ancestors(node)
        )

    def graph_loop(self, loop: Loop) -> bool:
        return self._converted(loop) and isinstance(loop, ast.For) and self._runs_in_graph(loop.iter)

    def _converted(self, node: ast.AST) -> bool:
        """Whether AutoGraph sees the code around: a function below `@tf.function`, or one that such a function calls.

        Keras calls a layer's `call` without converting it, so the way ends there."""
        return any(above in self._in_graph for above in self.syntax.ancestors(node))

    @functools.cached_property
    def _in_graph(self) -> set[ast.AST]:
        functions = [n for n in self.syntax.order if isinstance(n, ast.FunctionDef)]
        found: set[ast.AST] = {f for f in functions if any(_is_tf_function(d) for d in f.decorator_list)}
        wrapped = {
            _last_name(call.args[0])
            for call in self.syntax.order
            if isinstance(call, ast.Call) and _is_tf_function(call.func) and call.args
        }
        found |= {f for f in functions if f.name in wrapped}
        waiting = list(found)
        while waiting:
            function = waiting.pop()
            called = {_last_name(call.func) for call in ast.walk(function) if isinstance(call, ast.Call)}
            new = [f for f in functions if f.name in called and f.name != "call" and f not in found]
            found |= set(new)
            waiting += new
        return found

    def _runs_in_graph(self, iterable: ast.expr) -> bool:
        if not isinstance(iterable, ast.Call):
            return False
        name = dotted(iterable.func) or ""
        if name.split(".")[-1] == "range" and name != "range":
            return True
        return name == "range" and any(self._is_tensor_size(arg) for arg in iterable.args)

    def _is_tensor_size(self, node: ast.expr) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and dotted(inner.func) in ("tf.shape", "tf.size", "tf.rank"):
                return True
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                value = self.dims.single_value(inner)
                if value is not None and value is not node and self._is_tensor_size(value):
                    return True
        return False

    def pure(self, node: ast.expr) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Lambda):
                return False
            if isinstance(inner, ast.Call):
                name = dotted(inner.func) or ""
                last = name.split(".")[-1]
                if "random" in name or not (name in _PURE_CALLS or last in _PURE_TENSOR_CALLS):
                    return False
        return True


_PURE_TENSOR_CALLS = (
    _REDUCTIONS
    | _SAME_RANK
    | {
        "zeros",
        "ones",
        "fill",
        "full",
        "shape",
        "size",
        "get_shape",
        "as_list",
        "reshape",
        "transpose",
        "expand_dims",
        "squeeze",
    }
)


def _nesting(node: ast.expr) -> int | None:
    """The number of axes of a nested list of numbers."""
    if isinstance(node, ast.List | ast.Tuple):
        below = {_nesting(e) for e in node.elts}
        inner = below.pop() if len(below) == 1 else None
        return inner + 1 if inner is not None else None
    if isinstance(node, ast.UnaryOp):
        return _nesting(node.operand)
    return 0 if isinstance(node, ast.Constant) else None


def _last_name(node: ast.expr) -> str:
    return (dotted(node) or "").split(".")[-1]


def _is_tf_function(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return (dotted(decorator) or "").endswith("tf.function") or dotted(decorator) == "function"
