"""The training loop that `compile` and `fit` stand for, losses and metrics."""

from __future__ import annotations

import ast
from typing import Any

from tapefix.flow.facts import How
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.keras import Keras
from tapefix.flow.objects import Api, Bound, Function, Instance, Layer, Mapping, Sequence
from tapefix.flow.scope import argument_names
from tapefix.flow.values import ANY_TAPE, MISSING, NONE, UNKNOWN, Kind, Lost, Tape, Value, Var, join_all

#: methods of a model that do not make its weights
_BUILDS_NOTHING = frozenset("compile add add_loss add_metric add_weight get_layer get_config".split())


def is_put_back(lost: Lost, node: ast.AST) -> bool:
    """`layer.set_weights(...)` of what was `layer.get_weights()`, or by way of a vector of all weights."""
    read = lost.site.spot.node
    calls = [n.func for n in (read, node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    same = len({ast.unparse(function.value) for function in calls}) == 1
    return lost.site.how is How.WEIGHTS_COPIED and len(calls) == 2 and same


class LossObject:
    """A loss or metric object of the library."""

    def __init__(self, metric: bool, name: str) -> None:
        self.metric, self.name = metric, name
        self.seen: Value | None = None


class KerasTraining(Keras):
    """Calls of models."""

    def method_of_Instance(
        self, receiver: Value, instance: Instance, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        if name in ("add_weight", "add_variable"):
            kind = given.keywords.get("dtype")
            trainable = given.keywords.get("trainable")
            variable = Var(
                "", self.spot(node), integer=False, trainable=trainable is None or trainable.const is not False
            )
            variable.several = self.in_rounds
            variable.integer = (
                kind is not None and isinstance(kind.const, str) and kind.const.startswith(("int", "uint"))
            )
            if isinstance(node, ast.expr):
                from tapefix.flow.facts import Buffer, Role

                variable.buffer = Buffer("variable", self.spot(node))
                self.use(variable.buffer, Role.MADE, node, False)
            label = given.keywords.get("name") or (given.args[0] if given.args else None)
            if label is not None and isinstance(label.const, str):
                variable.label = label.const
            value = Value(Kind.VARIABLE, ref=variable, node=node)
            instance.attrs.setdefault(f"*{id(node)}", value)
            return value
        if name == "add_loss" and given.args:
            value = given.args[0]
            if isinstance(value.ref, (Function, Bound)):
                value = self.call(value, Arguments([], {}), node)
            instance.losses.append(value)
            self.loss_reached(value, [instance], node, "add_loss")
            return NONE
        if name in ("add_metric",):
            return NONE
        if instance.is_keras() or name in ("fit", "compile", "predict", "get_weights", "set_weights"):
            return self.model_method(receiver, instance, name, given, node)
        return None

    def model_method(self, receiver: Value, model: Any, name: str, given: Arguments, node: ast.AST) -> Value | None:
        model.ready = model.ready or not (name in _BUILDS_NOTHING or name.startswith("__"))
        if name in ("set_weights", "load_weights"):
            self.give_weights(model)
        if name in ops.PREDICTING:
            if getattr(model, "opaque", False) and not self.used_as_model(model):
                return None
            if self.is_symbolic(given):
                return self.call(receiver, given, node)  # no Keras model: these take numbers
            saved, result = self.tapes, self.call(receiver, Arguments(given.args[:1], {}), node)
            self.tapes = saved
            if name in ("evaluate", "test_on_batch"):
                return Value(
                    Kind.NUMBER,
                    lost=self.cut(How.PREDICT, node, [result], f".{name}()", lost=tuple(getattr(node, "args", ()))),
                )
            lost = self.cut(How.PREDICT, node, [result], f".{name}()", lost=tuple(getattr(node, "args", ())))
            if isinstance(result.ref, Sequence) and result.ref.items is not None:
                return Value(
                    Kind.CONTAINER, ref=Sequence("list", [Value(Kind.ARRAY, lost=lost) for _ in result.ref.items])
                )
            return Value(Kind.ARRAY, lost=lost, node=node)
        if name in ("get_weights", "get_config"):
            if name == "get_config":
                return UNKNOWN
            live = self.read_source(model, node)
            for source in self.reach(model):
                if getattr(source, "weights", True):  # dropout, noise and the like hold none
                    live |= self.read_source(source, node)
            value = Value(Kind.TENSOR, live)
            lost = self.cut(How.WEIGHTS_COPIED, node, [value], ".get_weights()") | model.written
            return Value(Kind.CONTAINER, ref=Sequence("list", None, Value(Kind.ARRAY, lost=lost)), node=node)
        if name == "set_weights" and given.args:
            lost = self.cut(
                How.WEIGHTS_COPIED,
                self.statement if isinstance(self.statement, ast.Expr) else node,
                given.args[:1],
                ".set_weights()",
            )
            # clipped, or kept as one long vector: weights that go back to where they were read before the tape
            lost = frozenset(x for x in lost if x.tapes or not is_put_back(x, node))
            made_once = any(f.function and getattr(f.function.node, "name", "") == "__init__" for f in self.frames)
            # a copy to begin with is what people want, unless nothing else trains the original
            model.written = frozenset(x.weakened() for x in lost) if made_once else lost
            return NONE
        if name == "add" and isinstance(model, Layer) and given.args:
            model.children.append(given.args[0])
            self.built_by_input(model)
            self.log_mutation(model, given.args[0])
            return NONE
        if name == "get_layer":
            if isinstance(model, Layer) and model.children:
                return join_all(model.children)
            if isinstance(model, Layer):
                return Value(Kind.UNKNOWN, ref=self.opaque_child(model, "layer", node))
            return UNKNOWN
        if name == "compile":
            return self.compiled(receiver, model, given, node)
        if name in ("fit", "train_on_batch", "fit_generator"):
            return self.fitted(receiver, model, given, node)
        if name in ("compute_loss", "compiled_loss"):
            prediction = given.get(1 if name == "compiled_loss" else 2, "y_pred")
            return self.standard_loss(model, given if prediction is None else prediction, node)
        if name in ("train_step", "test_step") and given.args:
            return self.carry(node, given.all, Kind.UNKNOWN)
        if name in ("stateless_call", "call", "__call__"):
            args = given.args[2:] if name == "stateless_call" else given.args
            result = self.call(receiver, Arguments(args, {}), node)
            if name == "stateless_call":
                weights = self.whole(given.args[0]) if given.args else UNKNOWN
                output = self.carry(node, [weights, *args])
                return Value(
                    Kind.CONTAINER,
                    ref=Sequence("tuple", [output, Value(Kind.CONTAINER, ref=Sequence("list", None, UNKNOWN))]),
                    node=node,
                )
            return result
        if name in (
            "build",
            "summary",
            "save",
            "save_weights",
            "load_weights",
            "reset_states",
            "reset_state",
            "compute_output_shape",
            "count_params",
            "adapt",
        ):
            return Value(Kind.SHAPE) if name.startswith("compute") else NONE
        if getattr(model, "opaque", False):
            for arg in given.all:
                self.called_back(arg, node)
            child = self.opaque_child(model, name, node)
            return Value(
                Kind.UNKNOWN,
                self.live_of(*given.all) | self.read_source(child, node),
                self.lost_of(*given.all),
                node=node,
            )
        if name in ("update_state", "result", "apply_gradients", "minimize") or not isinstance(model, Layer):
            if name == "minimize":
                return self.minimize(given, node)
            return None
        return self.carry(node, given.all, Kind.UNKNOWN)

    def is_symbolic(self, given: Arguments) -> bool:
        """What is given is made of a `keras.Input`, and no layer runs on it."""
        if ANY_TAPE in self.tapes:
            return False
        deps = {dep for value in given.all for dep in self.whole(value).live}
        return any(ANY_TAPE in dep.tapes for dep in deps)

    def used_as_model(self, layer: Layer) -> bool:
        return not layer.opaque

    def loss_or_metric(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        metric = "metrics" in path.split(".") and any(word in tail for word in ops.METRIC_FUNCTIONS)
        if tail[:1].isupper() and tail not in ops.LOSS_ABBREVIATIONS:
            if tail in ("Loss", "Metric"):
                return Value(Kind.OBJECT | Kind.UNKNOWN)
            return Value(Kind.OBJECT, ref=LossObject(metric or path.startswith("metrics."), tail))
        if metric:
            return Value(Kind.TENSOR, lost=self.cut(How.METRIC, node, given.all, tail), node=node)
        if tail == "get":
            return Value(Kind.OBJECT, ref=LossObject(path.startswith("metrics."), "get"))
        return self.labelled(given.all, node)

    def call_LossObject(self, value: Value, loss: LossObject, given: Arguments, node: ast.AST) -> Value:
        if loss.metric:
            return Value(
                Kind.TENSOR, lost=self.cut(How.METRIC, node, given.all, f"keras.metrics.{loss.name}"), node=node
            )
        result = self.labelled(given.all, node)
        result.reduced = True
        return result

    def method_of_LossObject(
        self, receiver: Value, loss: LossObject, name: str, given: Arguments, node: ast.AST
    ) -> Value | None:
        if loss.metric:
            if name == "update_state":
                loss.seen = Value(Kind.TENSOR, lost=self.cut(How.METRIC, node, given.all, f"keras.metrics.{loss.name}"))
                return NONE
            if name == "result":
                return loss.seen or Value(Kind.TENSOR)
            return NONE
        return self.call_LossObject(receiver, loss, given, node) if name in ("call", "__call__") else None

    def compiled(self, receiver: Value, model: Any, given: Arguments, node: ast.AST) -> Value:
        loss = given.get(1, "loss")
        if loss is None or isinstance(loss.const, str):
            model.compiled = loss or NONE
            if not self.has_train_step(model) and not self.is_only_evaluated():
                self.keras_run(receiver, model, None, node)
            return NONE
        model.compiled = loss
        if not self.has_train_step(model):
            self.keras_run(receiver, model, loss, node)
        return NONE

    def is_only_evaluated(self) -> bool:
        """Models are evaluated in this file, and none is fitted."""
        text = self.module.document.text
        return ".evaluate(" in text and not any(word in text for word in (".fit", ".train_on_batch", "def train"))

    @staticmethod
    def has_train_step(model: Any) -> bool:
        return isinstance(model, Instance) and model.cls is not None and model.cls.find("train_step") is not None

    def keras_run(self, receiver: Value, model: Any, loss: Value | None, node: ast.AST) -> None:
        """What `fit` does with each batch, under a tape of Keras's own."""
        if getattr(model, "opaque", False):
            prediction = Value(Kind.TENSOR, frozenset())
        tape = Tape(node, "fit")
        self.tapes.append(tape)
        try:
            prediction = self.call(receiver, Arguments([Value(Kind.TENSOR)], self.as_in_fit(model)), node)
            if not prediction.kind & (Kind.TENSOR | Kind.CONTAINER):
                prediction = prediction.with_(kind=prediction.kind | Kind.TENSOR)
            own = self.own_loss(receiver, model, prediction, node)
            for result in [own] if own is not None else self.losses_of(loss, prediction, node):
                self.loss_reached(result, [model], node, "loss")
        finally:
            self.tapes.remove(tape)

    @staticmethod
    def as_in_fit(model: Any) -> dict[str, Value]:
        """What `fit` tells a model beside its inputs."""
        found = model.cls.find("call") if isinstance(model, Instance) and model.cls is not None else None
        function = found[1].ref if found is not None else None
        asks = isinstance(function, Function) and "training" in argument_names(function.node)
        return {"training": Value(Kind.NUMBER, const=True)} if asks else {}

    def own_loss(self, receiver: Value, model: Any, prediction: Value, node: ast.AST) -> Value | None:
        """The loss of a model that says itself how it is computed."""
        found = model.cls.find("compute_loss") if isinstance(model, Instance) and model.cls is not None else None
        if found is None or not isinstance(found[1].ref, Function):
            return None
        given = {"x": Value(Kind.TENSOR), "y": Value(Kind.TENSOR), "y_pred": prediction, "sample_weight": NONE}
        return self.call_function(found[1].ref, [receiver], given, node)

    def standard_loss(self, model: Any, given: Value | Arguments, node: ast.AST) -> Value:
        """What the loss given to compile() makes of a prediction; of whatever is given where that is not told."""
        if isinstance(given, Arguments):
            return self.carry(node, given.all, Kind.UNKNOWN)
        loss = model.compiled
        if loss is None or loss.const is not MISSING:
            return self.labelled([Value(Kind.TENSOR), given], node)
        return self.carry(node, self.losses_of(loss, given, node))

    def losses_of(self, loss: Value | None, prediction: Value, node: ast.AST) -> list[Value]:
        if loss is None or (loss.const is not MISSING and not isinstance(loss.ref, (Sequence, Mapping))):
            return [prediction]
        if isinstance(loss.ref, Mapping):
            return [r for v in loss.ref.items.values() for r in self.losses_of(v, self.one_output(prediction), node)]
        if isinstance(loss.ref, Sequence):
            return [r for v in self.iterate_items(loss) for r in self.losses_of(v, self.one_output(prediction), node)]
        return [self.call_loss(loss, prediction, node)]

    def one_output(self, prediction: Value) -> Value:
        return (
            self.whole(prediction).with_(ref=None, alts=(), kind=Kind.TENSOR)
            if isinstance(prediction.ref, (Sequence, Mapping))
            else prediction
        )

    def call_loss(self, loss: Value, prediction: Value, node: ast.AST) -> Value:
        truth = Value(Kind.TENSOR)
        prediction = self.one_output(prediction)
        given = Arguments([truth, prediction], {})
        ref = loss.ref
        if isinstance(ref, Instance) and ref.cls is not None:
            found = ref.cls.find("call") or ref.cls.find("__call__")
            if found is not None and isinstance(found[1].ref, Function):
                return self.call_function(found[1].ref, [loss, truth, prediction], {}, node)
        if isinstance(ref, (Function, Bound, LossObject, Api, Layer)):
            return self.call(loss, given, node)
        return self.carry(node, [prediction])

    def fitted(self, receiver: Value, model: Any, given: Arguments, node: ast.AST) -> Value:
        data = given.get(0, "x") or UNKNOWN
        target = given.get(1, "y")
        if self.has_train_step(model):
            batch = self.as_batch(data, target)
            found = model.cls.find("train_step")
            self.call_function(found[1].ref, [receiver, batch], {}, node)
        elif isinstance(model, (Instance, Layer)) and model.compiled is None and not getattr(model, "opaque", False):
            self.keras_run(receiver, model, None, node)
        callbacks = given.keywords.get("callbacks")
        if callbacks is not None:
            for callback in self.iterate_items(callbacks) if isinstance(callbacks.ref, Sequence) else []:
                if isinstance(callback.ref, Instance):
                    callback.ref.attrs.setdefault("model", receiver)
        return UNKNOWN

    def as_batch(self, data: Value, target: Value | None) -> Value:
        def tensor(value: Value) -> Value:
            if isinstance(value.ref, Sequence) and value.ref.items is not None:
                return Value(Kind.CONTAINER, ref=Sequence("tuple", [tensor(v) for v in value.ref.items]))
            return Value(Kind.TENSOR)

        from tapefix.flow.objects import Dataset

        if isinstance(data.ref, Dataset):
            return data.ref.element
        if target is None:
            return tensor(data)
        return Value(Kind.CONTAINER, ref=Sequence("tuple", [tensor(data), tensor(target)]))
