"""Calls: functions, methods and classes of the program, and Python's own builtins."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tapefix.flow import operations as ops
from tapefix.flow.expressions import Expressions
from tapefix.flow.facts import How
from tapefix.flow.interpreter import MOST_CALL_DEPTH, Frame
from tapefix.flow.scope import Scope, argument_names
from tapefix.flow.values import (
    ANY_TAPE,
    MISSING,
    NO_LOST,
    NONE,
    NUMBER,
    NUMERIC,
    UNKNOWN,
    Api,
    Bound,
    ClassObject,
    Function,
    Instance,
    Kind,
    Layer,
    Lost,
    Mapping,
    Method,
    Sequence,
    TensorArray,
    Value,
    Weights,
    join,
    join_all,
)

TENSOR_TYPES = frozenset({"tensorflow.Tensor", "tensorflow.is_tensor"})
OTHER_TYPES = frozenset(
    ["numpy.ndarray", *("builtins." + name for name in ("list", "tuple", "dict", "set", "int", "float", "str", "bool"))]
)
MOST_RUNS = 24  # of one function in one document


@dataclass(eq=False)
class Super:
    """`super()`: the rest of the method resolution order after `cls`."""

    value: Value
    cls: ClassObject
    skip: tuple[ClassObject, ...] = ()


@dataclass
class Arguments:
    """The evaluated arguments of a call."""

    args: list[Value]
    keywords: dict[str, Value]
    nodes: list[ast.expr] = field(default_factory=list)

    def get(self, position: int, *names: str) -> Value | None:
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.args[position] if position is not None and 0 <= position < len(self.args) else None

    @property
    def all(self) -> list[Value]:
        return [*self.args, *self.keywords.values()]


class Calls(Expressions):
    def eval_Call(self, node: ast.Call) -> Value:
        function = self.eval(node.func)
        given = self.arguments(node)
        return self.call(function, given, node)

    def arguments(self, node: ast.Call) -> Arguments:
        args: list[Value] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args += self.iterate_items(self.eval(arg.value))
            else:
                args.append(self.eval(arg))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is None:
                for ref in value.refs:
                    if isinstance(ref, Mapping):
                        keywords.update({k: v for k, v in ref.items.items() if isinstance(k, str)})
            else:
                keywords[keyword.arg] = value
        return Arguments(args, keywords, [a.value if isinstance(a, ast.Starred) else a for a in node.args])

    def call(self, function: Value, given: Arguments, node: ast.Call | ast.AST) -> Value:
        if function.alts and function.ref is None:
            results = [self.call(alt, given, node) for alt in function.alts]
            value = join_all(results)
            tags = function.lost
            for chosen, test in self.choices:
                if chosen is function:
                    for other in results[1:]:
                        tags |= self.exclusive(results[0], other, test, How.PREDICATE)
            return self.tag_inside(value, tags) if tags else value
        if function.lost and not function.kind & NUMERIC:
            plain = function.with_(lost=NO_LOST)
            return self.tag_inside(self.call(plain, given, node), function.lost)
        ref = function.ref
        handler = self.callers[type(ref)]
        if handler is None:
            return self.call_unknown(function, given, node)
        result: Value = handler(function, ref, given, node)
        return result

    # ---- functions of the program

    def call_Function(self, value: Value, function: Function, given: Arguments, node: ast.AST) -> Value:
        return self.call_function(function, given.args, given.keywords, node)

    def call_Bound(self, value: Value, bound: Bound, given: Arguments, node: ast.AST) -> Value:
        merged = Arguments([*bound.args, *given.args], {**bound.keywords, **given.keywords}, [])
        return self.call(bound.function, merged, node)

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.AST, fresh: bool = False
    ) -> Value:
        depth = sum(1 for f in self.frames if f.function is function)
        if function.runs > MOST_RUNS and function.last is not None and not self.whole(function.last).tainted:
            return function.last  # a helper that gave nothing of value so many times: sizes, flags, settings
        if depth >= 2 or len(self.frames) > MOST_CALL_DEPTH or function.runs > MOST_RUNS:
            return self.carry(node, [*args, *keywords.values()], Kind.UNKNOWN)
        function.runs += 1
        scope = Scope(function.scope.module, function.scope, "function")
        self.bind_arguments(function, scope, args, keywords)
        frame = Frame(function, scope, function.graph or (bool(self.frames) and self.frames[-1].graph))
        if args and function.owner is not None:
            frame.self_value = args[0]
        self.frames.append(frame)
        saved = self.statement
        saved_tapes = self.tapes
        if function.kind == "custom_gradient":
            self.tapes = []
        elif function.is_generator:
            self.tapes = [*self.tapes, ANY_TAPE]  # its body runs where it is consumed
        try:
            if isinstance(function.node, ast.Lambda):
                result = self.eval(function.node.body)
            else:
                self.run(function.node.body)
                result = self.returned(frame)
        finally:
            self.frames.pop()
            self.statement = saved
            self.tapes = saved_tapes
        if function.kind == "custom_gradient":
            return Value(Kind.TENSOR, self.live_of(*args))
        function.last = result
        return result

    def returned(self, frame: Frame) -> Value:
        if frame.yields:
            return Value(Kind.CONTAINER, ref=Sequence("generator", None, join_all(frame.yields)))
        if not frame.returns:
            return NONE
        returns = list(frame.returns)
        for choice in frame.predicated:
            first = returns[choice.start : choice.middle]
            second = returns[choice.middle :]
            tags = choice.lost
            if first and second:
                tags |= self.exclusive(join_all(first), join_all(second), choice.test, How.PREDICATE)
            if tags:
                returns[choice.start :] = [self.tag_inside(v, tags) for v in returns[choice.start :]]
        return join_all(returns)

    def tag_inside(self, value: Value, tags: frozenset[Lost]) -> Value:
        if isinstance(value.ref, Sequence) and value.ref.items is not None and value.ref.type == "tuple":
            return value.with_(ref=Sequence("tuple", [self.tag_inside(v, tags) for v in value.ref.items]))
        if value.kind & (NUMERIC | Kind.UNKNOWN) and not isinstance(value.ref, (Instance, Layer, Function)):
            return self.tagged(value, tags)
        return value

    def bind_arguments(self, function: Function, scope: Scope, args: list[Value], keywords: dict[str, Value]) -> None:
        spec = function.node.args
        names = argument_names(function.node)
        for name, value in zip(names, args):
            scope.vars[name] = value
        if spec.vararg:
            scope.vars[spec.vararg.arg] = Value(Kind.CONTAINER, ref=Sequence("tuple", list(args[len(names) :])))
        known = {*names, *(a.arg for a in spec.kwonlyargs)}
        extra = {k: v for k, v in keywords.items() if k not in known}
        for name, value in keywords.items():
            if name in known:
                scope.vars[name] = value
        if spec.kwarg:
            scope.vars[spec.kwarg.arg] = Value(Kind.CONTAINER, ref=Mapping(dict(extra)))
        for name in known:
            if name not in scope.vars:
                scope.vars[name] = function.defaults.get(name, UNKNOWN)
        for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
            value = scope.vars[arg.arg]
            self.christen(value)
            self.note(arg, value)

    def unknown_parameters(self, function: Function, skip: int = 0) -> list[Value]:
        """Values for the parameters of a function that nobody calls: each an object of which nothing is known."""
        names = argument_names(function.node)[skip:]
        result = []
        for name in names:
            if name in function.defaults and function.defaults[name].const is not MISSING:
                default = function.defaults[name]
                flag = isinstance(default.const, bool) or default.const is None
                result.append(
                    Value(Kind.UNKNOWN) if flag else default.with_(const=MISSING, kind=default.kind | Kind.UNKNOWN)
                )
                continue
            result.append(self.parameter(function, name))
        return result

    def parameter(self, function: Function, name: str) -> Value:
        model = name in function.scope.module.model_names
        layer = Layer(name, self.spot(function.node), opaque=not model, weights=True, parameter=True)
        return Value(Kind.OBJECT if model else Kind.UNKNOWN, ref=layer, node=function.node)

    def decorate(self, decorator: ast.expr, value: Value, function: Function) -> Value:
        made = self.eval(decorator)
        name = ""
        if isinstance(made.ref, Api):
            name = made.ref.name
        elif isinstance(decorator, ast.Call) and isinstance(made.ref, Bound) and isinstance(made.ref.function.ref, Api):
            name = made.ref.function.ref.name
        tail = name.rsplit(".", 1)[-1]
        if (
            tail == "property"
            or tail == "cached_property"
            or (isinstance(decorator, ast.Attribute) and decorator.attr == "setter")
        ):
            function.kind = "property"
            return value
        if tail == "staticmethod":
            function.kind = "static"
            return value
        if tail == "classmethod":
            function.kind = "class"
            return value
        if tail == "custom_gradient":
            function.kind = "custom_gradient"
            return value
        if name == "tensorflow.function" or tail in ("tf_function", "convert"):
            function.graph = True
            return value
        if isinstance(made.ref, (Function, Bound, Instance)) and not isinstance(made.ref, Api):
            if isinstance(made.ref, Bound) and isinstance(made.ref.function.ref, Api):
                return value
            wrapped = self.call(made, Arguments([value], {}), decorator)
            if any(isinstance(ref, (Function, Bound, Instance)) for ref in wrapped.refs):
                for ref in wrapped.refs:
                    if isinstance(ref, Function) and ref is not function:
                        ref.wraps = function
                return wrapped
        return value

    # ---- classes and their objects

    def call_ClassObject(self, value: Value, cls: ClassObject, given: Arguments, node: ast.AST) -> Value:
        instance = Instance("", self.spot(node), cls=cls)
        made = Value(Kind.OBJECT, ref=instance, node=node)
        found = cls.find("__init__")
        fields_first = "__init__" not in cls.members and any(
            "dataclass" in ast.unparse(d) for d in cls.node.decorator_list
        )
        if found is not None and isinstance(found[1].ref, Function) and not fields_first:
            self.call_function(found[1].ref, [made, *given.args], given.keywords, node)
        elif cls.fields or cls.derives("NamedTuple"):
            names = [f for c in reversed(list(cls.mro())) for f in c.fields]
            for name, arg in zip(names, given.args):
                instance.attrs[name] = arg
            instance.attrs.update({k: v for k, v in given.keywords.items() if k in names})
            for name in names:
                if name not in instance.attrs:
                    member = cls.find(name)
                    instance.attrs[name] = self.field_default(member[1]) if member else UNKNOWN
            post = cls.find("__post_init__")
            if post is not None and isinstance(post[1].ref, Function):
                self.call_function(post[1].ref, [made], {}, node)
        elif instance.is_keras():
            self.keras_base_init(instance, given, node)
        return made

    def field_default(self, default: Value) -> Value:
        if isinstance(default.ref, Method) or default.kind == Kind.UNKNOWN:
            return Value(Kind.CONTAINER, ref=Sequence("list"))
        return default

    def keras_base_init(self, instance: Instance, given: Arguments, node: ast.AST) -> None:
        raise NotImplementedError

    def call_Instance(self, value: Value, instance: Instance, given: Arguments, node: ast.AST) -> Value:
        cls = instance.cls
        if cls is None:
            return self.carry(node, given.all, Kind.UNKNOWN)
        for name in ("__call__", "call"):
            found = cls.find(name)
            if found is None or not isinstance(found[1].ref, Function):
                continue
            if name == "call":
                self.build(value, instance, node)
            result = self.call_function(found[1].ref, [value, *given.args], given.keywords, node)
            if instance.written:
                result = self.tagged(result, instance.written)
            return result
        return self.call_library_object(value, instance, given, node)

    def build(self, value: Value, instance: Instance, node: ast.AST) -> None:
        """Keras builds a layer before its first call."""
        if instance.built or instance.cls is None:
            return
        instance.built = True
        found = instance.cls.find("build")
        if found is not None and isinstance(found[1].ref, Function):
            saved, self.tapes = self.tapes, []
            try:
                self.call_function(found[1].ref, [value, Value(Kind.SHAPE)], {}, node)
            finally:
                self.tapes = saved

    def call_library_object(self, value: Value, instance: Instance, given: Arguments, node: ast.AST) -> Value:
        """An object whose class inherits its `call` from the library, or from a class that can't be seen."""
        live = self.live_of(*given.all) | self.read_source(instance, node)
        for child in instance.attrs.values():
            if isinstance(child.ref, Layer) and child.ref.template is not None:
                live |= self.live_of(child.ref.template)
        return Value(Kind.TENSOR, live, self.lost_of(*given.all) | instance.written, node=node)

    def iterate_instance(self, value: Value, instance: Instance, node: ast.AST) -> Value:
        for name in ("__iter__", "__getitem__"):
            found = instance.cls.find(name) if instance.cls else None
            if found is not None and isinstance(found[1].ref, Function):
                args = [value] if name == "__iter__" else [value, NUMBER]
                result = self.call_function(found[1].ref, args, {}, node)
                return self.element(result, node) if name == "__iter__" and result.ref is not instance else result
        return UNKNOWN

    # ---- what is not known

    def call_unknown(self, function: Value, given: Arguments, node: ast.AST) -> Value:
        """A call of which nothing is known: functions handed over are taken to be called, values to go on."""
        for value in given.all:
            self.called_back(value, node)
        lost = frozenset(x.weakened() for x in self.lost_of(*given.all))
        return Value(Kind.UNKNOWN, self.live_of(*given.all), lost, node=node)

    def called_back(self, value: Value, node: ast.AST) -> Value:
        ref = value.ref
        function = ref.function.ref if isinstance(ref, Bound) else ref
        if isinstance(function, Function) and function.runs < 3:
            skip = len(ref.args) if isinstance(ref, Bound) else 0
            return self.call(value, Arguments(self.unknown_parameters(function, skip), {}), node)
        return UNKNOWN

    def call_Method(self, value: Value, method: Method, given: Arguments, node: ast.AST) -> Value:
        receiver = method.receiver
        ref = receiver.ref
        handler = getattr(self, "method_of_" + type(ref).__name__, None)
        if handler is not None:
            result: Value | None = handler(receiver, ref, method.name, given, node)
            if result is not None:
                return result
        return self.method_of_value(receiver, method.name, given, node)

    def method_of_value(self, receiver: Value, name: str, given: Arguments, node: ast.AST) -> Value:
        raise NotImplementedError

    def call_Super(self, value: Value, ref: Super, given: Arguments, node: ast.AST) -> Value:
        return UNKNOWN

    # ---- containers

    def method_of_Sequence(
        self, receiver: Value, sequence: Sequence, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        first = given.args[0] if given.args else UNKNOWN
        if name in ("append", "add", "appendleft", "put"):
            sequence.add(first)
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

    # ---- Python's builtins

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

    def builtin_super(self, given: Arguments, node: ast.AST) -> Value:
        for frame in reversed(self.frames):
            if frame.self_value is not None and frame.function is not None and frame.function.owner is not None:
                instance = frame.self_value.ref
                if isinstance(instance, Instance) and instance.cls is not None:
                    skip: list[ClassObject] = []
                    for cls in instance.cls.mro():
                        skip.append(cls)
                        if cls is frame.function.owner:
                            break
                    return Value(Kind.OBJECT, ref=Super(frame.self_value, frame.function.owner, tuple(skip)))
        return UNKNOWN

    def _as_sequence(self, given: Arguments, type_: str) -> Value:
        if not given.args:
            return Value(Kind.CONTAINER, ref=Sequence(type_))
        value = given.args[0]
        ref = value.ref
        if isinstance(ref, Sequence):
            return Value(
                Kind.CONTAINER, ref=Sequence(type_, list(ref.items) if ref.items is not None else None, ref.rest)
            )
        if isinstance(ref, Weights):
            return value
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
        known = bool(given.args) and isinstance(given.args[0].ref, Sequence) and given.args[0].ref.items is not None
        pairs = [Value(Kind.CONTAINER, ref=Sequence("tuple", [NUMBER, i])) for i in items]
        return Value(
            Kind.CONTAINER,
            ref=Sequence("list", pairs) if known and pairs else Sequence("list", None, join_pairs(pairs)),
        )

    def builtin_zip(self, given: Arguments, node: ast.AST) -> Value:
        known = all(isinstance(v.ref, Sequence) and v.ref.items is not None for v in given.args) and given.args
        if known:
            columns = [v.ref.items for v in given.args]
            rows = [Value(Kind.CONTAINER, ref=Sequence("tuple", list(row))) for row in zip(*columns)]
            return Value(Kind.CONTAINER, ref=Sequence("list", rows))
        row = Value(Kind.CONTAINER, ref=Sequence("tuple", [self.element(v, v.node or node) for v in given.args]))
        return Value(Kind.CONTAINER, ref=Sequence("list", None, row))

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
        return (
            Value(Kind.CONTAINER, ref=Sequence("list", None, self.element(given.args[1], node)))
            if len(given.args) > 1
            else UNKNOWN
        )

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


def join_pairs(pairs: list[Value]) -> Value:
    """Element-wise join of tuples of one length."""
    if not pairs:
        return UNKNOWN
    columns = [p.ref.items for p in pairs]
    return Value(Kind.CONTAINER, ref=Sequence("tuple", [join_all(column) for column in zip(*columns)]))
