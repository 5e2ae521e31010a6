"""Names, attributes and what is put into objects."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tapefix.flow.syntax import nodes_of
from tapefix.flow.worth.sketch.definitions import Definitions, Function, Scope
from tapefix.flow.worth.sketch.names import WEIGHTS
from tapefix.flow.worth.sketch.nodes import ANYTHING, KEEPS, NOBODY, NOTHING, Nodes, Place

_NAMES = (ast.Name, ast.Attribute, ast.Subscript)


@dataclass
class Origin:
    """What is behind an attribute that is called: classes of this file, or something else."""

    classes: set[str] = field(default_factory=set)
    unknown: bool = False


@dataclass
class Binding(Definitions):
    attributes: dict[str, int] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    pending: list[tuple[Scope, str, int]] = field(default_factory=list)  # names that are bound further down, or nowhere
    tuples: dict[int, tuple[Nodes, ...]] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    called: dict[str, str] = field(default_factory=dict)  # what an imported name is called where it is from
    row: int = 0  # of the outermost function around what is looked at
    running: Function | None = None
    making: bool = False
    layered: bool = True  # the class around it may be a layer or model

    def value(self, node: ast.expr, scope: Scope) -> Nodes:
        raise NotImplementedError

    def place(self, of: Nodes, unless: Nodes = NOTHING, bits: int = 0, by: Nodes = NOTHING) -> None:
        if of:
            self.places.append(Place(self.row, of, unless, bits, by) if bits else Place(self.row, of, unless, by=by))

    # ---- names

    def variable(self, name: str, scope: Scope) -> int:
        found = scope.names.get(name)
        if found is None:
            found = scope.names[name] = self.new()
        return found

    def load(self, name: str, scope: Scope) -> Nodes:
        found = scope.find(name)
        if found is not None:
            return (found,)
        if name in self.modules:
            return NOTHING
        number = self.new()
        self.pending.append((scope, name, number))
        return (number,)

    def attribute(self, name: str) -> int:
        found = self.attributes.get(name)
        if found is None:
            found = self.attributes[name] = self.new(KEEPS if name in WEIGHTS else 0)
        return found

    def is_me(self, node: ast.expr, scope: Scope) -> bool:
        return type(node) is ast.Name and node.id == scope.me and bool(scope.me)

    # ---- assignment

    def bind(self, target: ast.expr, value: Nodes, scope: Scope, origin: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            self.name_it(self.variable(target.id, scope), value, origin)
        elif isinstance(target, ast.Attribute):
            self.name_it(self.attribute(target.attr), value, origin)
            self.remember(target.attr, origin)
            if not self.is_me(target.value, scope):
                self.store(target.value, value, scope)
        elif isinstance(target, ast.Subscript):
            self.value(target.slice, scope)
            if value:
                self.place(value, by=self.value(target.value, scope) or NOBODY)
            self.store(target.value, value, scope)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, self.contain(value), scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target.elts, value, scope)

    def name_it(self, number: int, value: Nodes, origin: ast.expr | None) -> None:
        self.flow(value, number)
        if isinstance(origin, _NAMES):
            self.aliases += [(node, number) for node in value]

    def unpack(self, targets: list[ast.expr], value: Nodes, scope: Scope) -> None:
        if any(isinstance(target, ast.Starred) for target in targets):
            inner = self.element(value)
            for target in targets:
                self.bind(target, inner, scope)
            return
        for i, target in enumerate(targets):
            self.bind(target, self.item(value, len(targets), i), scope)

    def item(self, value: Nodes, count: int, i: int) -> Nodes:
        """One of the values that something is unpacked into."""
        found: Nodes = NOTHING
        rest: Nodes = NOTHING
        for number in value:
            known = self.tuples.get(number)
            if known is not None and len(known) == count:
                found += known[i]
            elif number in self.results:
                parts = self.results[number].parts
                if (count, i) not in parts:
                    parts[count, i] = self.new()
                found += (parts[count, i],)
            else:
                rest += (number,)
        return found + self.element(rest)

    def remember(self, name: str, origin: ast.expr | None) -> None:
        """Of which class an attribute is, if it is made right there."""
        known = self.origins.setdefault(name, Origin())
        if isinstance(origin, ast.Call):
            func = origin.func
            called = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
            if called in self.classes:
                known.classes.add(called)
                return
            if called[:1].isupper() and self.classes.keys().isdisjoint(
                node.id for node in nodes_of(origin) if isinstance(node, ast.Name)
            ):
                return
        elif isinstance(origin, ast.Constant):
            return
        known.unknown = True

    def store(self, base: ast.expr, value: Nodes, scope: Scope) -> None:
        """Values are put into what an expression stands for."""
        while value:
            if isinstance(base, ast.Name):
                if not self.is_me(base, scope):
                    for number in self.load(base.id, scope):
                        self.put(value, number)
                return
            if isinstance(base, ast.Attribute):
                self.put(value, self.attribute(base.attr))
                return
            if isinstance(base, (ast.Subscript, ast.Starred)):
                base = base.value
            elif isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
                base = base.func.value
            else:
                return

    # ---- functions that are handed on

    def escape(self, name: str) -> None:
        """Whoever gets the function may give it anything."""
        for function in self.functions[name]:
            if not function.escaped:
                function.escaped = True
                for _, number in function.parameters[function.bound :]:
                    self.flow(ANYTHING, number)
                self.flow(ANYTHING, function.rest)

    # ---- at the end

    def settle(self) -> None:
        for scope, name, number in self.pending:
            found = scope.find(name)
            if found is not None:
                self.flow((found,), number)
                self.aliases.append((found, number))
        for function in list(self.results.values()):
            for (count, i), number in list(function.parts.items()):
                for value in function.returned:
                    self.flow(self.item(value, count, i), number)
        self.share()
