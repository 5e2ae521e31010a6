"""What the ladder asks about a program beyond its syntax.

`Facts` is the question list; the flow model answers it with all it knows. `SyntaxFacts` answers from
one document's tree alone and says None where that is not enough.
"""

from __future__ import annotations

import ast
import functools
from typing import Protocol

from tapefix.rewrite.accumulators.maker import dtype_name
from tapefix.rewrite.accumulators.rank_tables import REDUCTIONS, SAME_RANK, SAME_TYPE
from tapefix.rewrite.accumulators.ranks import Ranks
from tapefix.rewrite.accumulators.syntax import Loop, Syntax, dotted


class Facts(Protocol):
    """Questions about one document. None (or False) always means "not known"."""

    syntax: Syntax

    def rank(self, node: ast.expr) -> int | None:
        """How many axes the value of an expression has; 0 for a number."""

    def least_rank(self, node: ast.expr) -> int:
        """How many axes the value has at least."""

    def dtype(self, node: ast.expr) -> str | None:
        """The element type of a tensor or array: "float32", "int64", ..."""

    def is_number(self, node: ast.expr) -> bool:
        """Whether the value is a Python or NumPy number, never a tensor."""

    def constructor(self, node: ast.expr) -> ast.Call | None:
        """The call that made what an expression stands for: `layers.Dense(3)` of `self.out`."""

    def calls(self, function: ast.FunctionDef) -> list[ast.Call]:
        """The calls of a function that are seen."""

    def calls_of(self, function: ast.FunctionDef) -> list[ast.Call] | None:
        """Every call of a function; None where not all are seen."""

    def is_known_here_alone(self, function: ast.FunctionDef) -> bool:
        """Whether no other file of the program speaks of a function of that name."""

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether the value is surely a tensor."""

    def may_be_variable(self, node: ast.expr) -> bool:
        """Whether the value may be a Variable, which changes later and, in Keras 3, can't be stacked."""

    def is_array(self, node: ast.expr) -> bool:
        """Whether the value is surely a NumPy array."""

    def number(self, node: ast.expr) -> int | None:
        """The whole number that a size is, the same whenever the program comes by."""

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


_PURE_CALLS = {"len", "min", "max", "int", "float", "abs", "tuple", "list", "range"}


class SyntaxFacts(Ranks):
    """Answers from the tree of one document."""

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
                if last in SAME_TYPE and args:
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

    def calls(self, function: ast.FunctionDef) -> list[ast.Call]:
        uses = self.syntax.uses_named(function.name)
        calls = [above for node in uses if isinstance(above := self.syntax.parent(node), ast.Call)]
        return [call for call in calls if call.func in uses]

    def is_known_here_alone(self, function: ast.FunctionDef) -> bool:
        return True

    def is_tensor(self, node: ast.expr) -> bool:
        return False

    def may_be_variable(self, node: ast.expr) -> bool:
        return False

    def is_array(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and (dotted(node.func) or "").startswith(("np.", "numpy."))

    def number(self, node: ast.expr) -> int | None:
        return self.dims.of(node).value

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
    REDUCTIONS
    | SAME_RANK
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


def _last_name(node: ast.expr) -> str:
    return (dotted(node) or "").split(".")[-1]


def _is_tf_function(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return (dotted(decorator) or "").endswith("tf.function") or dotted(decorator) == "function"
