"""Assignments: names, attributes and items, and what reading and writing them does."""

from __future__ import annotations

import ast
from typing import Any

from tapefix.flow.facts import Buffer, How, Role, Spot, Use
from tapefix.flow.interpreter.unread import Unread
from tapefix.flow.objects import Array, Dataset, Generator, Instance, Mapping, Sequence, WeightOf, Weights, parts_of
from tapefix.flow.values import MISSING, NUMERIC, Kind, Source, Value, Var, join, join_all


class Assignments(Unread):
    """Binds targets to values."""

    buffers: dict[ast.AST, Buffer]

    #: tensors that took the place of a Variable, by their identity: the statement, the Variable, the tensor
    rebound: dict[int, tuple[Spot, Source, Value]]

    def run_Assign(self, node: ast.Assign) -> None:
        value = self.unread(node, self.eval(node.value))
        for target in node.targets:
            self.rebinding(target, value)
            self.assign(target, value, node.value)

    def rebinding(self, target: ast.expr, value: Value) -> None:
        """Remembers the tensors that take the place of Variables, or of tensors that did so before."""
        if self.tapes or isinstance(target, ast.Starred):
            return  # under a tape they may be meant to be functions of the Variables
        if isinstance(target, (ast.Tuple, ast.List)):
            items = value.ref.items if isinstance(value.ref, Sequence) else None
            for one, item in zip(target.elts, items or ()):
                self.rebinding(one, item)
            return
        new = [leaf for part in parts_of(value) for leaf in part.alts or (part,)]
        new = [leaf for leaf in new if leaf.ref is None and leaf.kind == Kind.TENSOR and leaf.live]
        new = [leaf for leaf in new if id(leaf) not in self.rebound]  # another name for one that is known
        old = self.bound_now(target) if new else None
        if old is None:
            return
        known: dict[Source, Source] = {}
        for leaf in (leaf for part in parts_of(old) for leaf in part.alts or (part,)):
            if isinstance(leaf.ref, Var):
                known[leaf.ref] = leaf.ref
            elif isinstance(leaf.ref, (Weights, WeightOf)):
                known[leaf.ref.owner] = leaf.ref.owner
            elif id(leaf) in self.rebound:
                known[self.rebound[id(leaf)][1]] = self.rebound[id(leaf)][1]
        for leaf in new:
            for dep in leaf.live:
                if dep.source in known:
                    self.rebound[id(leaf)] = (self.spot(self.statement), dep.source, leaf)
                    self.stores += 1  # what is asked for next is not the same

    def bound_now(self, target: ast.expr) -> Value | None:
        """What a target holds before it is given something else."""
        if isinstance(target, ast.Name):
            outer = target.id in self.scope.outer_names
            return self.scope.lookup(target.id) if outer else self.scope.vars.get(target.id)
        if isinstance(target, ast.Attribute):
            owner = self.eval(target.value)
            objects = [ref for ref in owner.refs if isinstance(ref, Instance) and target.attr in ref.attrs]
            return join_all(ref.attrs[target.attr] for ref in objects) if objects else None
        return self.eval(target) if isinstance(target, ast.Subscript) else None

    def run_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value), node.value)

    def run_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            value = self.combine(node.op, self.eval(target), self.eval(node.value), node)
            self.rebinding(target, value)
            self.assign(target, value, node.value)
            return
        old = self.eval(target)
        new = self.eval(node.value)
        for ref in old.refs:
            if isinstance(ref, Sequence) and isinstance(node.op, ast.Add):
                for item in self.iterate_items(new):
                    ref.add(item)
                    self.log_mutation(ref, item)
                return
            if isinstance(ref, Array) and not self.live_of(new):  # with a tensor it becomes a tensor
                self.write_array(ref, target, new, node)
                return
        value = self.combine(node.op, old, new, node)
        self.rebinding(target, value)
        self.assign(target, value, node.value)

    def assign(self, target: ast.expr, value: Value, origin: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            self.christen(value)
            self.label(value, target.id)
            self.scope.bind(target.id, value)
            self.note(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target.elts, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Value(Kind.CONTAINER, ref=Sequence("list", None, self.element(value, target))))
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self.assign_item(target, value)

    def label(self, value: Value, name: str) -> None:
        for ref in value.refs:
            if isinstance(ref, Source) and not ref.label:
                ref.label = name

    def unpack(self, targets: list[ast.expr], value: Value) -> None:
        ref = value.ref
        items = ref.items if isinstance(ref, Sequence) else None
        if items is not None and len(items) == len(targets) and not any(isinstance(t, ast.Starred) for t in targets):
            for target, item in zip(targets, items):
                self.assign(target, item)
            return
        if value.alts and all(
            isinstance(a.ref, Sequence) and a.ref.items and len(a.ref.items) == len(targets) for a in value.alts
        ):
            for i, target in enumerate(targets):
                self.assign(target, join_all(a.ref.items[i] for a in value.alts))
            return
        for i, target in enumerate(targets):
            if items is not None and i < len(items) and not any(isinstance(t, ast.Starred) for t in targets[: i + 1]):
                self.assign(target, items[i])
            else:
                self.assign(target, self.element(value, target))

    def element(self, value: Value, node: ast.AST) -> Value:
        """One element of whatever can be iterated."""
        if value.alts and value.ref is None and any(isinstance(ref, Array) for ref in value.refs):
            return join_all(self.element(alt, node) for alt in value.alts)
        found: list[Value] = []
        for ref in value.refs:
            if isinstance(ref, Sequence):
                found.append(ref.element())
            elif isinstance(ref, Mapping):
                found.append(Value(Kind.NUMBER))
            elif isinstance(ref, Dataset):
                found.append(ref.element)
            elif isinstance(ref, Weights):
                found.append(self.weight_of(ref, node))
            elif isinstance(ref, Generator):
                found.append(self.next_of(ref, node))
            elif isinstance(ref, Instance):
                found.append(self.iterate_instance(value, ref, node))
        if found:
            return join_all(found)
        whole = self.refresh(value, node)
        if whole.kind & Kind.SHAPE:
            return Value(Kind.SHAPE)
        kind = whole.kind & (NUMERIC | Kind.UNKNOWN) or Kind.UNKNOWN
        if kind & Kind.VARIABLE:
            kind = (kind & ~Kind.VARIABLE) | Kind.TENSOR
        return Value(
            kind,
            self.live_in(whole),
            self.lost_of(whole),
            ref=value.ref if isinstance(value.ref, Array) else None,  # a row is a view: writing it writes the array
            dtype=whole.dtype,
            node=node,
            near=value.near,
            past=value.past,
        )

    def weight_of(self, weights: Weights, node: ast.AST) -> Value:
        owner = weights.owner
        if isinstance(owner, Var):
            return self.refresh(Value(Kind.VARIABLE, ref=owner), node)
        one = WeightOf(
            owner.label,
            owner.spot,
            owner=owner,
            which=weights.which,
            node=weights.node,
            early=weights.early,
            chosen=weights.chosen,
        )
        return Value(Kind.VARIABLE, ref=one, node=node)

    def refresh(self, value: Value, node: ast.AST) -> Value:
        """What reading a Variable or buffer gives now."""
        ref = value.ref
        if isinstance(ref, Array):
            if ref.buffer is not None:
                self.use(ref.buffer, Role.READ, node, bool(ref.lost))
            return value
        if isinstance(ref, Var):
            if ref.buffer is not None:
                self.use(ref.buffer, Role.READ, node, bool(ref.stored))
            return value
        if ref is None:
            for alt in value.alts:  # an array from elsewhere that a loop has written into
                if isinstance(alt.ref, Array) and alt.ref.buffer is not None:
                    self.use(alt.ref.buffer, Role.READ, node, bool(alt.ref.lost))
        return value

    def use(self, buffer: Any, role: Role, node: ast.AST, carries: bool) -> None:
        if isinstance(node, ast.expr):
            buffer.add(Use(role, self.spot(node), self.statement, carries))

    def assign_attribute(self, target: ast.Attribute, value: Value) -> None:
        owner = self.eval(target.value)
        name = target.attr
        if name == "trainable":
            self.set_trainable(owner, value)
        for ref in value.refs:
            if isinstance(ref, Source) and (not ref.label or "." not in ref.label):
                label = self.text(target)
                self.hold(owner, ref)
                if not ref.label or label.startswith("self."):
                    ref.label = label
        for ref in owner.refs:
            if isinstance(ref, Instance):
                old = ref.attrs.get(name)
                if old is not None and (self.frame.branch_depth > 0 or len(owner.refs) > 1):
                    ref.attrs[name] = join(old, value)
                else:
                    ref.attrs[name] = value
                self.log_mutation(ref, value)
        self.note(target, value)

    @staticmethod
    def hold(owner: Value, part: Source) -> None:
        """A layer that an object keeps is not made anew, unless the object is."""
        if isinstance(owner.ref, Instance) and owner.ref is not part and part.holder is None:
            part.holder = owner.ref

    def set_trainable(self, owner: Value, value: Value) -> None:
        """`x.trainable = False` freezes what x holds now; where it is not known it may be frozen."""
        for ref in owner.refs:
            for part in self.reach(ref) if isinstance(ref, Source) else ():
                part.frozen = value.const is not True

    def reach(self, owner: Any) -> set[Source]:
        raise NotImplementedError

    def assign_item(self, target: ast.Subscript, value: Value) -> None:
        owner = self.eval_place(target.value)
        if owner.kind == Kind.ARRAY and owner.ref is None and isinstance(target.value, ast.Name):
            # an array from elsewhere (`data.copy()`): from now on it is written into
            made = owner.node or target.value
            if made not in self.buffers:
                self.buffers[made] = Buffer("numpy", self.spot(made))
            owner = owner.with_(ref=Array(self.buffers[made], owner.lost))
            self.scope.bind(target.value.id, owner)
        index = self.eval_index(target.slice)
        if owner.kind in (Kind.TENSOR, Kind.VARIABLE) and not owner.refs:
            self.misuse(target, "item")
        for ref in owner.refs:
            if isinstance(ref, Array):
                self.write_array(ref, target.value, value, self.statement, index)
            elif isinstance(ref, Sequence):
                const = index.const
                if (
                    isinstance(const, int)
                    and ref.items is not None
                    and -len(ref.items) <= const < len(ref.items)
                    and not self.frame.branch_depth
                ):
                    ref.items[const] = value
                else:
                    ref.forget()
                    ref.rest = value if ref.rest is None else join(ref.rest, value)
                self.log_mutation(ref, value)
            elif isinstance(ref, Mapping):
                if (
                    index.const is not MISSING
                    and isinstance(index.const, (str, int, float, bool))
                    and not self.frame.branch_depth
                ):
                    ref.items[index.const] = value
                else:
                    ref.rest = value if ref.rest is None else join(ref.rest, value)
                self.log_mutation(ref, value)
        self.note(target, value)

    def write_array(
        self, array: Array, place: ast.expr, value: Value, node: ast.AST, index: Value | None = None
    ) -> None:
        base: ast.expr = place
        while isinstance(base, ast.Subscript):
            base = base.value
        carries = bool(self.live_of(value))
        self.use(array.buffer, Role.WRITE, base, carries)
        detail = self.text(place) if carries else ""
        lost = self.cut(How.ARRAY_WRITE, node, [value], detail, buffer=array.buffer)
        if lost:
            self.stores += not lost <= array.lost
            array.lost = array.lost | lost
            self.log_mutation(array, value)
