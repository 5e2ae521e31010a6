"""The functions and classes of a file, and the scopes in which its names are looked up."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tapefix.flow.worth.outline import LAYER_BASES
from tapefix.flow.worth.sketch.names import CALLS
from tapefix.flow.worth.sketch.nodes import CARRIES, HOLDS, Graph, Nodes

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_LAYERED = re.compile(LAYER_BASES.pattern.decode())


@dataclass(eq=False)
class Scope:
    """Where names are bound. `me` is what a method calls its object."""

    names: dict[str, int] = field(default_factory=dict)
    parent: Scope | None = None
    me: str = ""

    @property
    def top(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def find(self, name: str) -> int | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


@dataclass(eq=False)
class Function:
    """A function's parameters (name, node) in order, what `*` and `**` take, and its result."""

    node: FunctionNode
    row: int  # of the outermost function around it
    owner: ast.ClassDef | None
    parameters: list[tuple[str, int]]
    rest: int
    result: int
    scope: Scope
    bound: bool  # its first parameter is its object
    escaped: bool = False
    returned: list[Nodes] = field(default_factory=list)
    parts: dict[tuple[int, int], int] = field(default_factory=dict)  # (of how many, which) -> node


@dataclass
class Definitions(Graph):
    """Everything a file defines, by name: names stand for all that is called so."""

    functions: dict[str, list[Function]] = field(default_factory=dict)
    classes: dict[str, list[ast.ClassDef]] = field(default_factory=dict)
    by_node: dict[ast.AST, Function] = field(default_factory=dict)
    results: dict[int, Function] = field(default_factory=dict)

    def collect(self, body: Sequence[ast.stmt], scope: Scope, owner: ast.ClassDef | None, row: int) -> None:
        """Takes note of every function and class before anything that may mention them."""
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.define(node, scope, owner, row or node.lineno)
            elif isinstance(node, ast.ClassDef):
                self.classes.setdefault(node.name, []).append(node)
                self.collect(node.body, Scope(parent=scope), node, row)
            else:
                for name in ("body", "orelse", "finalbody", "cases", "handlers"):
                    inner = getattr(node, name, None)
                    if not inner:
                        continue
                    if name in ("cases", "handlers"):
                        for part in inner:
                            self.collect(part.body, scope, owner, row)
                    else:
                        self.collect(inner, scope, owner, row)

    def define(self, node: FunctionNode, scope: Scope, owner: ast.ClassDef | None, row: int) -> None:
        inner = Scope(parent=scope)
        spec = node.args
        parameters = [(a.arg, self.new()) for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        inner.names.update(parameters)
        rest = self.new()
        for more in (spec.vararg, spec.kwarg):
            if more is not None:
                inner.names[more.arg] = rest
        bound = owner is not None and bool(parameters) and not _is_static(node)
        if bound:
            inner.me = parameters[0][0]
            self.bits[parameters[0][1]] = HOLDS
        function = Function(node, row, owner, parameters, rest, self.new(), inner, bound)
        self.functions.setdefault(node.name, []).append(function)
        self.by_node[node] = self.results[function.result] = function
        self.collect(node.body, inner, None, row)

    def seed(self) -> None:
        """What a layer is given carries a gradient, and so does what a loss is given as the prediction."""
        for name, functions in self.functions.items():
            for function in functions:
                names = [parameter for parameter, _ in function.parameters]
                if function.owner is not None and name in CALLS and "y_pred" not in names:
                    at = 2 if _is_loss_class(function.owner) else 1
                elif "y_pred" in names:
                    at = names.index("y_pred")
                elif "loss" in name.lower():
                    at = 1 + function.bound
                else:
                    continue
                for _, number in function.parameters[at : at + 1]:
                    self.bits[number] |= CARRIES

    def is_property(self, name: str) -> bool:
        return any(
            isinstance(decorator, ast.Name) and decorator.id not in ("staticmethod", "classmethod")
            for function in self.functions[name]
            for decorator in function.node.decorator_list
        )


def may_be_layer(owner: ast.ClassDef) -> bool:
    """A class by whose bases it may be a layer or model, or that has none in sight."""
    return not owner.bases or any(_LAYERED.search(ast.unparse(base)) for base in owner.bases)


def _is_loss_class(owner: ast.ClassDef) -> bool:
    return "Loss" in owner.name or any("Loss" in ast.unparse(base) for base in owner.bases)


def _is_static(node: FunctionNode) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
