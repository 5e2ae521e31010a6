"""Lists, tuples, dicts, comprehensions, and what is taken out of them."""

from __future__ import annotations

import ast
from typing import Any

from tapefix.flow.facts import How
from tapefix.flow.indexing import fails_on_a_tensor
from tapefix.flow.interpreter.choices import asks_for_kind
from tapefix.flow.interpreter.expressions import Expressions
from tapefix.flow.objects import (
    Api,
    Array,
    Bound,
    ClassObject,
    Dataset,
    Function,
    Instance,
    Layer,
    Mapping,
    Sequence,
    Slice,
    WeightOf,
    Weights,
    flat,
)
from tapefix.flow.scope import Scope
from tapefix.flow.values import MISSING, NUMERIC, UNKNOWN, Kind, Lost, Tape, Value, Var, join, join_all

#: how many elements a comprehension is run for one by one
MOST_EXACT = 6
_TENSORS = Kind.TENSOR | Kind.VARIABLE


class Containers(Expressions):
    """Evaluates displays, comprehensions and subscripts."""

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
        sieves, self.sieves = self.sieves, []
        try:
            self._generators(node.generators, produce)
        finally:
            frame.scope = saved
            self.sieves = sieves

    def _generators(self, generators: list[ast.comprehension], produce: Any) -> None:
        if not generators:
            produce()
            return
        iterable = self.eval(generators[0].iter)
        with self.rounds(iterable):
            self._each(iterable, generators, produce)

    def _each(self, iterable: Value, generators: list[ast.comprehension], produce: Any) -> None:
        first, rest = generators[0], generators[1:]
        known = iterable.ref.items if isinstance(iterable.ref, Sequence) and iterable.ref.items is not None else None
        if known and first.ifs and all(asks_for_kind(test) for test in first.ifs):
            known = self._of_kind(first, known)
        elif first.ifs or len(known or ()) > MOST_EXACT:
            known = None
        if known:
            for item in list(known):
                self.assign(first.target, item)
                self._generators(rest, produce)
            return
        self.assign(first.target, self.element(iterable, first.iter))
        for test in first.ifs:
            on_data, lost = self.predicate(self.eval(test), test, How.PREDICATE)
            if on_data:
                self.sieves.append((test, lost))
        self._exact = False
        stores = self.stores
        self._generators(rest, produce)
        if stores != self.stores:  # the next element may meet what this one has stored
            self._generators(rest, produce)

    def _of_kind(self, generator: ast.comprehension, items: list[Value]) -> list[Value] | None:
        """The elements that are of the kinds asked for; None if that is not known of each."""
        kept = []
        for item in items:
            self.assign(generator.target, item)
            answers = [self.eval(test).const for test in generator.ifs]
            if not all(isinstance(answer, bool) for answer in answers):
                return None
            if all(answers):
                kept.append(item)
        return kept

    _exact = True
    #: the tests on data, chance or predictions by which a comprehension leaves elements out
    sieves: list[tuple[ast.expr, frozenset[Lost]]]

    def sifted(self, value: Value, sieves: list[tuple[ast.expr, frozenset[Lost]]]) -> Value:
        """An element that tests may have left out."""
        for test, lost in sieves:
            if any(isinstance(ref, (Layer, Instance, Function, Bound)) for ref in value.refs):
                value = value.with_(alts=tuple(alt.with_() for alt in value.alts))
                for one in (value, *value.alts):
                    self.left_out[id(one)] = (one, test, lost)
            else:
                tags = lost | self.exclusive(value, Value(), test, How.PREDICATE)
                value = self.tag_inside(value, tags) if tags else value
        return value

    def _collect(self, node: Any, type_: str) -> Value:
        sequence = Sequence(type_)
        saved, self._exact = self._exact, True

        def produce() -> None:
            value = self.sifted(self.eval(node.elt), self.sieves)
            sequence.add(value)
            sequence.each |= value.live & self.for_each_round

        self._comprehension(node, produce)
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
            key, value = self.eval(node.key), self.sifted(self.eval(node.value), self.sieves)
            if isinstance(key.const, (str, int)):
                mapping.items[key.const] = value
            else:
                mapping.rest = value if mapping.rest is None else join(mapping.rest, value)

        self._comprehension(node, produce)
        return Value(Kind.CONTAINER, ref=mapping, node=node)

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
        owner, index = self.eval(node.value), self.eval_index(node.slice)
        if owner.kind & _TENSORS and not owner.kind & ~(_TENSORS | Kind.ARRAY) and index.kind != Kind.NUMBER:
            if isinstance(node.ctx, ast.Load) and fails_on_a_tensor(node.slice, self.seen.get):
                self.misuse(node, "index")
        return self.item(owner, index, node)

    def item(self, owner: Value, index: Value, node: ast.AST) -> Value:
        if (
            owner.alts
            and owner.ref is None
            and any(isinstance(r, (Sequence, Mapping, Weights, Var, Array, Instance)) for r in owner.refs)
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
            if index.const is MISSING:
                self.take(ref)
            element = self.refresh(ref.element(), node)
            return self._selected(element, index, node)
        if isinstance(ref, Mapping):
            if index.const is not MISSING and index.const in ref.items:
                return self.refresh(ref.items[index.const], node)
            if index.const is not MISSING and ref.rest is not None and isinstance(index.const, (str, int)):
                return self.refresh(ref.rest, node)
            if index.const is MISSING:
                self.take(ref)
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
        # a key is asked of a container: no operation
        live = self.whole(owner).live if isinstance(index.const, str) else self.live_in(owner)
        value = Value(
            kind,
            live,
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
