"""Methods of tensors, Variables, tapes, datasets and arrays."""

from __future__ import annotations

import ast

from tapefix.flow.facts import Buffer, How, Role
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.interpreter.core import Stopped
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.numpy import NumPy
from tapefix.flow.libraries.tensorflow import content_dtype, dtype_of
from tapefix.flow.objects import (
    Array,
    Bound,
    Dataset,
    Distribution,
    Function,
    Instance,
    Layer,
    Mapping,
    Sequence,
    Slice,
    WeightOf,
    Weights,
    own_nodes,
    parts_of,
)
from tapefix.flow.syntax import binds
from tapefix.flow.values import NO_DEPS, NONE, NUMERIC, UNKNOWN, Dep, Kind, Source, Tape, Value, Var, join

#: methods of arrays that compute
ARRAY_METHODS = frozenset(
    """mean sum max min std var prod dot cumsum cumprod clip round astype trace ptp any all argmax argmin argsort sort
    reshape transpose flatten ravel squeeze swapaxes repeat take""".split()
)


def is_model(value: Value) -> bool:
    return any(isinstance(ref, Layer) or (isinstance(ref, Instance) and ref.is_keras()) for ref in value.refs)


def weights_of(value: Value) -> list[object]:
    return [ref.owner for ref in value.refs if isinstance(ref, Weights)]


class ValueMethods(NumPy):
    """Calls of methods."""

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
            return Value(Kind.OBJECT, ref=Dataset(self.through_dataset(made, node, f"Dataset.{name}")), node=node)
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

    def method_of_Tape(self, receiver: Value, tape: Tape, name: str, given: Arguments, node: ast.AST) -> Value | None:
        if name == "watch" and given.args:
            tape.unsure = tape.unsure or self.is_gone_through(node)
            wholes = list(parts_of(given.args[0]))
            single = [one for one in wholes if not isinstance(one.ref, (Sequence, Mapping))]
            words = dict(zip(map(id, single), self.words_of(node, len(single)), strict=True))
            for told, part in [(one, leaf) for one in wholes for leaf in (one, *one.alts)]:
                tape.unsure = tape.unsure or bool(part.kind & Kind.UNKNOWN)
                if part.node is not None:
                    tape.nodes.add(part.node)
                if tape.by_hand is not None and isinstance(part.ref, (Weights, WeightOf, Var)):
                    tape.by_hand |= self.reach(part.ref if isinstance(part.ref, Var) else part.ref.owner)
                if isinstance(part.ref, (Sequence, Mapping, Weights)):
                    continue
                if isinstance(part.ref, (Var, WeightOf)):
                    if isinstance(part.ref, Var):
                        part.ref.trainable = True
                    continue
                # a value is watched by its identity, so that only this value counts, not the name
                source = Source(words.get(id(told), "watched"), self.spot(node))
                tape.watched.setdefault(id(part), Dep(source, frozenset({tape}), self.spot(node)))
                tape.keep.append(part)
            return NONE
        if name == "stop_recording":
            return Value(Kind.OBJECT, ref=Stopped(tape, self.frame))
        if name in ("gradient", "jacobian", "batch_jacobian"):
            return self.gradient(tape, given, node)
        if name in ("watched_variables",):
            return Value(Kind.CONTAINER | Kind.UNKNOWN)
        if name == "__enter__":
            self.tapes.append(tape)
            self.begin_tape(tape, node)
            return receiver
        if name == "__exit__":
            self.end_tape(tape)
            return NONE
        return None

    def is_gone_through(self, watch: ast.AST) -> bool:
        """What is watched is one after the other of what a loop goes through: which is not known by its identity."""
        function = self.frame.function
        around = function.node if function is not None else self.module.document.tree
        told = watch.args[0] if isinstance(watch, ast.Call) and watch.args else None
        return isinstance(told, ast.Name) and any(
            isinstance(loop, (ast.For, ast.AsyncFor)) and binds(loop.target, told.id) for loop in own_nodes(around)
        )

    def words_of(self, watch: ast.AST, count: int) -> list[str]:
        """How each of the values is called that a tape is told to watch."""
        if not (isinstance(watch, ast.Call) and watch.args):
            return ["watched"] * count
        listed = watch.args[0]
        if isinstance(listed, (ast.List, ast.Tuple)) and len(listed.elts) == count:
            return [self.text(one) for one in listed.elts]
        return [self.text(listed)] * count

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
        variable.counts = variable.counts or content_dtype(value) == "int"
        value = self.written_value(value)
        lost = self.cut(how, place, [value], f".{name}(...)", buffer=variable.buffer, variable=variable)
        self.written_here(how, place)
        self.stores += not lost <= variable.stored
        if name == "assign" and how is How.VARIABLE_WRITE and not self.frame.branch_depth:
            variable.stored = lost
        else:
            variable.stored = variable.stored | lost
        return receiver if receiver.ref is variable else Value(Kind.VARIABLE, ref=variable, node=node)

    def written_value(self, value: Value) -> Value:
        """What a write takes: while no tape runs, an optimizer's step is a number, and so is a first value."""
        whole = self.whole(value)
        if not whole.live or (self.tapes and not self.is_beginning()):
            return value
        kept = NO_DEPS if self.is_beginning() else frozenset(dep for dep in whole.live if not dep.stepped)
        return value if kept == whole.live else whole.with_(live=kept, ref=None, alts=())

    def written_here(self, how: How, place: ast.AST) -> None:
        """Keeps what held at each write: reads where it does not hold cannot see it."""
        site = self.sites.get((how, id(place)))
        if site is not None:
            held = self.holding()
            known = held if site.holding is None else site.holding
            site.holding = {key: truth for key, truth in known.items() if held.get(key) == truth}

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
            value = self.written_value(given.get(0, "value", "delta") or UNKNOWN)
            place = self.statement if isinstance(self.statement, (ast.Expr, ast.Assign)) else node
            lost = self.cut(How.VARIABLE_WRITE, place, [value], f".{name}(...)", variable=weight.owner)
            owner = weight.owner
            owner.given = True
            if hasattr(owner, "written"):
                # an optimizer's own step is no copy: what was stored stays beside it
                self.stores += not lost <= owner.written
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
        if name in ops.NUMPY_VIEWS:
            return self.view(receiver, name, node)
        if name in ("astype", "copy"):
            self.typed_by_tensor(given)
            made = Array(Buffer("numpy", self.spot(node)), array.lost)
            dtype = dtype_of(given.get(0, "dtype")) if name == "astype" else receiver.dtype
            return Value(Kind.ARRAY, lost=array.lost, ref=made, dtype=dtype, node=node)
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
        # an array before a loop is a tensor after its first pass
        tensor = kind in (Kind.TENSOR, Kind.TENSOR | Kind.ARRAY)
        if tensor and name in ops.NDARRAY_ONLY and isinstance(node, ast.Call):
            self.misuse(node.func, name)
        if kind & Kind.VARIABLE:
            kind = (kind & ~Kind.VARIABLE) | Kind.TENSOR
        if not whole.tainted and kind & Kind.UNKNOWN:
            return self.call_unknown(receiver, given, node)
        integral = name in ("argmax", "argmin", "argsort", "round", "nonzero", "any", "all", "astype_int")
        if name == "astype":
            integral = integral or dtype_of(given.args[0] if given.args else None) in ("int", "bool")
            if kind == Kind.ARRAY:
                self.typed_by_tensor(given)
        values = [receiver, *given.all]
        if integral and kind & Kind.TENSOR:
            return Value(kind, lost=self.cut(How.INDEX_OF, node, values, f".{name}()"), dtype="int", node=node)
        result = self.carry(node, values, kind)
        if kind & Kind.UNKNOWN and name not in ARRAY_METHODS:
            result.live |= whole.live  # it may be a container, or only give another form of the same
        if integral:
            result.lost = frozenset(x.weakened() for x in result.lost)
        result.reduced = name in ("mean", "sum", "max", "min") and not given.all
        if name == "astype":
            result.dtype = dtype_of(given.get(0, "dtype"))
        return result

    def minimize(self, given: Arguments, node: ast.AST) -> Value:
        raise NotImplementedError
