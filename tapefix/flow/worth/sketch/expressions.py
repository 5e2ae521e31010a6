"""Expressions: which nodes their values come from."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from tapefix.flow.worth.sketch.calls import Calls, parts_of, root_of
from tapefix.flow.worth.sketch.definitions import Scope
from tapefix.flow.worth.sketch.names import LOSES, SETTINGS, WEIGHT_NAMES, WEIGHTS
from tapefix.flow.worth.sketch.nodes import (
    ANYTHING,
    CARRIES,
    CHOICE,
    CUTTER,
    NOTHING,
    OBJECT,
    Nodes,
)


@dataclass
class Expressions(Calls):
    def value(self, node: ast.expr, scope: Scope) -> Nodes:
        handler = _HANDLERS.get(type(node))
        return handler(self, node, scope) if handler is not None else NOTHING

    def decide(self, test: ast.expr, scope: Scope) -> None:
        self.place(self.value(test, scope), bits=CARRIES | CHOICE)

    def name(self, node: ast.Name, scope: Scope) -> Nodes:
        if node.id in self.functions:
            self.escape(node.id)
        if self.loses(node.id):
            return CUTTER + self.load(node.id, scope)
        return self.load(node.id, scope)

    def attribute_of(self, node: ast.Attribute, scope: Scope) -> Nodes:
        name, base = node.attr, node.value
        me = self.is_me(base, scope)
        if name in SETTINGS:
            if not me:
                self.value(base, scope)
            return (self.attribute(name),) if me and name not in ("shape", "dtype", "name") else NOTHING
        root = root_of(base)
        if root in self.modules and scope.find(root) is None:
            return CUTTER if self.loses(name) or root in self.away or not LOSES.isdisjoint(parts_of(node)) else NOTHING
        own: Nodes = (self.attribute(name),)
        if name in self.functions:
            if self.is_property(name):
                own += tuple(function.result for function in self.functions[name])
            else:
                self.escape(name)
        if me:
            return own
        inner = self.value(base, scope)
        if name in WEIGHTS:
            for number in inner:
                self.flow(OBJECT, number)  # what has weights is a model
            return own
        return own + (self.ask(inner) if name in WEIGHT_NAMES else self.part(inner))

    # ---- operators

    def binary(self, node: ast.BinOp, scope: Scope) -> Nodes:
        found = self.value(node.left, scope) + self.value(node.right, scope)
        if isinstance(node.op, ast.FloorDiv):
            self.place(found)
        return found

    def unary(self, node: ast.UnaryOp, scope: Scope) -> Nodes:
        return self.value(node.operand, scope)

    def boolean(self, node: ast.BoolOp, scope: Scope) -> Nodes:
        return self.all_of(node.values, scope)

    def comparison(self, node: ast.Compare, scope: Scope) -> Nodes:
        left = self.value(node.left, scope)
        right = self.all_of(node.comparators, scope)
        operator = node.ops[0]
        if isinstance(operator, (ast.Is, ast.IsNot)) or _is_text(node.left) or _is_text(node.comparators[0]):
            return NOTHING
        return self.compare(left if isinstance(operator, (ast.In, ast.NotIn)) else left + right)

    def conditional(self, node: ast.IfExp, scope: Scope) -> Nodes:
        self.decide(node.test, scope)
        return self.value(node.body, scope) + self.value(node.orelse, scope)

    # ---- containers

    def all_of(self, nodes: list[ast.expr], scope: Scope) -> Nodes:
        found: Nodes = NOTHING
        for node in nodes:
            found += self.value(node, scope)
        return found

    def subscript(self, node: ast.Subscript, scope: Scope) -> Nodes:
        base = self.value(node.value, scope)
        by = self.value(node.slice, scope)
        self.place(by, base, CARRIES)
        self.place(by, bits=CHOICE)
        return self.element(base)

    def sliced(self, node: ast.Slice, scope: Scope) -> Nodes:
        return self.all_of([part for part in (node.lower, node.upper, node.step) if part is not None], scope)

    def sequence(self, node: ast.Tuple | ast.List | ast.Set, scope: Scope) -> Nodes:
        parts = tuple(self.value(element, scope) for element in node.elts)
        found = self.contain(sum(parts, NOTHING))
        if found and not any(isinstance(element, ast.Starred) for element in node.elts):
            self.tuples[found[0]] = parts
        return found

    def mapping(self, node: ast.Dict, scope: Scope) -> Nodes:
        keys = self.all_of([key for key in node.keys if key is not None], scope)
        return self.contain(keys + self.all_of(node.values, scope))

    def starred(self, node: ast.Starred, scope: Scope) -> Nodes:
        return self.element(self.value(node.value, scope))

    def walrus(self, node: ast.NamedExpr, scope: Scope) -> Nodes:
        value = self.value(node.value, scope)
        self.bind(node.target, value, scope)
        return value

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope) -> Nodes:
        return self.contain(self.value(node.elt, self.generators(node.generators, scope)))

    def dict_comprehension(self, node: ast.DictComp, scope: Scope) -> Nodes:
        inner = self.generators(node.generators, scope)
        return self.contain(self.value(node.key, inner) + self.value(node.value, inner))

    def generators(self, generators: list[ast.comprehension], scope: Scope) -> Scope:
        inner = Scope(parent=scope, me=scope.me)
        for part in generators:
            self.iterate(part.target, part.iter, inner)
            for test in part.ifs:
                self.decide(test, inner)
        return inner

    def iterate(self, target: ast.expr, over: ast.expr, scope: Scope) -> None:
        """Binds what a loop gives out: the numbers of `enumerate` carry nothing, `zip` gives each its own."""
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and isinstance(target, ast.Tuple):
            name, targets = over.func.id, target.elts
            if name == "enumerate" and len(targets) == 2 and over.args:
                self.bind(targets[0], NOTHING, scope)
                self.iterate(targets[1], over.args[0], scope)
                return
            if name == "zip" and len(targets) == len(over.args):
                for part, argument in zip(targets, over.args, strict=True):
                    self.iterate(part, argument, scope)
                return
        self.bind(target, self.element(self.value(over, scope)), scope)

    # ---- functions

    def lambda_(self, node: ast.Lambda, scope: Scope, given: Nodes = ANYTHING) -> Nodes:
        inner = Scope(parent=scope, me=scope.me)
        spec = node.args
        more = [a for a in (spec.vararg, spec.kwarg) if a is not None]
        for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *more):
            inner.names[argument.arg] = number = self.new()
            self.flow(given, number)
            for default in (*spec.defaults, *(d for d in spec.kw_defaults if d is not None)):
                self.flow(self.value(default, scope), number)
        return self.value(node.body, inner)

    def yielded(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> Nodes:
        if node.value is not None and self.running is not None:
            self.flow(self.contain(self.value(node.value, scope)), self.running.result)
        return NOTHING

    def awaited(self, node: ast.Await, scope: Scope) -> Nodes:
        return self.value(node.value, scope)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (str, bytes)))


_HANDLERS: dict[type, Callable[..., Nodes]] = {
    ast.Name: Expressions.name,
    ast.Attribute: Expressions.attribute_of,
    ast.Call: Expressions.call,
    ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary,
    ast.BoolOp: Expressions.boolean,
    ast.Compare: Expressions.comparison,
    ast.IfExp: Expressions.conditional,
    ast.Subscript: Expressions.subscript,
    ast.Slice: Expressions.sliced,
    ast.Tuple: Expressions.sequence,
    ast.List: Expressions.sequence,
    ast.Set: Expressions.sequence,
    ast.Dict: Expressions.mapping,
    ast.Starred: Expressions.starred,
    ast.NamedExpr: Expressions.walrus,
    ast.Lambda: Expressions.lambda_,
    ast.ListComp: Expressions.comprehension,
    ast.SetComp: Expressions.comprehension,
    ast.GeneratorExp: Expressions.comprehension,
    ast.DictComp: Expressions.dict_comprehension,
    ast.Yield: Expressions.yielded,
    ast.YieldFrom: Expressions.yielded,
    ast.Await: Expressions.awaited,
}
