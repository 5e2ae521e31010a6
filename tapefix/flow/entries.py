"""What of a program nobody calls: layers, losses and training steps that a library offers, run on unknown arguments."""

from __future__ import annotations

import ast

from tapefix.flow.facts import Target
from tapefix.flow.interpreter.core import Frame
from tapefix.flow.objects import ClassObject, Function, Instance, Layer, Sequence
from tapefix.flow.scope import ModuleState, argument_names
from tapefix.flow.syntax import nodes_of
from tapefix.flow.targets import Targets
from tapefix.flow.values import NO_LOST, Dep, Kind, Lost, Source, Tape, Value, Var, join_all
from tapefix.flow.worth.prefilter import Roots
from tapefix.flow.worth.vocabulary import GUESSES, TRUTHS

LAYERS = ("Layer", "Model", "Sequential", "Module", "AbstractRNNCell", "Wrapper")


class Entries(Targets):
    worth: Roots

    def worth_running(self, function: Function) -> bool:
        """Code is reached from the function that asks for a gradient, beside code that can lose one."""
        own = function.wraps or function
        return self.worth.everything or getattr(own.node, "lineno", 0) in self.worth.rows

    def roots(self, state: ModuleState) -> None:
        self.frames.append(Frame(None, state.scope))
        try:
            for value in list(state.scope.vars.values()):
                if isinstance(value.ref, ClassObject) and value.ref.scope.module is state:
                    self.class_roots(value, value.ref)
            for value in list(state.scope.vars.values()):
                ref = value.ref
                if (
                    isinstance(ref, Function)
                    and ref.runs == 0
                    and ref.scope.module is state
                    and self.worth_running(ref)
                ):
                    self.function_root(value, ref)
        finally:
            self.frames.pop()

    def function_root(self, value: Value, function: Function) -> None:
        names = argument_names(function.node)
        args = self.unknown_parameters(function)
        name = getattr(function.node, "name", "")
        if (
            self.looks_like_loss(name, names)
            and name not in self.metric_functions(function)
            and self.is_handed_on(function)
        ):
            self.loss_root(function, args, names)
            return
        self.tapes = []
        result = self.exhaust(self.call_function(function, args, {}, function.node), function.node)
        # a function that only makes another one (a loss, a train step): the inner one is what counts
        if isinstance(result.ref, Function) and result.ref.runs == 0:
            self.function_root(result, result.ref)

    def metric_functions(self, function: Function) -> frozenset[str]:
        """Names that the classes derived from a metric use: functions that measure, whatever they are called."""
        tree = function.scope.module.document.tree
        found: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any("Metric" in ast.unparse(base) for base in node.bases):
                found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        return frozenset(found)

    @staticmethod
    def looks_like_loss(name: str, names: list[str]) -> bool:
        return "loss" in name.lower() and len(names) >= 2 and names[0] in TRUTHS and names[1] in GUESSES

    @staticmethod
    def takes_labels_first(function: Function) -> bool:
        """A `__call__` of a loss's own may take its arguments in another order than Keras gives them."""
        names = argument_names(function.node)[1:]
        return len(names) >= 2 and (names[0] in TRUTHS or names[1] in GUESSES)

    @staticmethod
    def is_handed_on(function: Function) -> bool:
        """Something else is done with the function in its file than to call it, or nothing at all."""
        name = getattr(function.node, "name", "")
        tree = function.scope.module.document.tree
        called = [n.func for n in nodes_of(tree) if isinstance(n, ast.Call)]
        uses = [n for n in nodes_of(tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
        return not uses or any(all(use is not one for one in called) for use in uses)

    def loss_root(self, function: Function, args: list[Value], names: list[str]) -> None:
        tape = Tape(function.node, "fit")
        self.tapes = [tape]
        source = Source(names[1], self.spot(function.node))
        prediction = Value(Kind.TENSOR, frozenset({Dep(source, frozenset({tape}), self.spot(function.node))}))
        values = [Value(Kind.TENSOR), prediction, *args[2:]]
        result = self.call_function(function, values, {}, function.node)
        self.judge(result, {source}, True, tape, Target(self.spot(function.node), "loss"))
        self.tapes = []

    def class_roots(self, value: Value, cls: ClassObject) -> None:
        methods = [
            (n, m.ref)
            for n, m in cls.members.items()
            if isinstance(m.ref, Function) and isinstance(m.ref.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        pending = [
            (n, f)
            for n, f in methods
            if f.runs == 0
            and n not in ("__init__", "build", "get_config", "from_config", "__repr__", "compute_output_shape")
        ]
        if not pending or (
            any(f.runs and n in ("call", "__call__", "train_step") for n, f in methods)
            and not any("tape" in n or "train" in n for n, _ in pending)
        ):
            pending = [(n, f) for n, f in pending if self.has_tape(f)]
        pending = self.worthwhile(pending)
        if not pending:
            return
        instance = self.symbolic(value, cls)
        runs = {function: function.runs for _, function in pending}  # some ran on nothing that is known
        for name, function in pending:
            if function.runs > runs[function]:
                continue
            # what a decorator adds is between the caller and the layer
            function = function.wraps or function
            self.tapes = []
            if function.kind in ("static", "class", "property"):
                continue
            args = self.unknown_parameters(function, 1)
            if name == "call" and (cls.derives(*LAYERS) or self.derives_unseen(cls)):
                self.call_root(instance, function, args)
            elif (
                (name == "call" and cls.derives("Loss"))
                or (name == "__call__" and cls.derives("Loss") and self.takes_labels_first(function))
                or (name == "call" and cls.node.name.endswith("Loss"))
                or (name == "compute_loss" and cls.derives(*LAYERS) and "y_pred" in argument_names(function.node))
            ):
                self.loss_method_root(instance, function, args)
            else:
                before, rebound = self.written_in(instance.ref), len(self.rebound)
                result = self.exhaust(self.call_function(function, [instance, *args], {}, function.node), function.node)
                if isinstance(result.ref, Function) and result.ref.runs == 0 and result.ref.owner is None:
                    self.function_root(result, result.ref)  # such as what a quasi-Newton search is given
                if len(self.rebound) > rebound:  # the next step may ask for what this one has put there
                    self.call_function(function, [instance, *args], {}, function.node)
                self.unwrite(instance.ref, before)  # nobody in sight calls it: what it writes is there another time

    def worthwhile(self, methods: list[tuple[str, Function]]) -> list[tuple[str, Function]]:
        """The methods that are worth running, and those that set what these may use; none if no method is."""
        if not any(self.worth_running(function) for _, function in methods):
            return []
        return [(name, f) for name, f in methods if self.worth_running(f) or self.sets_attributes(f)]

    def sets_attributes(self, function: Function) -> bool:
        return self.worth.everything or getattr((function.wraps or function).node, "lineno", 0) in self.worth.setting

    @staticmethod
    def derives_unseen(cls: ClassObject) -> bool:
        """A base that was not read, and by its name is a layer or model."""
        unseen = [c for c in cls.mro() if len(c.node.bases) > len(c.bases)]
        return any(ast.unparse(base).endswith(LAYERS) for c in unseen for base in c.node.bases)

    def has_tape(self, function: Function) -> bool:
        return self.worth.everything or getattr((function.wraps or function).node, "lineno", 0) in self.worth.taping

    def symbolic(self, value: Value, cls: ClassObject) -> Value:
        """An object of a class that nobody makes: its `__init__` runs on unknown arguments."""
        instance = Instance(cls.node.name, self.spot(cls.node), cls=cls)
        made = Value(Kind.OBJECT, ref=instance)
        found = cls.find("__init__")
        if found is not None and isinstance(found[1].ref, Function):
            self.tapes = []
            self.call_function(found[1].ref, [made, *self.unknown_parameters(found[1].ref, 1)], {}, cls.node)
        return made

    def call_root(self, instance: Value, function: Function, args: list[Value]) -> None:
        owner = instance.ref
        tape = Tape(function.node, "fit")
        self.build(instance, owner, function.node)
        self.tapes = [tape]
        source = Source("the layer's input", self.spot(function.node), assumed=True)
        inputs = Value(Kind.TENSOR, frozenset({Dep(source, frozenset({tape}), self.spot(function.node))}))
        values = [inputs if i == 0 else a for i, a in enumerate(args)]
        result = self.call_function(function, [instance, *values], {}, function.node)
        result = join_all(self.opened(part) for part in result.alts or (result,))
        self.judge(result, self.reach(owner, trained=True), True, tape, Target(self.spot(function.node), "call"))
        self.tapes = []

    def written_in(self, owner: Instance) -> dict[Source, frozenset[Lost]]:
        """What the weights of an object have been given by writes."""
        return {s: s.stored if isinstance(s, Var) else getattr(s, "written", NO_LOST) for s in self.reach(owner)}

    def unwrite(self, owner: Instance, before: dict[Source, frozenset[Lost]]) -> None:
        for name, value in owner.attrs.items():
            if value.lost and any(isinstance(ref, Var) for ref in value.refs):
                alts = tuple(alt.with_(lost=NO_LOST) for alt in value.alts)
                owner.attrs[name] = value.with_(lost=NO_LOST, alts=alts)
        for source in self.reach(owner):
            if isinstance(source, Var):
                source.stored = before.get(source, NO_LOST)
            elif isinstance(source, (Layer, Instance)):
                source.written = before.get(source, NO_LOST)

    @staticmethod
    def opened(value: Value) -> Value:
        """An object that bundles a layer's outputs, as these outputs."""
        if isinstance(value.ref, Instance) and not value.ref.is_keras():
            return Value(Kind.CONTAINER, ref=Sequence("tuple", list(value.ref.attrs.values())))
        return value

    def loss_method_root(self, instance: Value, function: Function, args: list[Value]) -> None:
        tape = Tape(function.node, "fit")
        self.tapes = [tape]
        names = argument_names(function.node)
        at = names.index("y_pred") if "y_pred" in names else 2
        source = Source(names[at] if len(names) > at else "y_pred", self.spot(function.node))
        prediction = Value(Kind.TENSOR, frozenset({Dep(source, frozenset({tape}), self.spot(function.node))}))
        values = [*[Value(Kind.TENSOR)] * (at - 1), prediction, *args[at:]][: max(len(args), at)]
        result = self.call_function(function, [instance, *values], {}, function.node)
        self.judge(result, {source}, True, tape, Target(self.spot(function.node), "loss"))
        self.tapes = []
