"""Attributes: of modules, classes, objects, layers and values."""

from __future__ import annotations

import ast
from typing import Any

from tapefix.flow.interpreter.containers import Containers
from tapefix.flow.libraries import operations as ops
from tapefix.flow.objects import (
    Api,
    Array,
    Bound,
    ClassObject,
    Dataset,
    Foreign,
    Function,
    Imported,
    Instance,
    Layer,
    Mapping,
    Method,
    Sequence,
    WeightOf,
    Weights,
    api_value,
)
from tapefix.flow.scope import Scope, canonical
from tapefix.flow.values import NO_DEPS, NONE, NUMERIC, UNKNOWN, Kind, Source, Value, join_all

SHAPE_ATTRIBUTES = frozenset("shape dtype ndim rank size name itemsize nbytes device op graph".split())


MODEL_METHODS = ops.PREDICTING | frozenset(
    """fit compile get_weights set_weights train_on_batch add_loss stateless_call call build summary save load_weights
    save_weights reset_states reset_state get_layer add""".split()
)


WEIGHT_ATTRIBUTES = frozenset(
    "trainable_variables trainable_weights variables weights non_trainable_variables non_trainable_weights".split()
)


class Attributes(Containers):
    """Evaluates attributes."""

    def eval_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.eval(node.value), node.attr, node)

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        if owner.alts and owner.ref is None:
            value = join_all(self.attribute(alt, name, node) for alt in owner.alts)
            # the weights of what was chosen are chosen with it
            tests = frozenset(self.text(test) for chosen, test in self.choices if chosen is owner)
            for ref in value.refs if tests else ():
                if isinstance(ref, Weights):
                    ref.chosen |= tests
            return value
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
        value = module.lookup(name) or UNKNOWN
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
            return Value(Kind.CONTAINER, ref=Weights(instance, name, node, self.is_unbuilt(instance)), node=node)
        if name == "losses":
            added = self.added_losses(instance)
            return Value(Kind.CONTAINER, ref=Sequence("list", None, join_all(added or [Value(Kind.TENSOR)])))
        if name in ("optimizer", "compiled_metrics", "metrics", "name", "dtype", "layers"):
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
            return Value(Kind.CONTAINER, ref=Weights(layer, name, node, self.is_unbuilt(layer)), node=node)
        if name == "layers":
            children = [child for child in layer.children if child.refs]  # an Input is none of them
            inner = join_all(children) if children else Value(Kind.OBJECT, ref=layer)
            return Value(Kind.CONTAINER, ref=Sequence("list", None, inner))
        if name in ("input", "inputs", "output", "outputs"):
            template = (
                layer.template
                if name.startswith("out") and layer.template
                else Value(Kind.TENSOR, self.read_source(layer, node))
            )
            return template if not name.endswith("s") else Value(Kind.CONTAINER, ref=Sequence("list", None, template))
        if name == "losses":
            # a regulariser keeps a gradient alive where the part that matters is cut: it is no way to the weights
            added = self.added_losses(layer)
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
            if name.isupper():
                return Value(Kind.UNKNOWN)  # a setting
            child = self.opaque_child(layer, name, node)
            return Value(Kind.UNKNOWN, ref=child, node=node)
        return Value(Kind.OBJECT, ref=Method(owner, name, node), node=node)

    def added_losses(self, owner: Layer | Instance) -> list[Value]:
        """What the parts of a model have given to add_loss."""
        return [value for part in self.reach(owner) if isinstance(part, Instance) for value in part.losses]

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
            if name == "size" and owner.kind in (Kind.TENSOR, Kind.TENSOR | Kind.ARRAY):
                self.misuse(node, name)
            return Value(Kind.SHAPE, node=node, dtype=owner.dtype if name == "dtype" else "")
        if name in ("T", "real", "imag", "flat", "values"):
            if name in ("T", "real", "imag") and owner.kind in (Kind.TENSOR, Kind.TENSOR | Kind.ARRAY):
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

    misuses: dict[ast.AST, str]

    def misuse(self, node: ast.AST, name: str) -> None:
        """Something only an array has is asked of a tensor."""
        self.misuses.setdefault(node, name)

    def is_unbuilt(self, owner: Source) -> bool:
        """A model whose layers make their weights when it is first called, which has not been."""
        if owner.ready or (isinstance(owner, Layer) and (owner.opaque or owner.parameter)):
            return False
        if isinstance(owner, Instance) and (owner.cls is None or not owner.cls.derives("Model", "Layer", "Sequential")):
            return False
        return any(isinstance(part, Layer) and part.lazy and not part.ready for part in self.reach(owner))

    # provided by the other parts
    def reach(self, owner: Any) -> set[Source]:
        raise NotImplementedError
