"""What calls into TensorFlow and NumPy do, and methods of tensors, Variables and arrays."""

from __future__ import annotations

import ast
from dataclasses import replace

from tapefix.flow import operations as ops
from tapefix.flow.calls import Arguments, Calls
from tapefix.flow.facts import Buffer, How, Role
from tapefix.flow.interpreter import Stopped
from tapefix.flow.values import (
    NO_DEPS,
    NO_LOST,
    NONE,
    NUMERIC,
    UNKNOWN,
    Api,
    Array,
    Bound,
    Dataset,
    Dep,
    Distribution,
    Foreign,
    Function,
    Instance,
    Kind,
    Layer,
    Lost,
    Mapping,
    Sequence,
    Slice,
    Source,
    Tape,
    TensorArray,
    Value,
    Var,
    WeightOf,
    Weights,
    join,
    join_all,
    parts_of,
    same,
)

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


class Library(Calls):
    def call_Api(self, value: Value, api: Api, given: Arguments, node: ast.AST) -> Value:
        root, _, rest = api.name.partition(".")
        tail = api.name.rsplit(".", 1)[-1]
        if root == "builtins":
            return self.call_builtin(tail, given, node)
        if root == "tensorflow":
            return self.call_tensorflow(rest, tail, given, node)
        if root == "keras":
            return self.call_keras(rest, tail, given, node)
        if root == "numpy":
            return self.call_numpy(rest, tail, given, node)
        if root in ("math", "cmath"):
            return self.away(How.NUMPY_CALL, node, given.all, api.name, Kind.NUMBER, tail in ("floor", "ceil", "trunc"))
        if root == "tensorflow_probability":
            return self.call_probability(tail, given, node)
        if root in ops.FOREIGN:
            return self.foreign(api.name, given, node)
        return self.call_python_library(api.name, tail, given, node)

    def foreign(self, name: str, given: Arguments, node: ast.AST) -> Value:
        for value in given.all:
            if value.refs:
                self.called_back(value, node)
        lost = self.cut(How.FOREIGN_CALL, node, given.all, name, lost=tuple(getattr(node, "args", ())))
        return Value(Kind.UNKNOWN, lost=lost, ref=Foreign(name), node=node)

    def call_Foreign(self, value: Value, ref: Foreign, given: Arguments, node: ast.AST) -> Value:
        return self.foreign(ref.name, given, node).with_(
            lost=self.cut(How.FOREIGN_CALL, node, given.all, ref.name) | value.lost
        )

    def call_python_library(self, name: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        if name == "functools.partial" and given.args:
            return Value(Kind.OBJECT, ref=Bound(given.args[0], tuple(given.args[1:]), given.keywords))
        if name in ("functools.wraps", "functools.lru_cache", "contextlib.contextmanager", "functools.cache"):
            return Value(Kind.OBJECT)
        if name == "functools.reduce" and len(given.args) >= 2:
            element = self.element(given.args[1], node)
            start = given.args[2] if len(given.args) > 2 else element
            return join(start, self.call(given.args[0], Arguments([start, element], {}), node))
        if name in ("copy.copy", "copy.deepcopy") and given.args:
            return given.args[0]
        if name in ("collections.deque", "collections.OrderedDict", "collections.defaultdict", "collections.Counter"):
            if tail == "deque":
                return self._as_sequence(given, "list") if given.args else Value(Kind.CONTAINER, ref=Sequence("list"))
            if tail == "defaultdict" and given.args:
                return Value(Kind.CONTAINER, ref=Mapping(rest=self.call(given.args[0], Arguments([], {}), node)))
            return self.builtin_dict(given, node)
        if name == "collections.namedtuple":
            return Value(Kind.OBJECT, ref=Api("tapefix.namedtuple"))
        if name == "tapefix.namedtuple":
            return Value(Kind.CONTAINER, ref=Sequence("tuple", [*given.args, *given.keywords.values()]))
        if name == "dataclasses.field":
            factory = given.keywords.get("default_factory")
            return (
                self.call(factory, Arguments([], {}), node)
                if factory is not None
                else given.keywords.get("default", UNKNOWN)
            )
        if name.startswith("inspect."):
            return UNKNOWN
        if name.startswith("itertools."):
            items = [self.element(v, node) for v in given.args if v.refs or v.kind & NUMERIC]
            return Value(Kind.CONTAINER, ref=Sequence("list", None, join_all(items) if items else UNKNOWN))
        if name.startswith(("random.", "secrets.")):
            if given.args and tail in ("choice", "sample", "choices"):
                element = self.element(given.args[0], node)
                return element if tail == "choice" else Value(Kind.CONTAINER, ref=Sequence("list", None, element))
            return Value(Kind.ARRAY)
        if name.startswith("operator."):
            return self.carry(node, given.all, join_all(given.all).kind if given.all else Kind.UNKNOWN)
        if name in ("json.dump", "json.dumps") and given.args and self.whole(given.args[0]).kind & Kind.TENSOR:
            self.misuse(node, "json")
        if name.startswith(("os.", "sys.", "time.", "logging.", "argparse.", "json.", "re.", "pathlib.", "warnings.")):
            return Value(Kind.NUMBER) if name.startswith(("os.", "time.", "re.")) else Value(Kind.OBJECT | Kind.UNKNOWN)
        return self.call_unknown(UNKNOWN, given, node)

    def away(
        self, how: How, node: ast.AST, values: list[Value], detail: str, kind: int = Kind.ARRAY, weak: bool = False
    ) -> Value:
        """The result of something outside TensorFlow: a value without a gradient."""
        lost = self.cut(how, node, values, detail, weak=weak, lost=tuple(getattr(node, "args", ())))
        return Value(kind, lost=lost, node=node)

    # ------------------------------------------------------------------------------------------- TensorFlow

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
            lost = self.cut(how, node, values, tail, lost=tuple(getattr(node, "args", ())))
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
        weighs = tail in ("matmul", "einsum", "tensordot") and any(isinstance(v.ref, Var) for v in values)
        result = self.carry(
            node,
            values,
            meet=meet and not weighs,
            same=tail in ("subtract", "divide", "truediv", "div", "divide_no_nan"),
        )
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
            test = node.args[position] if isinstance(node, ast.Call) and len(node.args) > position else node
            _, lost = self.predicate(whole, node, How.SELECTION) if isinstance(node, ast.expr) else (False, NO_LOST)
            # a plain index keeps the place where it was made an index: the argmax, the cast
            own = frozenset(x.weakened() for x in whole.lost if x.site.how not in (How.COMPARED,))
            lost = frozenset(x for x in lost if x.site.how is How.SELECTION) | own
            value.lost |= lost
            del test
        return value

    def tf_cast(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = self.whole(given.args[0] if given.args else given.keywords.get("x", UNKNOWN))
        to = dtype_of(given.get(1, "dtype"))
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
        value = given.args[0] if given.args else UNKNOWN
        live = self.live_of(value) if not self.carried_by_loop() else frozenset()
        site = self.site(How.STOPPED, node, "stop_gradient") if live else None
        lost = frozenset(Lost(site, d.source, d.tapes, True) for d in live) if site else NO_LOST
        # what is stopped by name is meant, also where a trained Variable itself was compared or rounded
        before = frozenset(replace(x, weak=True, direct=False) for x in self.whole(value).lost)
        return Value(Kind.TENSOR, lost=lost | before, dtype=value.dtype, node=node)

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
        result.dtype = dtype_of(given.get(1, "dtype")) or whole.dtype
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
        result.dtype, result.reduced = dtype_of(given.get(1, "dtype")) or self.whole(value).dtype, value.reduced
        return result

    def tf_identity(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.carry(node, given.args[:1], dtype=given.args[0].dtype if given.args else "")

    def tf_Variable(self, path: str, given: Arguments, node: ast.AST) -> Value:
        initial = given.args[0] if given.args else given.keywords.get("initial_value", UNKNOWN)
        if isinstance(initial.ref, (Function, Bound)):
            initial = self.call(initial, Arguments([], {}), node)
        integer = dtype_of(given.get(4, "dtype")) in ("int", "bool") or (
            initial.dtype in ("int", "bool") and not dtype_of(given.get(4, "dtype"))
        )
        trainable = given.get(1, "trainable")
        variable = Var(
            "", self.spot(node), integer=integer, trainable=trainable is None or trainable.const is not False
        )
        buffer = Buffer("variable", self.spot(node))
        if isinstance(node, ast.expr):
            self.use(buffer, Role.MADE, node, False)
        variable.buffer = buffer
        variable.stored = self.cut(How.VARIABLE_MADE, node, [initial], "tf.Variable", variable=variable, buffer=buffer)
        return Value(Kind.VARIABLE, ref=variable, dtype="int" if integer else "", node=node)

    def tf_GradientTape(self, path: str, given: Arguments, node: ast.AST) -> Value:
        persistent = given.get(0, "persistent")
        return Value(
            Kind.OBJECT, ref=Tape(node, persistent=persistent is not None and persistent.const is True), node=node
        )

    def tf_function(self, path: str, given: Arguments, node: ast.AST) -> Value | None:
        if path != "function":
            return None
        if given.args:
            function = given.args[0].ref.function.ref if isinstance(given.args[0].ref, Bound) else given.args[0].ref
            if isinstance(function, Function):
                function.graph = True
            return given.args[0]
        return Value(Kind.OBJECT, ref=Bound(Value(Kind.OBJECT, ref=Api("tensorflow.function")), (), given.keywords))

    def tf_recompute_grad(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return given.args[0] if given.args else UNKNOWN

    def tf_custom_gradient(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = given.args[0] if given.args else UNKNOWN
        if isinstance(value.ref, Function):
            value.ref.kind = "custom_gradient"
        return value

    def tf_cond(self, path: str, given: Arguments, node: ast.AST) -> Value:
        predicate = given.get(0, "pred") or UNKNOWN
        branches = [given.get(1, "true_fn"), given.get(2, "false_fn")]
        results = [
            self.call(b, Arguments([], {}), node) if b is not None and not b.kind & NUMERIC else b or NONE
            for b in branches
        ]
        return self.chosen(predicate, results, node, exclusive=True)

    def chosen(self, predicate: Value, results: list[Value], node: ast.AST, exclusive: bool) -> Value:
        assert isinstance(node, ast.expr)
        on_data, lost = self.predicate(predicate, node, How.PREDICATE_OP)
        value = join_all(results)
        if exclusive and on_data and results:
            for other in results[1:]:
                lost |= self.exclusive(results[0], other, node, How.PREDICATE_OP)
        return self.tag_inside(value, lost) if lost else value

    def tf_case(self, path: str, given: Arguments, node: ast.AST) -> Value:
        pairs = given.get(0, "pred_fn_pairs") or UNKNOWN
        results, tests = [], []
        for item in self.iterate_items(pairs):
            if isinstance(item.ref, Sequence) and item.ref.items and len(item.ref.items) == 2:
                tests.append(item.ref.items[0])
                results.append(self.call(item.ref.items[1], Arguments([], {}), node))
        default = given.get(1, "default")
        if default is not None:
            results.append(self.call(default, Arguments([], {}), node))
        test = join_all([self.whole(t) for t in tests]) if tests else UNKNOWN
        return self.chosen(test, results or [UNKNOWN], node, exclusive=True)

    def tf_switch_case(self, path: str, given: Arguments, node: ast.AST) -> Value:
        branches = given.get(1, "branch_fns") or UNKNOWN
        items = list(branches.ref.items.values()) if isinstance(branches.ref, Mapping) else self.iterate_items(branches)
        results = []
        for item in items:
            function = (
                item.ref.items[1]
                if isinstance(item.ref, Sequence) and item.ref.items and len(item.ref.items) == 2
                else item
            )
            results.append(self.call(function, Arguments([], {}), node))
        default = given.get(2, "default")
        if default is not None:
            results.append(self.call(default, Arguments([], {}), node))
        if len(results) == 1 and isinstance(branches.ref, Sequence) and branches.ref.items is None:
            results.append(Value(Kind.TENSOR))  # one stands for many: each runs without the others
        return self.chosen(given.get(0, "branch_index") or UNKNOWN, results or [UNKNOWN], node, exclusive=True)

    def tf_while_loop(self, path: str, given: Arguments, node: ast.AST) -> Value:
        condition, body, start = given.get(0, "cond"), given.get(1, "body"), given.get(2, "loop_vars") or UNKNOWN
        items = self.iterate_items(start) if isinstance(start.ref, Sequence) else [start]
        value = start
        lost: frozenset[Lost] = NO_LOST
        for _ in range(2):
            if condition is not None and isinstance(node, ast.expr):
                _, stops = self.predicate(self.call(condition, Arguments(items, {}), node), node, How.PREDICATE_LOOP)
                lost |= stops
            value = self.call(body, Arguments(items, {}), node) if body is not None else UNKNOWN
            again = self.iterate_items(value) if isinstance(value.ref, Sequence) else [value]
            if len(again) != len(items):
                break
            joined = [join(a, b) for a, b in zip(items, again)]
            if all(map(same, items, joined)):
                break  # another pass would tell nothing new
            items = joined
        items = [self.tag_inside(i, lost) for i in items] if lost else items
        return (
            Value(Kind.CONTAINER, ref=Sequence("tuple", items)) if isinstance(value.ref, Sequence) else join_all(items)
        )

    def _mapped(self, given: Arguments, node: ast.AST) -> Value:
        function, elems = given.get(0, "fn"), given.get(1, "elems")
        if function is None or elems is None:
            return self.call_unknown(UNKNOWN, given, node)
        if isinstance(elems.ref, Sequence) and elems.ref.items is not None:
            element = Value(Kind.CONTAINER, ref=Sequence("tuple", [self.element(v, node) for v in elems.ref.items]))
        else:
            element = self.element(elems, node)
        result = self.call(function, Arguments([element], {}), node)
        return self.slot_kind(result)

    @staticmethod
    def slot_kind(value: Value) -> Value:
        return value.with_(kind=Kind.TENSOR | (value.kind & Kind.CONTAINER)) if not value.refs else value

    def tf_map_fn(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self._mapped(given, node)

    tf_vectorized_map = tf_map_fn

    def tf_scan(self, path: str, given: Arguments, node: ast.AST) -> Value:
        function, elems, start = given.get(0, "fn"), given.get(1, "elems"), given.get(2, "initializer")
        if function is None or elems is None:
            return UNKNOWN
        element = self.element(elems, node)
        state = start or element
        for _ in range(2):
            state = join(state, self.call(function, Arguments([state, element], {}), node))
        return state

    tf_foldl = tf_scan
    tf_foldr = tf_scan

    def tf_py_function(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.python_function(given, node, "py_function", stays=True)

    def tf_numpy_function(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.python_function(given, node, "numpy_function", stays=False)

    tf_py_func = tf_numpy_function

    def python_function(self, given: Arguments, node: ast.AST, name: str, stays: bool) -> Value:
        function, inputs = given.get(0, "func"), given.get(1, "inp")
        items = self.iterate_items(inputs) if inputs is not None else []
        passed = items if stays else [v.with_(kind=Kind.ARRAY, live=frozenset(), lost=NO_LOST, ref=None) for v in items]
        result = self.call(function, Arguments(passed, {}), node) if function is not None else UNKNOWN
        inner = self.whole(result)
        if stays and not inner.lost and not (self.live_of(*items) and not inner.live):
            return self.carry(node, [result])
        reach = [*items, Value(Kind.TENSOR, inner.live)]
        lost = self.cut(How.PY_FUNCTION, node, reach, name) | frozenset(
            Lost(self.site(How.PY_FUNCTION, node, name), x.source, x.tapes, x.weak) for x in inner.lost
        )
        outputs = given.get(2, "Tout")
        one = Value(Kind.TENSOR, lost=lost, node=node)
        if isinstance(outputs.ref if outputs else None, Sequence):
            return Value(Kind.CONTAINER, ref=Sequence("list", [one for _ in (outputs.ref.items or [one])]), node=node)  # type: ignore[union-attr]
        return one

    def tf_TensorArray(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return Value(Kind.OBJECT, ref=TensorArray(), node=node)

    def tf_is_tensor(self, path: str, given: Arguments, node: ast.AST) -> Value:
        value = given.args[0] if given.args else UNKNOWN
        if value.kind and not value.kind & ~(Kind.TENSOR | Kind.VARIABLE):
            return Value(Kind.NUMBER, const=True)
        if value.kind and not value.kind & ~(Kind.ARRAY | Kind.NUMBER | Kind.CONTAINER):
            return Value(Kind.NUMBER, const=False)
        return Value(Kind.NUMBER)

    tf_is_tf_type = tf_is_tensor

    def tf_print(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return NONE

    def tf_no_op(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return NONE

    def tf_group(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return NONE

    def tf_control_dependencies(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return UNKNOWN

    def tf_map_structure(self, path: str, given: Arguments, node: ast.AST) -> Value:
        if len(given.args) < 2:
            return UNKNOWN
        function, *structures = given.args
        result = self.call(function, Arguments([self.element(s, node) if s.refs else s for s in structures], {}), node)
        return Value(Kind.CONTAINER, ref=Sequence("list", None, result)) if structures[0].refs else result

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

    # ------------------------------------------------------------------------------------------- datasets

    def make_dataset(self, tail: str, given: Arguments, node: ast.AST) -> Value:
        source = given.args[0] if given.args else UNKNOWN

        def as_tensor(value: Value) -> Value:
            if isinstance(value.ref, Sequence) and value.ref.items is not None:
                return Value(Kind.CONTAINER, ref=Sequence("tuple", [as_tensor(v) for v in value.ref.items]))
            if isinstance(value.ref, Mapping):
                return Value(Kind.CONTAINER, ref=Mapping({k: as_tensor(v) for k, v in value.ref.items.items()}))
            lost = self.cut(How.DATASET, node, [value], "tf.data") if self.tapes else self.lost_of(value)
            return Value(Kind.TENSOR, lost=lost)

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

    def method_of_Dataset(
        self, receiver: Value, dataset: Dataset, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        if name in ("map", "interleave", "flat_map") and given.args:
            element = dataset.element
            args = (
                list(element.ref.items)
                if isinstance(element.ref, Sequence) and element.ref.items is not None
                else [element]
            )
            result = self.call(given.args[0], Arguments(args, {}), node)
            made = result.ref.element if isinstance(result.ref, Dataset) else result
            if self.tapes and self.live_of(made):
                made = Value(Kind.TENSOR, lost=self.cut(How.DATASET, node, [made], f"Dataset.{name}"))
            return Value(Kind.OBJECT, ref=Dataset(made), node=node)
        if name == "reduce" and len(given.args) == 2:
            state = given.args[0]
            state = join(state, self.call(given.args[1], Arguments([state, dataset.element], {}), node))
            return Value(Kind.TENSOR, lost=self.cut(How.DATASET, node, [state], "Dataset.reduce"))
        if name == "as_numpy_iterator":
            return Value(Kind.CONTAINER, ref=Sequence("list", None, dataset.element))
        if name == "enumerate":
            pair = Value(Kind.CONTAINER, ref=Sequence("tuple", [Value(Kind.TENSOR), dataset.element]))
            return Value(Kind.OBJECT, ref=Dataset(pair))
        return receiver

    # ------------------------------------------------------------------------------------------- methods

    def method_of_Tape(self, receiver: Value, tape: Tape, name: str, given: Arguments, node: ast.AST) -> Value | None:
        if name == "watch" and given.args:
            for part in [leaf for whole in parts_of(given.args[0]) for leaf in (whole, *whole.alts)]:
                tape.unsure = tape.unsure or bool(part.kind & Kind.UNKNOWN)
                if part.node is not None:
                    tape.nodes.add(part.node)
                if isinstance(part.ref, (Sequence, Mapping)):
                    continue
                if isinstance(part.ref, (Var, WeightOf)):
                    if isinstance(part.ref, Var):
                        part.ref.trainable = True
                    continue
                # a value is watched by its identity, so that only this value counts, not the name
                source = Source(
                    self.text(node.args[0]) if isinstance(node, ast.Call) and node.args else "watched", self.spot(node)
                )
                tape.watched.setdefault(id(part), Dep(source, frozenset({tape}), self.spot(node)))
                tape.keep.append(part)
            return NONE
        if name == "stop_recording":
            return Value(Kind.OBJECT, ref=Stopped(tape))
        if name in ("gradient", "jacobian", "batch_jacobian"):
            return self.gradient(tape, given, node)
        if name in ("watched_variables",):
            return Value(Kind.CONTAINER | Kind.UNKNOWN)
        if name == "__enter__":
            self.tapes.append(tape)
            return receiver
        if name == "__exit__":
            if tape in self.tapes:
                self.tapes.remove(tape)
            return NONE
        return None

    def gradient(self, tape: Tape | None, given: Arguments, node: ast.AST) -> Value:
        raise NotImplementedError

    def method_of_Var(self, receiver: Value, variable: Var, name: str, given: Arguments, node: ast.AST) -> Value | None:
        if name in ("assign", "assign_add", "assign_sub"):
            return self.write_variable(receiver, variable, name, given, node, How.VARIABLE_WRITE)
        if name.startswith(("scatter_", "batch_scatter")):
            return self.write_variable(receiver, variable, name, given, node, How.VARIABLE_SLICE_WRITE)
        if name in ("read_value", "value", "initialized_value"):
            return self.carry(node, [receiver])
        return None

    def write_variable(
        self, receiver: Value, variable: Var, name: str, given: Arguments, node: ast.AST, how: How
    ) -> Value:
        value = given.get(0, "value", "delta", "sparse_delta", "updates") or UNKNOWN
        if name.startswith("scatter_nd"):
            value = given.get(1, "updates") or value
        statement = (
            self.statement if isinstance(self.statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.Return)) else node
        )
        place = statement if not isinstance(self.statement, ast.Return) else node
        carries = bool(self.live_of(value))
        if variable.buffer is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base: ast.expr = node.func.value
            while isinstance(base, ast.Subscript):
                base = base.value
            self.use(variable.buffer, Role.WRITE, base, carries)
        lost = self.cut(how, place, [value], f".{name}(...)", buffer=variable.buffer, variable=variable)
        if name == "assign" and how is How.VARIABLE_WRITE and not self.frame.branch_depth:
            variable.stored = lost
        else:
            variable.stored = variable.stored | lost
        return receiver if receiver.ref is variable else Value(Kind.VARIABLE, ref=variable, node=node)

    def method_of_Slice(
        self, receiver: Value, slice_: Slice, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        owner = slice_.variable
        if not name.startswith(("assign", "scatter")):
            return None
        if isinstance(owner.ref, Var):
            return self.write_variable(owner, owner.ref, "slice " + name, given, node, How.VARIABLE_SLICE_WRITE)
        if isinstance(owner.ref, WeightOf):
            return self.method_of_WeightOf(owner, owner.ref, "assign", given, node)
        return owner

    def method_of_WeightOf(
        self, receiver: Value, weight: WeightOf, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        if name in ("assign", "assign_add", "assign_sub"):
            value = given.get(0, "value", "delta") or UNKNOWN
            place = self.statement if isinstance(self.statement, (ast.Expr, ast.Assign)) else node
            lost = self.cut(How.VARIABLE_WRITE, place, [value], f".{name}(...)", variable=weight.owner)
            owner = weight.owner
            if hasattr(owner, "written"):
                # an optimizer's own step is no copy: what was stored stays beside it
                owner.written = owner.written | lost
            return receiver
        if name in ("read_value", "value"):
            return self.carry(node, [receiver])
        return None

    def method_of_Array(
        self, receiver: Value, array: Array, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        if name in ("fill", "put", "itemset") and given.args:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                self.write_array(array, node.func.value, given.args[-1], self.statement)
            return NONE
        if name in ("astype", "copy"):
            return Value(
                Kind.ARRAY, lost=array.lost, ref=Array(Buffer("numpy", self.spot(node)), array.lost), node=node
            )
        return None

    def method_of_Distribution(
        self, receiver: Value, dist: Distribution, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        if name == "sample" or name.startswith("experimental_sample"):
            if dist.reparameterised:
                return self.carry(node, [dist.parameters])
            return Value(Kind.TENSOR, lost=self.cut(How.SAMPLED, node, [dist.parameters], ".sample()"), node=node)
        if name == "mode" and not dist.reparameterised:
            return Value(Kind.TENSOR, lost=self.cut(How.INDEX_OF, node, [dist.parameters], ".mode()"), node=node)
        return self.carry(node, [dist.parameters, *given.all])

    def call_probability(self, tail: str, given: Arguments, node: ast.AST) -> Value:
        if tail[:1].isupper():
            parameters = self.whole(Value(Kind.CONTAINER, ref=Sequence("tuple", given.all)))
            nested = [v.ref for v in given.all if isinstance(v.ref, Distribution)]
            live = self.live_of(parameters, *[d.parameters for d in nested])
            lost = self.lost_of(parameters, *[d.parameters for d in nested])
            fine = tail not in ops.UNREPARAMETERISED and all(d.reparameterised for d in nested)
            return Value(Kind.OBJECT, ref=Distribution(Value(Kind.TENSOR, live, lost), fine), node=node)
        return self.call_unknown(UNKNOWN, given, node)

    def method_of_value(self, receiver: Value, name: str, given: Arguments, node: ast.AST) -> Value:
        whole = self.whole(receiver)
        if name in ("gradient", "jacobian", "batch_jacobian") and len(given.all) >= 2 and not whole.tainted:
            return self.gradient(None, given, node)
        if name in ("numpy", "tolist", "item", "__array__") or (name == "eval" and whole.kind & Kind.TENSOR):
            lost = self.cut(
                How.TO_NUMPY,
                node,
                [receiver],
                f".{name}()",
                lost=(node.func.value,) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else (),
            )
            if name in ("tolist", "item") and receiver.kind == Kind.TENSOR:
                self.misuse(node.func if isinstance(node, ast.Call) else node, name)
            return Value(Kind.ARRAY, lost=lost, dtype=whole.dtype, node=node, reduced=receiver.reduced)
        if name in (
            "set_shape",
            "watch",
            "minimize",
            "apply_gradients",
            "update_state",
            "reset_state",
            "reset_states",
            "build",
            "summary",
            "save",
            "load_weights",
            "save_weights",
        ):
            if name == "minimize":
                return self.minimize(given, node)
            if name == "update_state" and given.args:
                return NONE
            return NONE
        if name == "result" and not given.all:
            return Value(Kind.TENSOR)
        if name in ops.PREDICTING and receiver.ref is None:
            return self.call_unknown(receiver, given, node)
        if name in ("fit", "train_on_batch", "compile", "fit_generator"):
            return UNKNOWN
        if name in ("run", "experimental_run_v2") and given.args and isinstance(given.args[0].ref, (Function, Bound)):
            args = given.get(1, "args")
            return self.call(given.args[0], Arguments(self.iterate_items(args) if args is not None else [], {}), node)
        kind = whole.kind & (NUMERIC | Kind.UNKNOWN) or (Kind.SHAPE if whole.kind & Kind.SHAPE else Kind.UNKNOWN)
        if kind == Kind.TENSOR and name in ops.NDARRAY_ONLY and isinstance(node, ast.Call):
            self.misuse(node.func, name)
        if kind & Kind.VARIABLE:
            kind = (kind & ~Kind.VARIABLE) | Kind.TENSOR
        if not whole.tainted and kind & Kind.UNKNOWN:
            return self.call_unknown(receiver, given, node)
        integral = name in ("argmax", "argmin", "argsort", "round", "nonzero", "any", "all", "astype_int")
        if name == "astype" and dtype_of(given.args[0] if given.args else None) in ("int", "bool"):
            integral = True
        values = [receiver, *given.all]
        if integral and kind & Kind.TENSOR:
            return Value(kind, lost=self.cut(How.INDEX_OF, node, values, f".{name}()"), dtype="int", node=node)
        result = self.carry(node, values, kind)
        if integral:
            result.lost = frozenset(x.weakened() for x in result.lost)
        result.reduced = name in ("mean", "sum", "max", "min") and not given.all
        return result

    def minimize(self, given: Arguments, node: ast.AST) -> Value:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------- NumPy

    def call_numpy(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
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
        if how is How.ARRAY_MADE or tail in ("copy", "tile", "repeat", "reshape"):
            buffer = Buffer("numpy", self.spot(node))
            result.ref = Array(buffer, result.lost)
        if tail in ("mean", "sum", "max", "min", "average") and len(values) == 1:
            result.reduced = True
        if tail in ("split", "array_split", "meshgrid", "unique", "histogram", "where", "nonzero"):
            if tail not in ("where",) or len(given.args) == 1:
                return Value(Kind.CONTAINER, ref=Sequence("list", None, result))
        return result

    def numpy_buffer(self, tail: str, given: Arguments, node: ast.AST) -> Value:
        lost = NO_LOST
        if tail in ("full", "full_like") and len(given.args) > 1:
            lost = self.cut(How.NUMPY_CALL, node, given.args[1:2], "np." + tail)
        kind = given.get(1 if "_like" not in tail else 9, "dtype")
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
            dtype=dtype_of(given.get(1 if "_like" not in tail else 9, "dtype")),
            node=node,
        )
        if isinstance(node, ast.expr):
            self.use(buffer, Role.MADE, node, False)
        return value

    buffers: dict[ast.AST, Buffer]

    # provided by the Keras part
    def call_keras(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        raise NotImplementedError


def is_model(value: Value) -> bool:
    return any(isinstance(ref, Layer) or (isinstance(ref, Instance) and ref.is_keras()) for ref in value.refs)


def weights_of(value: Value) -> list[object]:
    return [ref.owner for ref in value.refs if isinstance(ref, Weights)]
