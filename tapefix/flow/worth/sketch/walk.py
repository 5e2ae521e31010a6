"""Statements, and the answer for a whole file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapefix.flow.worth.sketch.definitions import FunctionNode, Scope, may_be_layer
from tapefix.flow.worth.sketch.expressions import Expressions
from tapefix.flow.worth.sketch.names import MAKING, TELLING_METHODS


@dataclass(frozen=True)
class Losing:
    """The rows of functions (0: the module's own code) that may lose what carries a gradient.

    `called` are those that only do because of what another layer of the file gives them.
    """

    alone: frozenset[int]
    called: frozenset[int]


def losing_rows(tree: ast.Module, cutting: frozenset[str], away: frozenset[str], imported: dict[str, str]) -> Losing:
    """What a file's functions may lose.

    `cutting`: names of functions in other modules that may lose a gradient; `away`: names by which other numeric
    libraries are called here; `imported`: all other names that are imported, and what they are called where they are
    from ("" for a module).
    """
    walk = Walk(cutting=cutting, away=away, modules=away | imported.keys(), called=imported)
    scope = Scope()
    walk.collect(tree.body, scope, None, 0)
    walk.seed()
    walk.run(tree.body, scope)
    walk.call_layers()
    walk.settle()
    walk.spread()
    alone = walk.losing() | walk.always
    for value, number in walk.handed:
        walk.flow(value, number)
    walk.spread()
    return Losing(frozenset(alone), frozenset(walk.losing() - alone))


@dataclass
class Walk(Expressions):
    def run(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        for node in body:
            handler = _HANDLERS.get(type(node))
            if handler is not None:
                handler(self, node, scope)

    def expression(self, node: ast.Expr, scope: Scope) -> None:
        self.value(node.value, scope)

    def assign(self, node: ast.Assign, scope: Scope) -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.bind(target, value, scope, node.value)

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value, scope), scope, node.value)

    def augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        value = self.value(node.value, scope)
        if isinstance(node.op, ast.FloorDiv):
            self.place(value + self.value(node.target, scope))
        self.bind(node.target, value, scope)

    def returned(self, node: ast.Return, scope: Scope) -> None:
        if node.value is not None and self.running is not None:
            value = self.value(node.value, scope)
            self.flow(value, self.running.result)
            self.running.returned.append(value)

    def chosen(self, node: ast.If | ast.While, scope: Scope) -> None:
        self.decide(node.test, scope)
        self.run(node.body, scope)
        self.run(node.orelse, scope)

    def looped(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self.iterate(node.target, node.iter, scope)
        self.run(node.body, scope)
        self.run(node.orelse, scope)

    def managed(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, scope)
        self.run(node.body, scope)

    def tried(self, node: ast.Try, scope: Scope) -> None:
        self.run(node.body, scope)
        for handler in node.handlers:
            self.run(handler.body, scope)
        self.run(node.orelse, scope)
        self.run(node.finalbody, scope)

    def matched(self, node: ast.Match, scope: Scope) -> None:
        value = self.value(node.subject, scope)
        self.place(value)
        for case in node.cases:
            for inner in ast.walk(case.pattern):
                name = getattr(inner, "name", None)
                if isinstance(name, str):
                    self.flow(self.element(value), self.variable(name, scope))
            if case.guard is not None:
                self.decide(case.guard, scope)
            self.run(case.body, scope)

    def asserted(self, node: ast.Assert, scope: Scope) -> None:
        self.value(node.test, scope)

    def globally(self, node: ast.Global, scope: Scope) -> None:
        for name in node.names:
            scope.names[name] = self.variable(name, scope.top)

    def nonlocally(self, node: ast.Nonlocal, scope: Scope) -> None:
        for name in node.names:
            found = scope.parent.find(name) if scope.parent is not None else None
            if found is not None:
                scope.names[name] = found

    def function(self, node: FunctionNode, scope: Scope) -> None:
        function = self.by_node[node]
        spec = node.args
        positional = [*spec.posonlyargs, *spec.args]
        defaults = [*zip(reversed(positional), reversed(spec.defaults), strict=False)]
        defaults += [(a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None]
        for argument, default in defaults:
            self.flow(self.value(default, scope), function.scope.names[argument.arg])
        if function.owner is not None and node.name in TELLING_METHODS:
            return
        saved = self.row, self.running, self.making, self.layered
        self.making = node.name in MAKING or (self.making and self.row != 0)
        self.row, self.running = function.row, function
        if function.owner is not None:
            self.layered = may_be_layer(function.owner)
        self.run(node.body, function.scope)
        self.row, self.running, self.making, self.layered = saved

    def class_(self, node: ast.ClassDef, scope: Scope) -> None:
        inner = Scope(parent=scope)
        self.run(node.body, inner)
        for name, number in inner.names.items():
            self.flow((number,), self.attribute(name))


_HANDLERS: dict[type, Callable[..., None]] = {
    ast.Expr: Walk.expression,
    ast.Assign: Walk.assign,
    ast.AnnAssign: Walk.annotated,
    ast.AugAssign: Walk.augmented,
    ast.Return: Walk.returned,
    ast.If: Walk.chosen,
    ast.While: Walk.chosen,
    ast.For: Walk.looped,
    ast.AsyncFor: Walk.looped,
    ast.With: Walk.managed,
    ast.AsyncWith: Walk.managed,
    ast.Try: Walk.tried,
    ast.Match: Walk.matched,
    ast.Assert: Walk.asserted,
    ast.Global: Walk.globally,
    ast.Nonlocal: Walk.nonlocally,
    ast.FunctionDef: Walk.function,
    ast.AsyncFunctionDef: Walk.function,
    ast.ClassDef: Walk.class_,
}
if hasattr(ast, "TryStar"):
    _HANDLERS[ast.TryStar] = Walk.tried
