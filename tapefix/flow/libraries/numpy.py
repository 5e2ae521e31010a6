"""NumPy: buffers, and functions that take tensors for arrays."""

from __future__ import annotations

import ast

from tapefix.flow.facts import Buffer, How, Role
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.tensorflow import content_dtype, dtype_of, told_dtype
from tapefix.flow.libraries.tensorflow_control import TensorFlowControl
from tapefix.flow.objects import Api, Array, Sequence
from tapefix.flow.values import NO_LOST, NONE, UNKNOWN, Kind, Value


class NumPy(TensorFlowControl):
    """Calls of NumPy."""

    def call_numpy(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        self.typed_by_tensor(given)
        if tail in ops.NUMPY_BUFFERS:
            return self.numpy_buffer(tail, given, node)
        if tail in ops.NUMPY_SHAPE_ONLY:
            return Value(Kind.SHAPE if tail in ("shape", "ndim", "size") else Kind.NUMBER)
        if path.startswith("random."):
            lost = frozenset(x.weakened() for x in self.cut(How.NUMPY_CALL, node, given.all, "np." + path, weak=True))
            if tail in ("default_rng", "RandomState", "Generator", "seed"):
                return Value(Kind.OBJECT, ref=Api("numpy.random.Generator"))
            return Value(Kind.ARRAY, lost=lost, node=node)
        if path.startswith(("testing.", "lib.", "ma.")):
            return self.call_unknown(UNKNOWN, given, node)
        values = given.all
        if tail in ("float32", "float64", "float16", "int32", "int64", "bool_", "uint8"):
            weak = not tail.startswith("float")
            return self.away(How.NUMPY_CALL, node, values, "np." + tail, Kind.ARRAY, weak).with_(
                dtype="int" if weak else "float"
            )
        if tail in ("vectorize", "frompyfunc", "apply_along_axis"):
            for value in values:
                self.called_back(value, node)
            return self.away(How.NUMPY_CALL, node, values, "np." + path)
        if tail == "newaxis":
            return NONE
        if tail in ops.NUMPY_VIEWS and values and isinstance(values[0].ref, Array):
            return self.view(values[0], tail, node)
        weak = tail in ops.NUMPY_INDEX and not (tail == "where" and len(given.args) == 3)
        how = How.ARRAY_MADE if tail in ops.NUMPY_MAKERS else How.NUMPY_CALL
        if (
            how is How.ARRAY_MADE
            and given.args
            and not isinstance(given.args[0].ref, Sequence)
            and tail in ("array", "asarray", "asanyarray", "ascontiguousarray")
        ):
            how = How.NUMPY_CALL  # of one tensor: a conversion, not a table
        result = self.away(how, node, values, "np." + path, Kind.ARRAY, weak)
        if tail in ("array", "asarray", "arange") and given.args:
            result = result.with_(dtype=self.array_dtype(tail, given))
        if how is How.ARRAY_MADE or tail in ("copy", "tile", "repeat", "reshape"):
            buffer = Buffer("numpy", self.spot(node))
            result.ref = Array(buffer, result.lost)
        if tail in ("mean", "sum", "max", "min", "average") and len(values) == 1:
            result.reduced = True
        if tail in ("split", "array_split", "meshgrid", "unique", "histogram", "where", "nonzero"):
            if tail not in ("where",) or len(given.args) == 1:
                return Value(Kind.CONTAINER, ref=Sequence("list", None, result))
        return result

    def typed_by_tensor(self, given: Arguments) -> None:
        """`np.eye(n, dtype=t.dtype)`: NumPy does not know the types of TensorFlow."""
        for value in given.all:
            asked = value.node
            if isinstance(asked, ast.Attribute) and asked.attr == "dtype" and value.kind == Kind.SHAPE:
                owner = self.seen.get(asked.value)
                if owner is not None and owner.kind in (Kind.TENSOR, Kind.TENSOR | Kind.ARRAY):
                    self.misuse(asked, "dtype")

    def view(self, value: Value, tail: str, node: ast.AST) -> Value:
        """The same numbers in another shape: what is written into it is written into the array."""
        value = value.with_(node=node, lost=self.lost_of(value))
        return Value(Kind.CONTAINER, ref=Sequence("list", None, value)) if tail.endswith("split") else value

    @staticmethod
    def array_dtype(tail: str, given: Arguments) -> str:
        """The type of an array of numbers, or of a range."""
        asked = given.keywords.get("dtype") or (given.get(1) if tail != "arange" else None)
        if asked is not None or tail != "arange":
            return told_dtype(asked, given.args[0])
        kinds = {content_dtype(one) for one in given.args}
        return "int" if kinds == {"int"} else ""

    def numpy_buffer(self, tail: str, given: Arguments, node: ast.AST) -> Value:
        lost = NO_LOST
        if tail in ("full", "full_like") and len(given.args) > 1:
            lost = self.cut(How.NUMPY_CALL, node, given.args[1:2], "np." + tail)
        place = 1 if "_like" not in tail and tail != "eye" else 9
        kind = given.get(place, "dtype")
        if kind is not None and isinstance(kind.ref, Api) and kind.ref.name in ("builtins.object", "numpy.object_"):
            return Value(
                Kind.CONTAINER, ref=Sequence("list", None, Value(Kind.TENSOR)), node=node
            )  # holds the tensors themselves
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = Buffer("numpy", self.spot(node))
        value = Value(
            Kind.ARRAY,
            lost=lost,
            ref=Array(buffer, lost),
            dtype=dtype_of(kind),
            node=node,
        )
        if isinstance(node, ast.expr):
            self.use(buffer, Role.MADE, node, False)
        return value
