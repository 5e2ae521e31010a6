"""Keras: layers, functional models and the backend."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from typing import Any

from tapefix.flow.facts import How
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.interpreter.core import underived
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.methods import ValueMethods
from tapefix.flow.objects import Instance, Layer, Mapping, Sequence, flat
from tapefix.flow.values import ANY_TAPE, MISSING, NUMERIC, UNKNOWN, Dep, Kind, Lost, Source, Value, Var, join_all

_OBJECT_MODULES = (
    "optimizers",
    "callbacks",
    "initializers",
    "regularizers",
    "constraints",
    "mixed_precision",
    "preprocessing",
    "datasets",
)


#: arguments that tell a layer the shape of its inputs
_SHAPES = frozenset({"input_shape", "input_dim", "batch_input_shape", "weights"})


class Keras(ValueMethods):
    """Makes and calls layers."""

    def call_keras(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        if path.startswith("backend."):
            return self.call_backend(tail, given, node)
        if path.startswith("ops."):
            if tail == "convert_to_numpy":
                return self.away(How.TO_NUMPY, node, given.all[:1], "convert_to_numpy")
            if tail == "array":
                return self.carry(node, given.all[:1])
            return self.call_tensorflow(path[4:] or tail, tail, given, node)
        if path == "config.backend":
            return Value(Kind.NUMBER, const="tensorflow")
        if path.startswith("random."):
            return self.call_tensorflow(path, tail, given, node)
        if path.startswith(("losses.", "metrics.")) or "metrics" in path.split("."):
            return self.loss_or_metric(path, tail, given, node)
        if path.startswith(_OBJECT_MODULES):
            return Value(Kind.OBJECT | Kind.UNKNOWN)
        if path.startswith("activations."):
            return self.carry(node, given.all)
        if path.startswith("utils."):
            if tail == "to_categorical":
                return self.away(How.NUMPY_CALL, node, given.all, "to_categorical", weak=True)
            if tail == "normalize":
                return self.away(How.NUMPY_CALL, node, given.all, "keras.utils.normalize")
            return UNKNOWN
        if tail in ("Input", "InputLayer"):
            source = Source("input", self.spot(node), assumed=True)
            return Value(Kind.TENSOR, frozenset({Dep(source, frozenset({ANY_TAPE}), self.spot(node))}), node=node)
        if tail == "Variable":
            return self.tf_Variable(path, given, node)
        if tail in ("Sequential",):
            layers = given.get(0, "layers")
            layer = Layer("", self.spot(node), api=tail, lazy=True, several=self.in_rounds)
            if layers is not None and isinstance(layers.ref, Sequence):
                layer.children = list(layers.ref.items) if layers.ref.items is not None else [layers.ref.element()]
                self.built_by_input(layer)
            elif layers is not None and layers.const is not None:
                layer.parameter = True  # what it is made of can't be seen
            return Value(Kind.OBJECT, ref=layer, node=node)
        if tail in ("Model", "Functional"):
            return self.functional(given, node)
        if tail == "custom_gradient":
            return self.tf_custom_gradient(path, given, node)
        if tail == "StatelessScope":
            return UNKNOWN
        if tail == "InputSpec":
            return Value(Kind.SHAPE)
        if path.startswith(("layers.", "applications.", "models.")) or tail[:1].isupper():
            return self.make_layer(tail, path, given, node)
        return UNKNOWN

    def give_weights(self, owner: Source) -> None:
        for part in self.reach(owner):
            part.given = True

    def built_by_input(self, layer: Layer) -> None:
        """A Sequential model whose first layer tells the shape of the inputs makes its weights at once."""
        first = layer.children[0] if layer.children else UNKNOWN
        if first.kind & (Kind.TENSOR | Kind.UNKNOWN) or any(
            isinstance(ref, Layer) and (ref.ready or ref.api == "InputLayer") for ref in first.refs
        ):
            for part in self.reach(layer):
                part.ready = True

    def make_layer(self, tail: str, path: str, given: Arguments, node: ast.AST) -> Value:
        if tail in ("load_model", "clone_model", "model_from_json"):
            return Value(Kind.OBJECT, ref=Layer("", self.spot(node), api=tail, given=True), node=node)
        if path.startswith("layers.") and tail[:1].islower():
            return self.carry(node, given.all)  # functional forms: layers.add([...])
        layer = Layer(
            "", self.spot(node), api=tail, weights=tail not in ops.LAYERS_WITHOUT_WEIGHTS, several=self.in_rounds
        )
        trainable = given.keywords.get("trainable")
        layer.frozen = trainable is not None and trainable.const is False
        layer.lazy = path.startswith("layers.") and layer.weights
        layer.ready = not _SHAPES.isdisjoint(given.keywords)
        if tail == "Lambda" and given.all:
            layer.function = given.get(0, "function")
        if tail in ops.WRAPPERS and given.all:
            inner = given.args[0] if given.args else next(iter(given.keywords.values()))
            layer.children = list(inner.ref.items) if isinstance(inner.ref, Sequence) and inner.ref.items else [inner]
        return Value(Kind.OBJECT, ref=layer, node=node)

    def functional(self, given: Arguments, node: ast.AST) -> Value:
        outputs = given.get(1, "outputs")
        layer = Layer("", self.spot(node), api="Model", template=outputs, several=self.in_rounds)
        return Value(Kind.OBJECT, ref=layer, node=node)

    def keras_base_init(self, instance: Instance, given: Arguments, node: ast.AST) -> None:
        outputs = given.get(1, "outputs")
        if outputs is not None and instance.cls is not None and instance.cls.derives("Model", "Functional"):
            instance.attrs["*functional"] = Value(
                Kind.OBJECT, ref=Layer("", self.spot(node), api="Model", template=outputs)
            )

    def call_Instance(self, value: Value, instance: Instance, given: Arguments, node: ast.AST) -> Value:
        instance.ready = True
        with self.symbolic_call(given):
            result = super().call_Instance(value, instance, given, node)
            return result.with_(live=underived(result.live)) if result.live else result

    def call_Layer(self, value: Value, layer: Layer, given: Arguments, node: ast.AST) -> Value:
        layer.ready = True
        with self.symbolic_call(given):
            result = self.layer_output(value, layer, given, node)
            return result.with_(live=underived(result.live)) if result.live else result

    @contextlib.contextmanager
    def symbolic_call(self, given: Arguments) -> Iterator[None]:
        """A layer called on a Keras tensor becomes part of a model: whatever tape runs that model records it."""
        saved = self.tapes
        if ANY_TAPE not in saved and any(ANY_TAPE in d.tapes for v in given.all for d in flat(v).live):
            self.tapes = [*saved, ANY_TAPE]
        try:
            yield
        finally:
            self.tapes = saved

    def layer_output(self, value: Value, layer: Layer, given: Arguments, node: ast.AST) -> Value:
        inputs = given.args[:1] or [v for k, v in given.keywords.items() if k not in ("training", "mask")]
        if layer.opaque:
            for arg in given.all:
                self.called_back(arg, node)
            if any(v.kind == Kind.ARRAY for v in given.all):  # made for it, such as the key of a search
                given = Arguments(
                    [weakened(v) for v in given.args], {k: weakened(v) for k, v in given.keywords.items()}
                )
            if layer.parameter and not self.may_be_layer_call(layer, given):
                return Value(Kind.UNKNOWN, self.live_of(*given.all), self.lost_of(*given.all), node=node)
            return Value(
                Kind.UNKNOWN,
                self.live_of(*given.all) | self.read_source(layer, node),
                self.lost_of(*given.all) | layer.written,
                node=node,
            )
        if layer.function is not None:
            result = self.call(layer.function, Arguments(given.args[:1], {}), node)
            return result
        if layer.api == "Sequential" and (layer.children or not layer.parameter):
            current = inputs[0] if inputs else UNKNOWN
            for child in layer.children:
                if any(isinstance(ref, Source) for ref in child.refs):
                    current = self.call(child, Arguments([current], {}), node)
                elif child.kind & Kind.TENSOR:  # an Input among the layers
                    continue
                else:
                    current = self.carry(node, [current])
            return self.tagged(current, layer.written) if layer.written else current
        if layer.template is not None:
            return self.call_functional(layer, given, node)
        if layer.children:
            return self.call_wrapper(layer, given, node)
        live = self.read_source(layer, node) if layer.weights else frozenset()
        lost = self.lost_of(*given.all) | layer.written
        if layer.api in ops.LAYERS_THAT_LOOK_UP:
            whole = self.whole(join_all(inputs)) if inputs else UNKNOWN
            lost = (
                frozenset(
                    x.weakened() for x in self.cut(How.INTEGER_CAST, node, [whole], layer.api + " lookup", weak=True)
                )
                | layer.written
            )
            if layer.api not in ("Embedding",):
                live = frozenset()
            return Value(Kind.TENSOR, live, lost, node=node)
        result = Value(Kind.TENSOR, live | self.live_of(*given.all), lost, node=node)
        if layer.api in (
            "LSTM",
            "GRU",
            "RNN",
            "SimpleRNN",
            "LSTMCell",
            "GRUCell",
            "Bidirectional",
            "ConvLSTM2D",
            "SimpleRNNCell",
        ):
            return self.sequence_of(result, node)
        return result

    @staticmethod
    def may_be_layer_call(layer: Layer, given: Arguments) -> bool:
        """A method of an unknown object may run a model, unless it plainly is one of a container, text or setting."""
        name = layer.api
        if not name:
            return True
        values = [v for v in given.all if v.const is MISSING]
        return bool(values) and name not in ops.PLAIN_METHODS and not name.startswith(ops.PLAIN_PREFIXES)

    def sequence_of(self, result: Value, node: ast.AST) -> Value:
        """A recurrent layer gives a tensor, or a tuple of tensors: both unpack to the same."""
        parent = self.statement
        target = parent.targets[0] if isinstance(parent, ast.Assign) and parent.targets else None
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(parent, ast.Assign) and parent.value is node:
            return Value(Kind.CONTAINER, ref=Sequence("tuple", None, result), node=node)
        return result

    def call_wrapper(self, layer: Layer, given: Arguments, node: ast.AST) -> Value:
        child = layer.children[0]
        if isinstance(child.ref, Instance) and layer.api == "RNN":
            states = Value(Kind.CONTAINER, ref=Sequence("list", None, Value(Kind.TENSOR)))
            cell = [
                self.call(c, Arguments([given.args[0] if given.args else UNKNOWN, states], {}), node)
                for c in layer.children
            ]
            return self.whole(join_all(cell)).with_(kind=Kind.TENSOR, ref=None, alts=())
        results = [self.call(c, given, node) for c in layer.children if isinstance(c.ref, Source)]
        if not results:
            return self.carry(node, given.all)
        return self.whole(join_all(results)).with_(kind=Kind.TENSOR, ref=None, alts=())

    def call_functional(self, layer: Layer, given: Arguments, node: ast.AST) -> Value:
        """A model made of Keras tensors: its outputs, with what was an Input replaced by what is given now."""
        args_live = self.live_of(*given.all)
        args_lost = self.lost_of(*given.all)

        def fill(value: Value) -> Value:
            if isinstance(value.ref, Sequence) and value.ref.items is not None:
                return value.with_(ref=Sequence(value.ref.type, [fill(v) for v in value.ref.items]))
            if isinstance(value.ref, Mapping):
                return value.with_(ref=Mapping({k: fill(v) for k, v in value.ref.items.items()}))
            whole = self.whole(value)
            through = any(d.source.assumed for d in whole.live)
            active = frozenset(self.tapes) or frozenset()
            spot, trail = self.spot(node), self.trail()
            left = self.left_by([one.tape for one in self.stopped]) if self.stopped else ()
            live = frozenset(
                Dep(d.source, active, spot, d.conditional, trail, left, self.clock)
                for d in whole.live
                if not d.source.assumed
            )
            if not whole.live and not whole.lost:
                live |= self.read_source(layer, node)
            if through:
                live |= args_live
            lost: set[Lost] = set()
            for x in whole.lost:
                if x.source.assumed:
                    # where the model is called, not where it was put together
                    site = self.site(x.site.how, node, x.site.detail) if args_live else x.site
                    lost |= {Lost(site, d.source, d.tapes, x.weak) for d in args_live}
                else:
                    lost.add(Lost(x.site, x.source, active, x.weak))
            return Value(
                Kind.TENSOR,
                live,
                frozenset(lost)
                | (args_lost if through else frozenset(y.weakened() for y in args_lost))
                | layer.written,
                node=node,
            )

        assert layer.template is not None
        return fill(layer.template)

    def method_of_Layer(
        self, receiver: Value, layer: Layer, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        return self.model_method(receiver, layer, name, given, node)

    def call_backend(self, tail: str, given: Arguments, node: ast.AST) -> Value:
        if tail == "backend":
            return Value(Kind.NUMBER, const="tensorflow")
        if tail in ("eval", "get_value", "batch_get_value"):
            return self.away(How.TO_NUMPY, node, given.all[:1], f"K.{tail}")
        if tail in ("variable",):
            return self.tf_Variable("Variable", given, node)
        if tail == "function":
            return UNKNOWN
        if tail == "gradients":
            return UNKNOWN
        if tail in ("set_value", "update", "update_add", "update_sub", "moving_average_update") and len(given.args) > 1:
            target, value = given.args[0], given.args[1]
            handler = getattr(self, "method_of_" + type(target.ref).__name__, None)
            if handler is not None and isinstance(target.ref, (Var,)):
                handler(target, target.ref, "assign", Arguments([value], {}), node)
            return target
        if tail in (
            "learning_phase",
            "image_data_format",
            "floatx",
            "epsilon",
            "clear_session",
            "set_floatx",
            "int_shape",
            "ndim",
            "set_learning_phase",
        ):
            return Value(Kind.NUMBER)
        if tail in ("switch",):
            return self.chosen(
                given.args[0] if given.args else UNKNOWN,
                [v if v.kind & NUMERIC else self.call(v, Arguments([], {}), node) for v in given.args[1:]],
                node,
                exclusive=False,
            )
        if tail == "rnn" and len(given.args) >= 2:
            step, inputs = given.args[0], given.args[1]
            states = given.args[2] if len(given.args) > 2 else UNKNOWN
            return self.call(step, Arguments([self.element(inputs, node), states], {}), node)
        if tail in ("binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy"):
            return self.labelled(given.all, node)
        if tail in ("random_normal", "random_uniform", "random_bernoulli", "truncated_normal"):
            return Value(Kind.TENSOR)
        if tail == "constant":
            return self.tf_constant("constant", given, node)
        return self.call_tensorflow(tail, tail, given, node)

    def loss_reached(self, value: Value, owners: list[Any] | None, node: ast.AST, what: str) -> None:
        raise NotImplementedError

    def reach(self, owner: Any) -> set[Source]:
        raise NotImplementedError

    # ---- provided by the training loop

    def loss_or_metric(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        raise NotImplementedError

    def model_method(self, receiver: Value, model: Any, name: str, given: Arguments, node: ast.AST) -> Value | None:
        raise NotImplementedError


def weakened(value: Value) -> Value:
    """An array's losses as those of something detached on purpose."""
    return value.with_(lost=frozenset(x.weakened() for x in value.lost)) if value.kind == Kind.ARRAY else value
