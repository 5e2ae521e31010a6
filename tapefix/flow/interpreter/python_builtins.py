"""Python's own functions and containers."""

from __future__ import annotations

import ast

from tapefix.flow.facts import How
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.interpreter.choices import in_each
from tapefix.flow.interpreter.operators import Operators
from tapefix.flow.libraries import operations as ops
from tapefix.flow.objects import Api, Bound, Function, Instance, Mapping, Sequence, TensorArray
from tapefix.flow.values import MISSING, NO_DEPS, NONE, NUMBER, NUMERIC, UNKNOWN, Kind, Value, Var, join, join_all

TENSOR_TYPES = frozenset({"tensorflow.Tensor", "tensorflow.is_tensor"})


OTHER_TYPES = frozenset(
    ["numpy.ndarray", *("builtins." + name for name in ("list", "tuple", "dict", "set", "int", "float", "str", "bool"))]
)


def join_pairs(pairs: list[Value]) -> Value:
    """Element-wise join of tuples of one length."""
    if not pairs:
        return UNKNOWN
    columns = [p.ref.items for p in pairs]
    return Value(Kind.CONTAINER, ref=Sequence("tuple", [join_all(column) for column in zip(*columns)]))


class Builtins(Operators):
    """Calls builtins, and methods of lists, dicts and TensorArrays."""

    def call_builtin(self, name: str, given: Arguments, node: ast.AST) -> Value:
        first = given.args[0] if given.args else UNKNOWN
        method = getattr(self, "builtin_" + name, None)
        if method is not None:
            return method(given, node)  # type: ignore[no-any-return]
        if name in ("float", "int", "complex", "bool"):
            return self.builtin_number(name, first, node)
        if name in ops.NO_VALUE:
            for value in given.all:
                self.called_back(value, node)
            return Value(Kind.SHAPE) if name == "len" else Value(Kind.NUMBER)
        if name in ("abs", "sum", "max", "min", "pow", "round", "divmod"):
            return self.builtin_arithmetic(name, given, node)
        return self.call_unknown(UNKNOWN, given, node)

    def builtin_number(self, name: str, value: Value, node: ast.AST) -> Value:
        made = self.special(f"__{name}__", value, [], node)
        if made is not None:
            return made
        if value.const is not MISSING and name in ("int", "float") and isinstance(value.const, (int, float)):
            return Value(Kind.NUMBER, const=int(value.const) if name == "int" else float(value.const))
        if value.kind & Kind.SHAPE:
            return Value(Kind.SHAPE)
        if self.frame.graph and name == "float" and value.kind & Kind.TENSOR:
            return self.carry(node, [value], Kind.TENSOR)
        weak = name in ("int", "bool")
        lost = self.cut(How.PYTHON_NUMBER, node, [value], f"{name}()", weak=weak, lost=tuple(getattr(node, "args", ())))
        on_data = value.kind & (NUMERIC | Kind.UNKNOWN)
        return Value(
            Kind.ARRAY if on_data and not on_data & Kind.UNKNOWN else Kind.NUMBER,
            lost=lost,
            dtype=name,
            node=node,
            reduced=True,
        )

    def builtin_arithmetic(self, name: str, given: Arguments, node: ast.AST) -> Value:
        values = given.args
        if name == "sum" and len(values) == 2 and isinstance(values[1].ref, Sequence):  # lists put together
            parts = self.iterate_items(values[0]) if isinstance(values[0].ref, Sequence) else []
            return Value(Kind.CONTAINER, ref=Sequence("list", [*self.iterate_items(values[1]), *parts]), node=node)
        if name in ("sum", "max", "min") and len(values) == 1:
            value = values[0]
            element = self.element(value, node)
            items = self.iterate_items(value) if isinstance(value.ref, Sequence) else [element]
            kind = join_all([self.whole(i) for i in items]).kind if items else Kind.NUMBER
        else:
            items = values
            kind = join_all(values).kind if values else Kind.NUMBER
        kind = kind & (NUMERIC | Kind.NUMBER | Kind.UNKNOWN | Kind.SHAPE) or Kind.UNKNOWN
        if kind & Kind.VARIABLE:
            kind = (kind & ~Kind.VARIABLE) | Kind.TENSOR
        if kind & Kind.TENSOR and kind & Kind.NUMBER:
            kind &= ~Kind.NUMBER
        if name == "round":
            if kind == Kind.TENSOR:
                self.misuse(node, "round")
            return Value(kind, lost=self.cut(How.ROUNDED, node, values, "round()"))
        result = self.carry(node, items, kind)
        result.reduced = all(i.reduced or i.kind == Kind.NUMBER for i in items)
        return result

    def builtin_isinstance(self, given: Arguments, node: ast.AST) -> Value:
        if len(given.args) != 2:
            return NUMBER
        value, wanted = given.args
        types = wanted.ref.items or [] if isinstance(wanted.ref, Sequence) else [wanted]
        names = [t.ref.name for t in types if isinstance(t.ref, Api)]
        if names == ["tensorflow.Variable"] and len(types) == 1:
            return self._is_variable(value)
        if len(names) != len(types) or not names or value.alts:
            return NUMBER
        if value.kind not in (Kind.TENSOR, Kind.VARIABLE) or isinstance(value.ref, (Sequence, Mapping)):
            return NUMBER
        if any(d.source.assumed for d in value.live) and names != ["numpy.ndarray"]:
            return NUMBER  # a layer's input: it may be a list of tensors as well
        if value.kind == Kind.TENSOR and any(name in TENSOR_TYPES for name in names):
            return Value(Kind.NUMBER, const=True)
        if all(name in OTHER_TYPES for name in names):
            return Value(Kind.NUMBER, const=False)
        return NUMBER

    @staticmethod
    def _is_variable(value: Value) -> Value:
        """Whether it is a tf.Variable; a weight made by add_weight is none of TensorFlow's in Keras 3."""
        if isinstance(value.ref, Var) and value.ref.spot is not None:
            made = value.ref.spot.node
            if isinstance(made, ast.Call) and ast.unparse(made.func).endswith("Variable"):
                return Value(Kind.NUMBER, const=True)
        elif value.kind and not value.kind & (Kind.VARIABLE | Kind.UNKNOWN):
            return Value(Kind.NUMBER, const=False)
        return NUMBER

    def builtin_vars(self, given: Arguments, node: ast.AST) -> Value:
        """The attributes of an object of a plain class."""
        owner = given.args[0].ref if len(given.args) == 1 else None
        if not isinstance(owner, Instance) or owner.is_keras() or any(name.startswith("*") for name in owner.attrs):
            return self.call_unknown(UNKNOWN, given, node)
        return Value(Kind.CONTAINER, ref=Mapping(owner.attrs), node=node)

    def _as_sequence(self, given: Arguments, type_: str) -> Value:
        if not given.args:
            return Value(Kind.CONTAINER, ref=Sequence(type_))
        value = given.args[0]
        ref = value.ref
        if isinstance(ref, Sequence):
            return Value(
                Kind.CONTAINER, ref=Sequence(type_, list(ref.items) if ref.items is not None else None, ref.rest)
            )
        return Value(Kind.CONTAINER, ref=Sequence(type_, None, self.element(value, value.node or self.statement)))

    def builtin_list(self, given: Arguments, node: ast.AST) -> Value:
        return self._as_sequence(given, "list")

    def builtin_tuple(self, given: Arguments, node: ast.AST) -> Value:
        return self._as_sequence(given, "tuple")

    def builtin_set(self, given: Arguments, node: ast.AST) -> Value:
        return self._as_sequence(given, "set")

    def builtin_iter(self, given: Arguments, node: ast.AST) -> Value:
        return given.args[0] if given.args else UNKNOWN

    def builtin_next(self, given: Arguments, node: ast.AST) -> Value:
        return self.element(given.args[0], node) if given.args else UNKNOWN

    def builtin_reversed(self, given: Arguments, node: ast.AST) -> Value:
        value = self._as_sequence(given, "list")
        if isinstance(value.ref, Sequence) and value.ref.items is not None:
            value.ref.items.reverse()
        return value

    def builtin_sorted(self, given: Arguments, node: ast.AST) -> Value:
        value = self._as_sequence(given, "list")
        if isinstance(value.ref, Sequence):
            value.ref.forget()
        return value

    def builtin_dict(self, given: Arguments, node: ast.AST) -> Value:
        mapping = Mapping(dict(given.keywords))
        for value in given.args:
            if isinstance(value.ref, Mapping):
                mapping.items = {**value.ref.items, **mapping.items}
                mapping.rest = value.ref.rest
            else:
                pair = self.element(value, node)
                if isinstance(pair.ref, Sequence):
                    mapping.rest = (
                        pair.ref.items[1] if pair.ref.items and len(pair.ref.items) == 2 else pair.ref.element()
                    )
        return Value(Kind.CONTAINER, ref=mapping)

    def builtin_enumerate(self, given: Arguments, node: ast.AST) -> Value:
        items = self.iterate_items(given.args[0]) if given.args else []
        each = NO_DEPS.union(*map(in_each, given.args[:1]))
        known = bool(given.args) and isinstance(given.args[0].ref, Sequence) and given.args[0].ref.items is not None
        pairs = [Value(Kind.CONTAINER, ref=Sequence("tuple", [NUMBER, i])) for i in items]
        return Value(
            Kind.CONTAINER,
            ref=Sequence("list", pairs, each=each)
            if known and pairs
            else Sequence("list", None, join_pairs(pairs), each=each),
        )

    def builtin_zip(self, given: Arguments, node: ast.AST) -> Value:
        each = NO_DEPS.union(*map(in_each, given.args))
        known = all(isinstance(v.ref, Sequence) and v.ref.items is not None for v in given.args) and given.args
        if known:
            columns = [v.ref.items for v in given.args]
            rows = [Value(Kind.CONTAINER, ref=Sequence("tuple", list(row))) for row in zip(*columns)]
            return Value(Kind.CONTAINER, ref=Sequence("list", rows, each=each))
        row = Value(Kind.CONTAINER, ref=Sequence("tuple", [self.element(v, node) for v in given.args]))
        return Value(Kind.CONTAINER, ref=Sequence("list", None, row, each=each))

    def builtin_map(self, given: Arguments, node: ast.AST) -> Value:
        if len(given.args) < 2:
            return UNKNOWN
        function, *columns = given.args
        known = all(isinstance(v.ref, Sequence) and v.ref.items is not None and len(v.ref.items) <= 6 for v in columns)
        if known:
            rows = list(zip(*[v.ref.items for v in columns]))
            return Value(
                Kind.CONTAINER,
                ref=Sequence("list", [self.call(function, Arguments(list(row), {}), node) for row in rows]),
            )
        result = self.call(function, Arguments([self.element(v, node) for v in columns], {}), node)
        return Value(Kind.CONTAINER, ref=Sequence("list", None, result))

    def builtin_filter(self, given: Arguments, node: ast.AST) -> Value:
        if len(given.args) < 2:
            return UNKNOWN
        function, element = given.args[0], self.element(given.args[1], node)
        if isinstance(function.ref, (Function, Bound)) and isinstance(node, ast.expr):
            on_data, lost = self.predicate(self.call(function, Arguments([element], {}), node), node, How.PREDICATE)
            element = self.sifted(element, [(node, lost)] if on_data else [])
        return Value(Kind.CONTAINER, ref=Sequence("list", None, element))

    def builtin_getattr(self, given: Arguments, node: ast.AST) -> Value:
        if len(given.args) > 1 and isinstance(given.args[1].const, str):
            return self.attribute(given.args[0], given.args[1].const, node)
        return UNKNOWN

    def builtin_setattr(self, given: Arguments, node: ast.AST) -> Value:
        if len(given.args) == 3 and isinstance(given.args[0].ref, Instance):
            name = given.args[1].const
            instance = given.args[0].ref
            if isinstance(name, str):
                instance.attrs[name] = given.args[2]
            else:
                instance.attrs[f"*{id(node)}"] = given.args[2]
        return NONE

    def builtin_slice(self, given: Arguments, node: ast.AST) -> Value:
        return self._index_value(given.args)

    def method_of_Sequence(
        self, receiver: Value, sequence: Sequence, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        first = given.args[0] if given.args else UNKNOWN
        if name in ("append", "add", "appendleft", "put"):
            sequence.add(first)
            sequence.each |= first.live & self.for_each_round
            self.log_mutation(sequence, first)
            return NONE
        if name == "insert":
            item = given.args[1] if len(given.args) > 1 else UNKNOWN
            sequence.forget()
            sequence.rest = item if sequence.rest is None else join(sequence.rest, item)
            self.log_mutation(sequence, item)
            return NONE
        if name in ("extend", "update", "extendleft"):
            items = self.iterate_items(first)
            for item in items:
                sequence.add(item)
                self.log_mutation(sequence, item)
            if not (isinstance(first.ref, Sequence) and first.ref.items is not None):
                sequence.forget()
            return NONE
        if name in ("pop", "popleft"):
            return sequence.items[-1] if sequence.items and not given.args else sequence.element()
        if name == "copy":
            return Value(
                Kind.CONTAINER,
                ref=Sequence(
                    sequence.type, list(sequence.items) if sequence.items is not None else None, sequence.rest
                ),
            )
        if name == "clear":
            return NONE
        if name in ("index", "count"):
            return NUMBER
        if name == "reverse" and sequence.items is not None:
            sequence.items.reverse()
            return NONE
        if name in ("sort", "shuffle"):
            sequence.forget()
            return NONE
        return None

    def method_of_Mapping(
        self, receiver: Value, mapping: Mapping, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        key = given.args[0].const if given.args else MISSING
        if name in ("get", "pop", "setdefault"):
            default = given.args[1] if len(given.args) > 1 else None
            if key is not MISSING and key in mapping.items:
                return mapping.items[key]
            if name == "setdefault" and default is not None:
                if isinstance(key, (str, int)):
                    mapping.items[key] = default
                else:
                    mapping.rest = default if mapping.rest is None else join(mapping.rest, default)
                return default
            found = mapping.element()
            return found if default is None else join(found, default)
        if name == "values":
            return Value(
                Kind.CONTAINER,
                ref=Sequence("list", list(mapping.items.values()), mapping.rest)
                if mapping.rest is None
                else Sequence("list", None, mapping.element()),
            )
        if name == "keys":
            return Value(Kind.CONTAINER, ref=Sequence("list", [Value(Kind.NUMBER, const=k) for k in mapping.items]))
        if name == "items":
            pairs = [
                Value(Kind.CONTAINER, ref=Sequence("tuple", [Value(Kind.NUMBER, const=k), v]))
                for k, v in mapping.items.items()
            ]
            if mapping.rest is not None:
                pairs.append(Value(Kind.CONTAINER, ref=Sequence("tuple", [NUMBER, mapping.rest])))
                return Value(Kind.CONTAINER, ref=Sequence("list", None, join_all(pairs)))
            return Value(Kind.CONTAINER, ref=Sequence("list", pairs))
        if name == "update":
            for value in given.args:
                if isinstance(value.ref, Mapping):
                    mapping.items.update(value.ref.items)
                    rest = value.ref.rest
                    mapping.rest = rest if mapping.rest is None else join(mapping.rest, rest or mapping.rest)
            mapping.items.update(given.keywords)
            return NONE
        if name == "copy":
            return Value(Kind.CONTAINER, ref=Mapping(dict(mapping.items), mapping.rest))
        return None

    def method_of_TensorArray(
        self, receiver: Value, array: TensorArray, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        if name in ("write", "unstack", "scatter", "split"):
            value = given.get(1, "value") if name in ("write", "scatter") else given.get(0, "value")
            value = value or UNKNOWN
            array.element = value if array.element is None else join(array.element, value)
            return receiver
        if name in ("stack", "read", "concat", "gather"):
            return self.carry(node, [array.element or Value(Kind.TENSOR)], Kind.TENSOR)
        if name == "size":
            return Value(Kind.SHAPE)
        return receiver
