"""TensorFlow operations on values."""

from __future__ import annotations

import ast
from dataclasses import replace

from tapefix.flow.facts import Buffer, How, Role
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.interpreter.core import CHOOSING
from tapefix.flow.interpreter.expressions import is_straight_through
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.python import PythonLibraries
from tapefix.flow.objects import Api, Bound, Dataset, Function, Mapping, Sequence, TensorArray, WeightOf, parts_of
from tapefix.flow.values import ANY_TAPE, NO_DEPS, NO_LOST, NONE, UNKNOWN, Kind, Lost, Tape, Value, Var

INTEGER_TYPES = ("int", "uint", "bool", "string")


def dtype_of(value: Value | None) -> str:
    """ "int", "float", "bool" or "" for a dtype argument."""
    if value is None:
        return ""
    if value.kind == Kind.SHAPE and value.dtype:
        return value.dtype
    name = (
        value.const
        if isinstance(value.const, str)
        else value.ref.name.rsplit(".", 1)[-1]
        if isinstance(value.ref, Api)
        else ""
    )
    if not name:
        return ""
    if name.startswith("bool"):
        return "bool"
    if name.startswith(("int", "uint", "long", "short", "string", "str")):
        return "int"
    if name.startswith("complex"):
        return "complex"
    return "float" if name.startswith(("float", "double", "half", "bfloat")) else ""


def content_dtype(value: Value) -> str:
    """The type of the numbers that a value or a nested list holds: "int" where all are, "" where it is not known."""
    if value.dtype:
        return value.dtype
    if isinstance(value.const, (bool, int, float)):
        return type(value.const).__name__
    if isinstance(value.ref, Sequence) and value.ref.items:
        kinds = {content_dtype(item) for item in value.ref.items}
        return kinds.pop() if len(kinds) == 1 else "float" if kinds == {"int", "float"} else ""
    return ""


def told_dtype(given: Value | None, value: Value) -> str:
    """The type that is asked for, or else that of the content."""
    return dtype_of(given) if given is not None and given.const is not None else content_dtype(value)


class TensorFlow(PythonLibraries):
    """Operations."""

    def call_tensorflow(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        special = getattr(self, "tf_" + tail, None)
        if special is not None:
            result: Value | None = special(path, given, node)
            if result is not None:
                return result
        if path.startswith("experimental_numpy"):
            return self.carry(node, given.all, Kind.TENSOR) if tail not in ("ndarray",) else UNKNOWN
        if path.startswith("data."):
            return self.make_dataset(tail, given, node)
        if path.startswith(
            (
                "summary.",
                "io.gfile",
                "config.",
                "debugging.",
                "train.",
                "saved_model.",
                "profiler.",
                "test.",
                "autodiff.",
            )
        ):
            return UNKNOWN
        if tail == "shape" or tail in ops.SHAPE_ONLY:
            if tail in ("zeros", "ones", "zeros_like", "ones_like", "eye", "range", "fill"):
                return self.constant_tensor(given, node)
            return Value(Kind.SHAPE if tail in ("shape", "size", "rank", "shape_n") else Kind.NUMBER, node=node)
        return self.tensor_operation(path, tail, given, node)

    def constant_tensor(self, given: Arguments, node: ast.AST) -> Value:
        return Value(Kind.TENSOR, dtype=dtype_of(given.get(1, "dtype")), node=node)

    def tensor_operation(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        """An operation that is known by name, or carries."""
        values = given.all
        if (
            values
            and all(v.kind in (Kind.SHAPE, Kind.NUMBER) for v in values)
            and any(v.kind == Kind.SHAPE for v in values)
        ):
            return Value(Kind.SHAPE, node=node)  # of sizes alone
        if tail in ops.HOW_OF and not (tail == "bernoulli" and path.startswith("keras")):
            how = ops.HOW_OF[tail]
            weak = tail in ops.EQUALITIES
            lost = self.cut(how, node, values, tail, weak, lost=tuple(getattr(node, "args", ())))
            dtype = "bool" if how is How.COMPARED else "float" if how is How.ROUNDED or tail == "poisson" else "int"
            return Value(Kind.TENSOR, lost=lost, dtype=dtype, node=node)
        if path.startswith("strings."):
            return Value(Kind.TENSOR, lost=self.cut(How.COUNTED, node, values, tail), dtype="int", node=node)
        if tail in ops.SELECTING and not (tail == "repeat" and not given.all):
            return self.selecting(tail, given, node)
        if tail == "top_k":
            source = [given.args[0]] if given.args else values
            indices = Value(Kind.TENSOR, lost=self.cut(How.INDEX_OF, node, source, "top_k"), dtype="int", node=node)
            return Value(Kind.CONTAINER, ref=Sequence("tuple", [self.carry(node, source), indices]), node=node)
        if tail in (
            "unstack",
            "split",
            "meshgrid",
            "moments",
            "sufficient_statistics",
            "qr",
            "eigh",
            "svd",
            "slogdet",
            "dynamic_partition",
            "normalize",
        ):
            element = self.carry(node, values)
            if tail in ("moments",):
                return Value(Kind.CONTAINER, ref=Sequence("tuple", [element, element]), node=node)
            return Value(Kind.CONTAINER, ref=Sequence("list", None, element), node=node)
        if any(tail.endswith(t) for t in ops.LABELLED_TAILS):
            return self.labelled(values, node)
        meet = tail in (
            "multiply",
            "subtract",
            "divide",
            "matmul",
            "truediv",
            "div",
            "math_multiply",
            "einsum",
            "tensordot",
            "pow",
            "divide_no_nan",
            "scalar_mul",
            "maximum",
            "minimum",
        )
        weighs = tail in ("matmul", "einsum", "tensordot") and self.weighs(values)
        result = self.carry(
            node,
            values,
            meet=meet and not weighs,
            same=tail in ("subtract", "divide", "truediv", "div", "divide_no_nan"),
        )
        if tail in ("add", "subtract") and is_straight_through(result, node):
            result.lost = frozenset(replace(x, weak=True, direct=False) for x in result.lost)
        result.reduced = tail.startswith("reduce_") and len(given.args) == 1 and "axis" not in given.keywords
        if tail in (
            "reduce_sum",
            "reduce_mean",
            "reduce_max",
            "identity",
            "reshape",
            "squeeze",
            "stack",
            "concat",
            "transpose",
        ):
            result.dtype = values[0].dtype if values else ""
        return result

    def weighs(self, values: list[Value]) -> bool:
        """Trained weights take what was detached as their input; not so where it says which of their rows to take."""
        tables = [v.ref for v in values if isinstance(v.ref, Var)]
        return bool(tables) and not any(x.source in tables and x.site.how in CHOOSING for x in self.lost_of(*values))

    def labelled(self, values: list[Value], node: ast.AST) -> Value:
        """A loss of labels and predictions: what is detached beside what carries was detached on purpose."""
        value = self.carry(node, values, meet=True)
        return value

    def selecting(self, tail: str, given: Arguments, node: ast.AST) -> Value:
        position, name = ops.SELECTING[tail]
        chooser = given.get(position, name)
        rest = [v for v in given.all if v is not chooser]
        if tail == "where" and (chooser is None or len(given.all) == 1):
            return Value(
                Kind.TENSOR, lost=self.cut(How.SELECTION, node, given.all, "where", weak=True), dtype="int", node=node
            )
        value = self.carry(node, rest)
        if chooser is not None:
            # an index is an integer and a mask a truth value: neither carries a gradient
            whole = self.whole(chooser).with_(live=NO_DEPS)
            _, lost = self.predicate(whole, node, How.SELECTION) if isinstance(node, ast.expr) else (False, NO_LOST)
            # a plain index keeps the place where it was made an index: the argmax, the cast
            own = frozenset(x.weakened() for x in whole.lost if x.site.how not in (How.COMPARED,))
            lost = frozenset(x for x in lost if x.site.how is How.SELECTION) | own
            # `where(w > 1, w - 1, 0)` is bent as a relu is: what is compared is also what is chosen
            chosen = {d.source for d in value.live}
            value.lost |= frozenset(
                replace(x, weak=True, direct=False) if x.direct and x.source in chosen else x for x in lost
            )
        return value

    def tf_cast(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = self.whole(given.args[0] if given.args else given.keywords.get("x", UNKNOWN))
        to = dtype_of(given.get(1, "dtype"))
        if to == "float":
            for ref in given.args[0].refs if given.args else ():
                if isinstance(ref, Var):
                    ref.read_as_float = True
        if to in ("int", "bool"):
            if value.dtype in ("int", "bool") or not self.live_of(value):
                return Value(Kind.TENSOR, lost=value.lost, dtype=to, node=node)
            return Value(
                Kind.TENSOR,
                lost=self.cut(
                    How.INTEGER_CAST,
                    node,
                    [value],
                    "cast",
                    lost=tuple(node.args[:1]) if isinstance(node, ast.Call) else (),
                ),
                dtype=to,
                node=node,
            )
        result = self.carry(node, [given.args[0] if given.args else value])
        result.dtype, result.reduced = to or "float", value.reduced
        return result

    def tf_to_float(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.carry(node, given.all[:1])

    def tf_to_int32(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return Value(
            Kind.TENSOR, lost=self.cut(How.INTEGER_CAST, node, given.all[:1], "to_int32"), dtype="int", node=node
        )

    def tf_saturate_cast(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.tf_cast(path, given, node)

    def tf_one_hot(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = given.get(0, "indices", "x") or UNKNOWN
        return Value(
            Kind.TENSOR,
            lost=self.cut(
                How.ONE_HOT, node, [value], "one_hot", lost=tuple(node.args[:1]) if isinstance(node, ast.Call) else ()
            ),
            dtype="float",
            node=node,
        )

    def tf_stop_gradient(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = given.get(0, "input") or UNKNOWN
        live = self.live_of(value) if not self.carried_by_loop() else frozenset()
        before = self.whole(value).lost
        if not live and not before:
            return Value(Kind.TENSOR, dtype=value.dtype, node=node)
        # what is stopped by name is meant: whatever was lost before ends here too, and is no news
        site = self.site(How.STOPPED, node, "stop_gradient")
        copied = frozenset(replace(x, weak=True, direct=False) for x in before if x.site.how is How.WEIGHTS_COPIED)
        ended = {(d.source, d.tapes) for d in live} | {
            (x.source, x.tapes) for x in before if x.site.how is not How.WEIGHTS_COPIED
        }
        lost = copied | frozenset(Lost(site, source, tapes, True) for source, tapes in ended)
        return Value(Kind.TENSOR, lost=lost, dtype=value.dtype, node=node)

    def tf_constant(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = given.args[0] if given.args else given.keywords.get("value", UNKNOWN)
        whole = self.whole(value)
        variable = isinstance(value.ref, (Var, WeightOf))
        if (variable or "shape" in given.keywords) and self.live_of(value):
            return Value(
                Kind.TENSOR,
                lost=self.cut(
                    How.CONSTANT,
                    node,
                    [value],
                    "tf.constant",
                    lost=tuple(node.args[:1]) if isinstance(node, ast.Call) else (),
                ),
                node=node,
            )
        if isinstance(value.ref, Sequence) and whole.kind & Kind.TENSOR and not whole.kind & Kind.UNKNOWN:
            self.misuse(node, "constant")
        self.retyped(value, given, node)
        result = self.carry(node, [value])
        result.dtype = told_dtype(given.get(1, "dtype"), value)
        result.reduced = whole.reduced
        return result

    def retyped(self, value: Value, given: Arguments, node: ast.AST) -> None:
        """An array may be given another type on its way into TensorFlow, a tensor may not."""
        tensors = Kind.TENSOR | Kind.VARIABLE
        if given.get(1, "dtype") is not None and value.kind & tensors and not value.kind & ~tensors:
            self.misuse(node, "retyped")

    def tf_convert_to_tensor(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = given.args[0] if given.args else given.keywords.get("value", UNKNOWN)
        self.retyped(value, given, node)
        result = self.carry(node, [value])
        result.dtype, result.reduced = told_dtype(given.get(1, "dtype"), value), value.reduced
        return result

    def tf_identity(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.carry(node, given.args[:1], dtype=given.args[0].dtype if given.args else "")

    def tf_Variable(self, path: str, given: Arguments, node: ast.AST) -> Value:
        initial = given.args[0] if given.args else given.keywords.get("initial_value", UNKNOWN)
        if isinstance(initial.ref, (Function, Bound)):
            initial = self.call(initial, Arguments([], {}), node)
        integer = told_dtype(given.get(4, "dtype"), initial) in ("int", "bool")
        trainable = given.get(1, "trainable")
        variable = Var(
            "", self.spot(node), integer=integer, trainable=trainable is None or trainable.const is not False
        )
        variable.several = self.in_rounds
        buffer = Buffer("variable", self.spot(node))
        if isinstance(node, ast.expr):
            self.use(buffer, Role.MADE, node, False)
        variable.buffer = buffer
        variable.stored = self.cut(How.VARIABLE_MADE, node, [initial], "tf.Variable", variable=variable, buffer=buffer)
        return Value(Kind.VARIABLE, ref=variable, dtype="int" if integer else "", node=node)

    def tf_GradientTape(self, path: str, given: Arguments, node: ast.AST) -> Value:
        persistent = given.get(0, "persistent")
        tape = Tape(node, persistent=persistent is not None and persistent.const is True, made=self.spot(node))
        tape.once = persistent is None or persistent.const is False
        accessed = given.get(1, "watch_accessed_variables")
        if accessed is not None and accessed.const is False:
            tape.by_hand = set()
        return Value(Kind.OBJECT, ref=tape, node=node)

    def tf_range(self, path: str, given: Arguments, node: ast.AST) -> Value:
        kinds = {content_dtype(one) for one in given.args}
        dtype = given.keywords.get("dtype")
        known = dtype_of(dtype) if dtype is not None else "int" if kinds == {"int"} else ""
        return Value(Kind.TENSOR, dtype=known, node=node)

    def tf_TensorArray(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return Value(Kind.OBJECT, ref=TensorArray(), node=node)

    def tf_is_tensor(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = given.args[0] if given.args else UNKNOWN
        if value.kind and not value.kind & ~(Kind.TENSOR | Kind.VARIABLE):
            return Value(Kind.NUMBER, const=True)
        if value.kind and not value.kind & ~(Kind.ARRAY | Kind.NUMBER | Kind.CONTAINER):
            return Value(Kind.NUMBER, const=False)
        return Value(Kind.NUMBER, node=node)

    tf_is_tf_type = tf_is_tensor

    def tf_print(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return NONE

    def tf_no_op(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return NONE

    def tf_flatten(self, path: str, given: Arguments, node: ast.AST) -> Value | None:
        if not path.startswith("nest"):
            return None
        values = (
            [p for p in parts_of(given.args[0]) if not isinstance(p.ref, (Sequence, Mapping))] if given.args else []
        )
        return Value(Kind.CONTAINER, ref=Sequence("list", values))

    def tf_linspace(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.carry(node, given.all)

    def tf_IndexedSlices(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.carry(node, given.all[:1])

    def tf_uniform(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.carry(node, [v for v in (given.get(1, "minval"), given.get(2, "maxval")) if v is not None])

    def tf_normal(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.carry(node, [v for v in (given.get(1, "mean"), given.get(2, "stddev")) if v is not None])

    tf_truncated_normal = tf_normal

    def tf_complex(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.carry(node, given.all, dtype="complex")

    def tf_abs(self, path: str, given: Arguments, node: ast.AST) -> Value:
        result = self.carry(node, given.all)
        result.dtype = given.args[0].dtype if given.args else ""
        return result

    def carried_by_loop(self) -> bool:
        """`state = stop_gradient(f(state))` in a loop: each round is meant to start without the last one's gradient."""
        statement = self.statement
        return (
            self.frame.loop_depth > 0
            and isinstance(statement, ast.Assign)
            and all(isinstance(t, ast.Name) and t.id in self.scope.vars for t in statement.targets)
            and isinstance(statement.value, ast.Call)
            and not any(
                isinstance(n, ast.Name) and n.id in {t.id for t in statement.targets if isinstance(t, ast.Name)}
                for n in ast.walk(statement.value)
            )
        )

    def through_dataset(self, value: Value, node: ast.AST, detail: str) -> Value:
        """What a dataset hands out of what it was made of: tensors without a history, whatever tape is open."""
        if isinstance(value.ref, Sequence) and value.ref.items is not None:
            items = [self.through_dataset(v, node, detail) for v in value.ref.items]
            return Value(Kind.CONTAINER, ref=Sequence("tuple", items))
        if isinstance(value.ref, Mapping):
            named = {k: self.through_dataset(v, node, detail) for k, v in value.ref.items.items()}
            return Value(Kind.CONTAINER, ref=Mapping(named))
        lost = self.cut(How.DATASET, node, [value], detail) if self.tapes else self.kept_by_dataset(value, node, detail)
        return Value(Kind.TENSOR, lost=lost, dtype=value.dtype)

    def kept_by_dataset(self, value: Value, node: ast.AST, detail: str) -> frozenset[Lost]:
        """Without a tape a pipeline may well prepare data with a model: a loss where there is no other way to it."""
        lost, live = self.lost_of(value), self.live_of(value)
        if not live:
            return lost
        site = self.site(How.DATASET, node, detail)
        return lost | {Lost(site, dep.source, frozenset({ANY_TAPE}), weak=True) for dep in live}

    def make_dataset(self, tail: str, given: Arguments, node: ast.AST) -> Value:
        source = given.args[0] if given.args else UNKNOWN

        def as_tensor(value: Value) -> Value:
            return self.through_dataset(value, node, "tf.data")

        if tail == "from_generator":
            made = self.call(source, Arguments([], {}), node) if isinstance(source.ref, (Function, Bound)) else UNKNOWN
            element = self.element(made, node)
            return Value(Kind.OBJECT, ref=Dataset(as_tensor(element)), node=node)
        if tail == "zip":
            items = self.iterate_items(source) if isinstance(source.ref, Sequence) else given.args
            element = Value(
                Kind.CONTAINER,
                ref=Sequence(
                    "tuple", [i.ref.element if isinstance(i.ref, Dataset) else Value(Kind.TENSOR) for i in items]
                ),
            )
            return Value(Kind.OBJECT, ref=Dataset(element), node=node)
        if tail in ("from_tensor_slices", "from_tensors"):
            return Value(Kind.OBJECT, ref=Dataset(as_tensor(source)), node=node)
        return Value(Kind.OBJECT, ref=Dataset(Value(Kind.TENSOR)), node=node)
