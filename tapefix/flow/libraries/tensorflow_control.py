"""TensorFlow functions that are given functions: conditions, loops, maps, compiled and foreign code."""

from __future__ import annotations

import ast
import functools

from tapefix.flow.facts import How
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.libraries.tensorflow import TensorFlow
from tapefix.flow.objects import Api, Bound, Function, Mapping, Sequence, Weights
from tapefix.flow.values import (
    MISSING,
    NO_LOST,
    NONE,
    NUMERIC,
    UNKNOWN,
    Kind,
    Lost,
    Value,
    is_numeral,
    join,
    join_all,
    same,
)


class TensorFlowControl(TensorFlow):
    """Control flow in the graph."""

    def tf_cond(self, path: str, given: Arguments, node: ast.AST) -> Value:
        predicate = given.get(0, "pred") or UNKNOWN
        branches = [given.get(1, "true_fn", "then_expression"), given.get(2, "false_fn", "else_expression")]
        test = node.args[0] if isinstance(node, ast.Call) and node.args else None
        results = self.each_way(
            [functools.partial(self.branch_value, branch, node) for branch in branches],
            [self.guards_of(test, predicate, holds) for holds in (True, False)],
        )
        return self.chosen(predicate, results, node, exclusive=True)

    def branch_value(self, branch: Value | None, node: ast.AST) -> Value:
        """What a branch gives: a function to call, or a value."""
        if branch is None or branch.kind & NUMERIC:
            return branch or NONE
        return self.call(branch, Arguments([], {}), node)

    def chosen(self, predicate: Value, results: list[Value], node: ast.AST, exclusive: bool) -> Value:
        assert isinstance(node, ast.expr)
        results = [self.as_tensor(result) for result in results]
        on_data, lost = self.predicate(predicate, node, How.PREDICATE_OP)
        value = join_all(results)
        if exclusive and on_data and results:
            for other in results[1:]:
                lost |= self.exclusive(results[0], other, node, How.PREDICATE_OP)
        return self.tag_inside(value, lost) if lost else value

    def as_tensor(self, value: Value) -> Value:
        """What a branch gives, a Python number too, is a tensor."""
        if isinstance(value.ref, Sequence) and value.ref.items is not None:
            return value.with_(ref=Sequence(value.ref.type, [self.as_tensor(item) for item in value.ref.items]))
        return value.with_(kind=Kind.TENSOR, const=MISSING) if is_numeral(value) else value

    def tf_switch(self, path: str, given: Arguments, node: ast.AST) -> Value | None:
        """`keras.ops.switch(index, branches, *operands)`."""
        branches = given.get(1, "branches")
        if branches is None or not isinstance(branches.ref, Sequence):
            return None
        operands = Arguments(given.args[2:], {})
        results = [self.call(branch, operands, node) for branch in self.iterate_items(branches)]
        return self.chosen(given.get(0, "index") or UNKNOWN, results or [UNKNOWN], node, exclusive=True)

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
            stores = self.stores
            if condition is not None and isinstance(node, ast.expr):
                _, stops = self.predicate(self.call(condition, Arguments(items, {}), node), node, How.PREDICATE_LOOP)
                lost |= stops
            value = self.call(body, Arguments(items, {}), node) if body is not None else UNKNOWN
            again = self.iterate_items(value) if isinstance(value.ref, Sequence) else [value]
            if len(again) != len(items):
                break
            joined = [join(a, b) for a, b in zip(items, again)]
            if stores == self.stores and all(map(same, items, joined)):
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
        stores = self.stores
        result = self.call(function, Arguments([element], {}), node)
        if stores != self.stores:  # the next element may meet what this one has stored
            result = join(result, self.call(function, Arguments([element], {}), node))
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

    def tf_group(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return NONE

    def tf_control_dependencies(self, path: str, given: Arguments, node: ast.AST) -> Value:
        return UNKNOWN

    def tf_map_structure(self, path: str, given: Arguments, node: ast.AST) -> Value:
        if len(given.args) < 2:
            return UNKNOWN
        function, *structures = given.args
        return self.mapped(function, structures, node)

    def mapped(self, function: Value, structures: list[Value], node: ast.AST) -> Value:
        """A function of each leaf of the first structure, and of what stands there in the others."""
        first = structures[0]
        if first.ref is None and any(isinstance(ref, (Sequence, Mapping)) for ref in first.refs):
            return join_all(self.mapped(function, [alt, *structures[1:]], node) for alt in first.alts)
        if isinstance(first.ref, Sequence):
            whole = first.ref
            items = [
                self.mapped(function, [item, *(part_at(s, i) for s in structures[1:])], node)
                for i, item in enumerate(whole.items or [])
            ]
            rest = self.mapped_rest(function, whole.rest, structures, node)
            return Value(Kind.CONTAINER, ref=Sequence(whole.type, None if whole.items is None else items, rest))
        if isinstance(first.ref, Mapping):
            entries = {
                key: self.mapped(function, [item, *(part_at(s, key) for s in structures[1:])], node)
                for key, item in first.ref.items.items()
            }
            rest = self.mapped_rest(function, first.ref.rest, structures, node)
            return Value(Kind.CONTAINER, ref=Mapping(entries, rest))
        if isinstance(first.ref, Weights):
            elements = [self.element(s, node) if s.refs else s for s in structures]
            return Value(Kind.CONTAINER, ref=Sequence("list", None, self.call(function, Arguments(elements, {}), node)))
        return self.call(function, Arguments(structures, {}), node)

    def mapped_rest(self, function: Value, rest: Value | None, others: list[Value], node: ast.AST) -> Value | None:
        if rest is None:
            return None
        return self.mapped(function, [rest, *(part_at(s, MISSING) for s in others[1:])], node)


def part_at(structure: Value, place: object) -> Value:
    """The part of a structure at an index or key; any of them where that is not known."""
    ref = structure.ref
    if isinstance(ref, Mapping) and isinstance(place, (str, int)) and place in ref.items:
        return ref.items[place]
    if isinstance(ref, Sequence) and ref.items is not None and isinstance(place, int) and place < len(ref.items):
        return ref.items[place]
    return ref.element() if isinstance(ref, (Sequence, Mapping)) else structure
