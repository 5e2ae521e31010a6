"""Evaluates expressions."""

from __future__ import annotations

import ast
import operator
from typing import Any

from tapefix.flow import operations as ops
from tapefix.flow.facts import How
from tapefix.flow.interpreter import BUILTINS, BudgetSpent, Statements
from tapefix.flow.scope import Scope, canonical
from tapefix.flow.values import (
    MISSING,
    NO_DEPS,
    NO_LOST,
    NONE,
    NUMBER,
    NUMERIC,
    UNKNOWN,
    Api,
    Array,
    Bound,
    ClassObject,
    Dataset,
    Foreign,
    Function,
    Imported,
    Instance,
    Kind,
    Layer,
    Lost,
    Mapping,
    Method,
    Sequence,
    Slice,
    Source,
    Tape,
    Value,
    Var,
    WeightOf,
    Weights,
    api_value,
    covers,
    flat,
    join,
    join_all,
)

_FOLD = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
SMALL = 1e-5
SHAPE_ATTRIBUTES = frozenset("shape dtype ndim rank size name itemsize nbytes device op graph".split())
MODEL_METHODS = ops.PREDICTING | frozenset(
    """fit compile get_weights set_weights train_on_batch add_loss stateless_call call build summary save load_weights
    save_weights reset_states reset_state get_layer add""".split()
)
WEIGHT_ATTRIBUTES = frozenset(
    "trainable_variables trainable_weights variables weights non_trainable_variables non_trainable_weights".split()
)


class Expressions(Statements):
    def eval(self, node: ast.expr) -> Value:
        self.budget -= 1
        if self.budget < 0:
            raise BudgetSpent
        method = self.evaluators[type(node)]
        if method is None:
            return UNKNOWN
        value: Value = method(node)
        seen = value
        if value.ref is not None and isinstance(value.ref, (Var, WeightOf, Array)):
            seen = self.whole(value)
        old = self.seen.get(node)
        if old is None:
            self.seen[node] = seen
        elif old is not seen and not covers(old, seen):
            self.seen[node] = join(old, seen)
        return value

    def eval_Constant(self, node: ast.Constant) -> Value:
        if node.value is None:
            return NONE
        if node in self.seen:
            return self.seen[node]
        dtype = (
            "complex"
            if isinstance(node.value, complex)
            else "float"
            if isinstance(node.value, float)
            else "bool"
            if isinstance(node.value, bool)
            else "int"
            if isinstance(node.value, int)
            else ""
        )
        return Value(Kind.NUMBER, const=node.value, dtype=dtype, node=node)

    def eval_JoinedStr(self, node: ast.JoinedStr) -> Value:
        values = [self.eval(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
        return Value(Kind.NUMBER, lost=self.cut(How.PYTHON_NUMBER, node, values, "text"))

    def eval_Name(self, node: ast.Name) -> Value:
        value = self.scope.lookup(node.id)
        if value is None:
            if node.id == "__name__":
                return Value(Kind.NUMBER, const=self.module.name)
            return api_value("builtins." + node.id) if node.id in BUILTINS else UNKNOWN
        if isinstance(value.ref, Imported):
            value = self.imported(value.ref)
            self.scope.replace(node.id, value)
        return self.refresh(value, node)

    def eval_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.assign(node.target, value, node.value)
        return value

    def eval_Await(self, node: ast.Await) -> Value:
        return self.eval(node.value)

    def eval_Starred(self, node: ast.Starred) -> Value:
        return self.eval(node.value)

    def eval_Lambda(self, node: ast.Lambda) -> Value:
        function = Function(node, self.scope)
        self.bind_defaults(function, node.args)
        return Value(Kind.OBJECT, ref=function, node=node)

    def eval_Yield(self, node: ast.Yield) -> Value:
        self.frame.yields.append(self.eval(node.value) if node.value else NONE)
        return UNKNOWN

    def eval_YieldFrom(self, node: ast.YieldFrom) -> Value:
        self.frame.yields.append(self.element(self.eval(node.value), node))
        return UNKNOWN

    # ---- containers

    def _sequence(self, node: Any, type_: str) -> Value:
        sequence = Sequence(type_)
        for element in node.elts:
            if isinstance(element, ast.Starred):
                for item in self.iterate_items(self.eval(element.value)):
                    sequence.add(item)
            else:
                sequence.add(self.eval(element))
        return Value(Kind.CONTAINER, ref=sequence, node=node)

    def eval_List(self, node: ast.List) -> Value:
        return self._sequence(node, "list")

    def eval_Tuple(self, node: ast.Tuple) -> Value:
        return self._sequence(node, "tuple")

    def eval_Set(self, node: ast.Set) -> Value:
        return self._sequence(node, "set")

    def eval_Dict(self, node: ast.Dict) -> Value:
        mapping = Mapping()
        for key, item in zip(node.keys, node.values):
            value = self.eval(item)
            if key is None:
                for ref in value.refs:
                    if isinstance(ref, Mapping):
                        mapping.items.update(ref.items)
                        mapping.rest = ref.rest if mapping.rest is None else mapping.rest
                continue
            const = self.eval(key).const
            if const is MISSING or not isinstance(const, (str, int, float, bool)):
                mapping.rest = value if mapping.rest is None else join(mapping.rest, value)
            else:
                mapping.items[const] = value
        return Value(Kind.CONTAINER, ref=mapping, node=node)

    def iterate_items(self, value: Value) -> list[Value]:
        ref = value.ref
        if isinstance(ref, Sequence) and ref.items is not None:
            return list(ref.items)
        return [self.element(value, value.node or self.statement)]

    def _comprehension(self, node: Any, produce: Any) -> None:
        scope = Scope(self.module, self.scope, "function")
        frame = self.frame
        saved, frame.scope = frame.scope, scope
        try:
            self._generators(node.generators, produce)
        finally:
            frame.scope = saved

    def _generators(self, generators: list[ast.comprehension], produce: Any) -> None:
        if not generators:
            produce()
            return
        first, rest = generators[0], generators[1:]
        iterable = self.eval(first.iter)
        known = iterable.ref.items if isinstance(iterable.ref, Sequence) and iterable.ref.items is not None else None
        if known is not None and 0 < len(known) <= 6 and not first.ifs:
            for item in list(known):
                self.assign(first.target, item)
                self._generators(rest, produce)
            return
        self.assign(first.target, self.element(iterable, first.iter))
        for test in first.ifs:
            self.eval(test)
        self._exact = False
        self._generators(rest, produce)

    _exact = True

    def _collect(self, node: Any, type_: str) -> Value:
        sequence = Sequence(type_)
        saved, self._exact = self._exact, True
        self._comprehension(node, lambda: sequence.add(self.eval(node.elt)))
        if not self._exact:
            sequence.forget()
        self._exact = saved
        return Value(Kind.CONTAINER, ref=sequence, node=node)

    def eval_ListComp(self, node: ast.ListComp) -> Value:
        return self._collect(node, "list")

    def eval_SetComp(self, node: ast.SetComp) -> Value:
        return self._collect(node, "set")

    def eval_GeneratorExp(self, node: ast.GeneratorExp) -> Value:
        return self._collect(node, "generator")

    def eval_DictComp(self, node: ast.DictComp) -> Value:
        mapping = Mapping()

        def produce() -> None:
            key, value = self.eval(node.key), self.eval(node.value)
            if isinstance(key.const, (str, int)):
                mapping.items[key.const] = value
            else:
                mapping.rest = value if mapping.rest is None else join(mapping.rest, value)

        self._comprehension(node, produce)
        return Value(Kind.CONTAINER, ref=mapping, node=node)

    # ---- arithmetic

    def eval_BinOp(self, node: ast.BinOp) -> Value:
        return self.combine(node.op, self.eval(node.left), self.eval(node.right), node)

    def combine(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        if left.const is not MISSING and right.const is not MISSING and type(op) in _FOLD:
            try:
                return Value(Kind.NUMBER, const=_FOLD[type(op)](left.const, right.const))
            except Exception:
                return NUMBER
        for one, other in ((left, right), (right, left)):
            if isinstance(one.const, complex) and other.kind == Kind.TENSOR and other.dtype != "complex":
                self.misuse(node, "complex")
                return self.carry(node, [left, right], Kind.TENSOR, "complex")
        if isinstance(op, ast.Mod) and isinstance(left.const, str):
            return NUMBER
        if (left.kind | right.kind) & Kind.CONTAINER and not (left.kind | right.kind) & NUMERIC:
            return self._combine_containers(op, left, right, node)
        kinds = left.kind | right.kind
        if kinds & (Kind.TENSOR | Kind.VARIABLE):
            kind = Kind.TENSOR | (
                kinds & Kind.UNKNOWN if not self._sure(left) and not self._sure(right) else Kind.NOTHING
            )
        elif kinds & Kind.ARRAY:
            kind = Kind.ARRAY | (kinds & Kind.UNKNOWN)
        elif kinds & Kind.SHAPE:
            kind = Kind.SHAPE
        else:
            kind = kinds & (Kind.NUMBER | Kind.UNKNOWN) or Kind.UNKNOWN
        if not (left.tainted or right.tainted or self.tapes or left.refs or right.refs):
            return Value(kind, node=node)
        if isinstance(op, ast.FloorDiv):
            if kind & Kind.UNKNOWN:
                return Value(kind, node=node)  # it may be a size
            return Value(kind, lost=self.cut(How.ROUNDED, node, [left, right], "//"), node=node)
        pure_sum = isinstance(op, ast.Add) or (isinstance(op, ast.Sub) and left.reduced and right.reduced)
        # a weight times a detached state is a layer on a lost input, not a weighing
        weighs = isinstance(op, ast.MatMult) and (isinstance(left.ref, Var) or isinstance(right.ref, Var))
        same = isinstance(op, (ast.Sub, ast.Div))
        if isinstance(op, ast.Mult):
            left, right = negligible(left, right), negligible(right, left)
        if isinstance(op, ast.Sub):
            right = self.fraction(left, right)
        value = self.carry(node, [left, right], kind, meet=not pure_sum and not weighs, same=same)
        value.reduced = (left.reduced or left.kind == Kind.NUMBER) and (right.reduced or right.kind == Kind.NUMBER)
        if isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)) and left.dtype == "bool":
            value.dtype = "bool"
        return value

    def fraction(self, whole: Value, rounded: Value) -> Value:
        """`x - floor(x)`: the slope of a fraction is that of x, nothing is missing."""
        if not rounded.lost or not whole.near or rounded.live:
            return rounded
        named = id(whole) in self.named

        def is_part(lost: Lost) -> bool:
            if lost.site.how not in (How.ROUNDED, How.INTEGER_CAST) or lost.direct or not whole.near <= lost.past:
                return False
            return named or (whole.node is not None and self.text(whole.node) in self.text(lost.site.spot.node))

        kept = frozenset(x for x in rounded.lost if not is_part(x))
        return rounded if len(kept) == len(rounded.lost) else rounded.with_(lost=kept)

    @staticmethod
    def _sure(value: Value) -> bool:
        return not value.kind & Kind.UNKNOWN

    def _combine_containers(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        sequence = Sequence("list")
        for side in (left, right):
            if side.kind & Kind.CONTAINER or side.refs:
                for item in self.iterate_items(side):
                    sequence.add(item)
        if isinstance(op, ast.Mult) or any(isinstance(s.ref, Sequence) and s.ref.items is None for s in (left, right)):
            sequence.forget()
        return Value(Kind.CONTAINER, ref=sequence, node=node)

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            if truth is not None:
                return Value(Kind.NUMBER, const=not truth)
            return value.with_(kind=value.kind & ~Kind.CONTAINER, ref=None, alts=(), const=MISSING)
        if value.const is not MISSING:
            try:
                return value.with_(const=-value.const if isinstance(node.op, ast.USub) else MISSING)
            except TypeError:
                return NUMBER
        result = self.carry(
            node, [value], value.kind & (NUMERIC | Kind.SHAPE | Kind.NUMBER | Kind.UNKNOWN) or Kind.UNKNOWN
        )
        if result.kind & Kind.VARIABLE:
            result.kind = (result.kind & ~Kind.VARIABLE) | Kind.TENSOR
        result.reduced = value.reduced
        if isinstance(node.op, ast.Invert):
            result.dtype = value.dtype
        return result

    def eval_BoolOp(self, node: ast.BoolOp) -> Value:
        values = [self.eval(v) for v in node.values]
        truths = [self.truth(v) for v in values]
        if isinstance(node.op, ast.And) and any(t is False for t in truths):
            return Value(Kind.NUMBER, const=False)
        if isinstance(node.op, ast.Or) and any(t is True for t in truths):
            for value, truth in zip(values, truths):
                if truth is True:
                    return value if value is values[0] else join_all([values[0], value])
        return join_all(values)

    def eval_Compare(self, node: ast.Compare) -> Value:
        operands = [self.eval(node.left), *(self.eval(c) for c in node.comparators)]
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            return self._identity_test(node, operands)
        if len(operands) == 2 and operands[0].const is not MISSING and operands[1].const is not MISSING:
            try:
                return Value(Kind.NUMBER, const=bool(_COMPARE[type(node.ops[0])](operands[0].const, operands[1].const)))
            except Exception:
                return NUMBER
        kinds = Kind.NOTHING
        for operand in operands:
            kinds |= operand.kind
        if kinds & (Kind.TENSOR | Kind.VARIABLE):
            kind = Kind.TENSOR | (
                kinds & Kind.UNKNOWN
                if not any(o.kind & Kind.TENSOR and self._sure(o) for o in operands)
                else Kind.NOTHING
            )
        elif kinds & Kind.ARRAY:
            kind = Kind.ARRAY | (kinds & Kind.UNKNOWN)
        else:
            kind = kinds & (Kind.NUMBER | Kind.SHAPE | Kind.UNKNOWN) or Kind.UNKNOWN
        if kinds & Kind.SHAPE and not kinds & (Kind.TENSOR | Kind.VARIABLE):
            kind = Kind.SHAPE
        if kind & Kind.UNKNOWN and not any(self.surely_tensor(o) for o in operands):
            return Value(kind, node=node)  # it may be a flag or a size
        lost = self.cut(How.COMPARED, node, operands, "comparison", lost=(node,))
        return Value(kind, lost=lost, dtype="bool", node=node)

    def _identity_test(self, node: ast.Compare, operands: list[Value]) -> Value:
        if len(operands) == 2 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and operands[1].const is None:
            left = operands[0]
            if left.const is None and left.kind == Kind.NUMBER:
                return Value(Kind.NUMBER, const=isinstance(node.ops[0], ast.Is))
            if not left.kind & (Kind.UNKNOWN | Kind.NUMBER):
                return Value(Kind.NUMBER, const=isinstance(node.ops[0], ast.IsNot))
        return NUMBER

    def eval_IfExp(self, node: ast.IfExp) -> Value:
        test = self.eval(node.test)
        truth = self.truth(test)
        if truth is not None:
            return self.eval(node.body if truth else node.orelse)
        on_data, lost = self.predicate(test, node.test, How.PREDICATE)
        first, second = self.eval(node.body), self.eval(node.orelse)
        value = join(first, second)
        if on_data:
            if any(isinstance(ref, (Layer, Instance, Function, Bound, Api)) for ref in value.refs):
                value = self.tagged(value, lost)
                self.choices.append((value, node.test))
                return value
            tags = lost | self.exclusive(first, second, node.test, How.PREDICATE)
            if tags:
                value = self.tagged(value, tags)
        return value

    #: values that a test chose between two callables: the tag comes when they are called
    choices: list[tuple[Value, ast.expr]]

    # ---- attributes and items

    def eval_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.eval(node.value), node.attr, node)

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        if owner.alts and owner.ref is None:
            return join_all(self.attribute(alt, name, node) for alt in owner.alts)
        ref = owner.ref
        handler = self.attributes[type(ref)]
        if handler is not None:
            found: Value | None = handler(owner, ref, name, node)
            if found is not None:
                return found
        return self.attribute_of_value(owner, name, node)

    def attribute_of_Api(self, owner: Value, api: Api, name: str, node: ast.AST) -> Value:
        full = canonical(f"{api.name}.{name}")
        if full in ("numpy.pi", "numpy.e", "numpy.inf", "numpy.nan", "math.pi", "math.e", "math.inf"):
            return Value(Kind.NUMBER)
        if full == "numpy.newaxis" or full == "tensorflow.newaxis":
            return NONE
        return api_value(full)

    def attribute_of_Foreign(self, owner: Value, foreign: Foreign, name: str, node: ast.AST) -> Value:
        if name in SHAPE_ATTRIBUTES:
            return Value(Kind.SHAPE)
        return Value(Kind.UNKNOWN, lost=owner.lost, ref=Foreign(f"{foreign.name}.{name}"), node=node)

    def attribute_of_Scope(self, owner: Value, module: Scope, name: str, node: ast.AST) -> Value:
        value = module.vars.get(name, UNKNOWN)
        return self.imported(value.ref) if isinstance(value.ref, Imported) else value

    def attribute_of_Super(self, owner: Value, ref: Any, name: str, node: ast.AST) -> Value | None:
        instance: Instance = ref.value.ref
        for cls in list(instance.cls.mro() if instance.cls else []):
            if cls is ref.cls or cls in ref.skip:
                continue
            if name in cls.members:
                return self.bind_member(cls, cls.members[name], ref.value, node)
        return Value(Kind.OBJECT, ref=Method(ref.value, name, node))

    def attribute_of_Instance(self, owner: Value, instance: Instance, name: str, node: ast.AST) -> Value | None:
        if name in instance.attrs:
            return self.refresh(instance.attrs[name], node)
        found = instance.cls.find(name) if instance.cls else None
        if found is not None:
            return self.bind_member(found[0], found[1], owner, node)
        if name == "__class__" and instance.cls:
            return Value(Kind.OBJECT, ref=instance.cls)
        if name in WEIGHT_ATTRIBUTES and name not in instance.attrs:
            return Value(Kind.CONTAINER, ref=Weights(instance, name), node=node)
        if name == "losses":
            return Value(
                Kind.CONTAINER,
                ref=Sequence("list", None, join_all(instance.losses) if instance.losses else Value(Kind.TENSOR)),
            )
        if name in ("optimizer", "compiled_loss", "compiled_metrics", "metrics", "name", "dtype", "layers"):
            if name == "layers":
                return Value(
                    Kind.CONTAINER,
                    ref=Sequence("list", None, join_all([v for v in instance.attrs.values() if self.is_callable(v)])),
                )
            return Value(Kind.UNKNOWN)
        return Value(Kind.OBJECT | Kind.UNKNOWN, ref=Method(owner, name, node), node=node)

    @staticmethod
    def is_callable(value: Value) -> bool:
        return any(isinstance(ref, (Layer, Instance)) for ref in value.refs)

    def bind_member(self, cls: ClassObject, member: Value, owner: Value, node: ast.AST) -> Value:
        function = member.ref
        if isinstance(function, Function):
            if function.kind == "property":
                return self.call_function(function, [owner], {}, node)
            if function.kind == "static":
                return member
            if function.kind == "class":
                return Value(Kind.OBJECT, ref=Bound(member, (Value(Kind.OBJECT, ref=cls),)))
            return Value(Kind.OBJECT, ref=Bound(member, (owner,)))
        if isinstance(function, Bound) and not function.args:
            return Value(Kind.OBJECT, ref=Bound(function.function, (owner,), function.keywords))
        return self.refresh(member, node)

    def attribute_of_ClassObject(self, owner: Value, cls: ClassObject, name: str, node: ast.AST) -> Value:
        found = cls.find(name)
        if found is None:
            return Value(Kind.OBJECT | Kind.UNKNOWN)
        member = found[1].ref
        if isinstance(member, Function) and member.kind == "class":
            return Value(Kind.OBJECT, ref=Bound(found[1], (owner,)))
        return found[1]

    def attribute_of_Layer(self, owner: Value, layer: Layer, name: str, node: ast.AST) -> Value | None:
        if name in WEIGHT_ATTRIBUTES:
            layer.opaque = False
            return Value(Kind.CONTAINER, ref=Weights(layer, name), node=node)
        if name == "layers":
            children = join_all(layer.children) if layer.children else Value(Kind.OBJECT, ref=layer)
            return Value(Kind.CONTAINER, ref=Sequence("list", None, children))
        if name in ("input", "inputs", "output", "outputs"):
            template = (
                layer.template
                if name.startswith("out") and layer.template
                else Value(Kind.TENSOR, self.read_source(layer, node))
            )
            return template if not name.endswith("s") else Value(Kind.CONTAINER, ref=Sequence("list", None, template))
        if name == "losses":
            # a regulariser keeps a gradient alive where the part that matters is cut: it is no way to the weights
            added = [v for part in self.reach(layer) if isinstance(part, Instance) for v in part.losses]
            term = Value(Kind.TENSOR, self.read_source(layer, node) if added else NO_DEPS)
            return Value(Kind.CONTAINER, ref=Sequence("list", None, join_all([term, *added])))
        if name in ("kernel", "bias", "embeddings", "gamma", "beta", "recurrent_kernel", "depthwise_kernel"):
            return Value(Kind.VARIABLE, ref=WeightOf(layer.label, layer.spot, owner=layer), node=node)
        if name in SHAPE_ATTRIBUTES or name in (
            "units",
            "optimizer",
            "trainable",
            "built",
            "input_shape",
            "output_shape",
            "input_spec",
        ):
            return Value(Kind.UNKNOWN)
        if (
            (layer.opaque or layer.parameter)
            and not name.startswith("__")
            and not (layer.parameter and name in MODEL_METHODS)
        ):
            child = self.opaque_child(layer, name, node)
            return Value(Kind.UNKNOWN, ref=child, node=node)
        return Value(Kind.OBJECT, ref=Method(owner, name, node), node=node)

    def opaque_child(self, parent: Layer, name: str, node: ast.AST) -> Layer:
        for value in parent.children:
            if isinstance(value.ref, Layer) and value.ref.api == name:
                return value.ref
        child = Layer(
            f"{parent.label}.{name}",
            self.spot(node),
            api=name,
            opaque=name not in self.module.model_names,
            parameter=True,
        )
        child.weights = parent.weights
        parent.children.append(Value(Kind.UNKNOWN, ref=child))
        return child

    def attribute_of_Bound(self, owner: Value, bound: Bound, name: str, node: ast.AST) -> Value | None:
        return self.attribute(bound.function, name, node) if not bound.args else None

    def attribute_of_Mapping(self, owner: Value, mapping: Mapping, name: str, node: ast.AST) -> Value:
        return Value(Kind.OBJECT, ref=Method(owner, name, node))

    def attribute_of_Sequence(self, owner: Value, sequence: Sequence, name: str, node: ast.AST) -> Value:
        if sequence.type == "tuple" and not name.startswith("_") and name not in ("index", "count"):
            position = {"values": 0, "indices": 1}.get(name)
            if position is not None and sequence.items is not None and len(sequence.items) == 2:
                return sequence.items[position]
            return self.refresh(sequence.element(), node)
        return Value(Kind.OBJECT, ref=Method(owner, name, node))

    attribute_of_Tape = attribute_of_Mapping
    attribute_of_TensorArray = attribute_of_Mapping

    def attribute_of_Dataset(self, owner: Value, dataset: Dataset, name: str, node: ast.AST) -> Value:
        return Value(Kind.OBJECT, ref=Method(owner, name, node))

    def attribute_of_value(self, owner: Value, name: str, node: ast.AST) -> Value:
        if name in SHAPE_ATTRIBUTES:
            if name == "size" and owner.kind == Kind.TENSOR:
                self.misuse(node, name)
            return Value(Kind.SHAPE, node=node, dtype=owner.dtype if name == "dtype" else "")
        if name in ("T", "real", "imag", "flat", "values"):
            if name in ("T", "real", "imag") and owner.kind == Kind.TENSOR:
                self.misuse(node, name)
            kind = owner.kind & (NUMERIC | Kind.UNKNOWN) or Kind.UNKNOWN
            return Value(
                kind,
                self.live_of(owner),
                self.lost_of(owner),
                ref=owner.ref if isinstance(owner.ref, Array) else None,
                node=node,
            )
        return Value(Kind.OBJECT | (owner.kind & Kind.UNKNOWN), ref=Method(owner, name, node), node=node)

    def misuse(self, node: ast.AST, name: str) -> None:
        """Something only an array has is asked of a tensor."""
        self.misuses.setdefault(node, name)

    misuses: dict[ast.AST, str]

    def eval_Slice(self, node: ast.Slice) -> Value:
        parts = [self.eval(p) for p in (node.lower, node.upper, node.step) if p is not None]
        return self._index_value(parts)

    @staticmethod
    def _index_value(parts: list[Value]) -> Value:
        live = frozenset(d for p in parts for d in p.live)
        lost = frozenset(x for p in parts for x in p.lost)
        kinds = Kind.NUMBER
        for part in parts:
            kinds |= part.kind
        return Value(kinds, live, lost)

    def eval_index(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Tuple):
            return self._index_value([self.eval(e) for e in node.elts])
        return self.eval(node)

    def eval_Subscript(self, node: ast.Subscript) -> Value:
        return self.item(self.eval(node.value), self.eval_index(node.slice), node)

    def item(self, owner: Value, index: Value, node: ast.AST) -> Value:
        if (
            owner.alts
            and owner.ref is None
            and any(isinstance(r, (Sequence, Mapping, Weights, Var, Array)) for r in owner.refs)
        ):
            return join_all(self.item(alt, index, node) for alt in owner.alts)
        ref = owner.ref
        if isinstance(ref, Sequence):
            if (
                isinstance(index.const, int)
                and ref.items is not None
                and -len(ref.items) <= index.const < len(ref.items)
            ):
                return self.refresh(ref.items[index.const], node)
            slice_ = getattr(node, "slice", None)
            if isinstance(slice_, ast.Slice):
                return Value(Kind.CONTAINER, ref=Sequence(ref.type, None, ref.element()))
            element = self.refresh(ref.element(), node)
            return self._selected(element, index, node)
        if isinstance(ref, Mapping):
            if index.const is not MISSING and index.const in ref.items:
                return self.refresh(ref.items[index.const], node)
            if index.const is not MISSING and ref.rest is not None and isinstance(index.const, (str, int)):
                return self.refresh(ref.rest, node)
            return self._selected(self.refresh(ref.element(), node), index, node)
        if isinstance(ref, Weights):
            slice_ = getattr(node, "slice", None)
            return Value(Kind.CONTAINER, ref=ref) if isinstance(slice_, ast.Slice) else self.weight_of(ref, node)
        if isinstance(ref, Instance):
            found = ref.cls.find("__getitem__") if ref.cls else None
            if found is not None and isinstance(found[1].ref, Function):
                return self.call_function(found[1].ref, [owner, index], {}, node)
            return UNKNOWN
        if isinstance(ref, (Layer, Function, Api, ClassObject, Tape, Dataset)) and not owner.kind & NUMERIC:
            return UNKNOWN
        kind = owner.kind & (NUMERIC | Kind.UNKNOWN | Kind.SHAPE) or Kind.UNKNOWN
        value = Value(
            kind,
            self.live_in(owner),
            self.lost_of(owner),
            node=node,
            dtype=owner.dtype,
            near=owner.near,
            past=owner.past,
        )
        if isinstance(ref, (Var, WeightOf)):
            value.ref = Slice(owner)
            value.kind = Kind.TENSOR
        elif isinstance(ref, Array):
            value.ref = ref
        elif kind & Kind.VARIABLE:
            value.kind = (kind & ~Kind.VARIABLE) | Kind.TENSOR
        return self._selected(value, index, node)

    def _selected(self, value: Value, index: Value, node: ast.AST) -> Value:
        """What an index made of predictions leaves of them: only the choice."""
        if not index.tainted and not self.tapes and not index.refs:
            return value
        compared = flat(index).dtype == "bool"
        if index.kind & Kind.UNKNOWN and not index.lost:
            return value  # a key of something that is not known
        lost = (
            self.cut(How.SELECTION, node, [index], "index", weak=True)
            if not compared
            else frozenset(x.weakened() for x in self.lost_of(index))
        )
        if (
            lost
            and any(isinstance(ref, (Layer, Instance, Function, Bound, Api)) for ref in value.refs)
            and isinstance(node, ast.expr)
        ):
            value = self.tagged(value, lost)
            self.choices.append((value, node))
            return value
        return self.tagged(value, lost) if lost else value

    # provided by the other parts
    def reach(self, owner: Any) -> set[Source]:
        raise NotImplementedError

    def call_function(self, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        raise NotImplementedError


def negligible(value: Value, factor: Value) -> Value:
    """What is only there to keep a logarithm or root from its pole: `1e-12 * mask`."""
    small = isinstance(factor.const, float) and 0.0 < abs(factor.const) <= SMALL
    return value.with_(lost=NO_LOST) if small and value.lost and not value.live else value
