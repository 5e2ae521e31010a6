"""Calls: of the file's own functions and classes, of operations known by name, of anything else."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tapefix.flow.libraries.operations import COMPARISONS, PLAIN_METHODS, PLAIN_PREFIXES, SELECTING
from tapefix.flow.worth.sketch.binding import Binding
from tapefix.flow.worth.sketch.definitions import Function, Scope
from tapefix.flow.worth.sketch.names import (
    CALLS,
    DATASETS_RUN,
    LOOK_UP,
    LOSES,
    MAKES_LAYERS,
    MAKES_WEIGHTS,
    MAY_LOSE,
    MODEL_METHODS,
    NUMBERS,
    PLAIN_CALLS,
    QUESTIONS,
    RANDOM,
    RUN_LATER,
    TELLING_METHODS,
    WRITES,
)
from tapefix.flow.worth.sketch.nodes import (
    ANYTHING,
    CARRIES,
    CHANCE,
    CHOICE,
    CUTTER,
    HOLDS,
    LOSABLE,
    NOTHING,
    OBJECT,
    TENSOR,
    Nodes,
)
from tapefix.flow.worth.vocabulary import TRUTHS

_TRUTHS_TYPES = frozenset(f"{name}.dtype" for name in TRUTHS)
_NAMES = (ast.Name, ast.Attribute, ast.Subscript)


@dataclass(eq=False)
class Given:
    """The arguments of a call."""

    node: ast.Call
    args: list[Nodes]
    named: list[tuple[str | None, Nodes]]
    everything: Nodes = NOTHING

    def __post_init__(self) -> None:
        for nodes in self.args:
            self.everything += nodes
        for _, nodes in self.named:
            self.everything += nodes

    def at(self, i: int, keyword: str) -> Nodes:
        found = self.args[i] if i < len(self.args) else NOTHING
        for name, nodes in self.named:
            if name == keyword:
                found += nodes
        return found

    @property
    def spread_out(self) -> bool:
        return any(isinstance(a, ast.Starred) for a in self.node.args) or any(k is None for k, _ in self.named)


@dataclass
class Calls(Binding):
    cutting: frozenset[str] = frozenset()  # functions of other modules that may lose a gradient
    away: frozenset[str] = frozenset()  # names of other libraries
    always: set[int] = field(default_factory=set)  # rows of functions that are looked at in any case
    layer_calls: list[tuple[str, Given, int]] = field(default_factory=list)  # of attributes that may be layers
    handed: list[tuple[Nodes, int]] = field(default_factory=list)  # from a caller to a layer of this file

    def attribute_of(self, node: ast.Attribute, scope: Scope) -> Nodes:
        raise NotImplementedError

    def lambda_(self, node: ast.Lambda, scope: Scope, given: Nodes = ANYTHING) -> Nodes:
        raise NotImplementedError

    def call(self, node: ast.Call, scope: Scope) -> Nodes:
        handed: list[ast.expr] = []
        args = [self.argument(a, scope, handed) for a in node.args]
        named = [(k.arg, self.argument(k.value, scope, handed)) for k in node.keywords]
        given = Given(node, args, named)
        func = node.func
        extra = self.hand_on(handed, given, scope) if handed else NOTHING
        if isinstance(func, ast.Name):
            return self.call_name(func.id, given, scope) + extra
        if isinstance(func, ast.Attribute):
            return self.call_attribute(func, given, scope) + extra
        return self.call_value(self.value(func, scope), given) + extra

    def call_value(self, callee: Nodes, given: Given) -> Nodes:
        """A call of something that is not known by name."""
        if callee and given.everything:
            self.place(given.everything, by=callee)
        return self.ask(given.everything + callee)

    def loses(self, name: str) -> bool:
        """A function that loses gradients, by its own name or the one it was imported by."""
        return any(one in LOSES or one in self.cutting for one in (name, self.called.get(name, "")))

    # ---- functions as arguments

    def argument(self, node: ast.expr, scope: Scope, handed: list[ast.expr]) -> Nodes:
        if isinstance(node, ast.Lambda):
            handed.append(node)
            return NOTHING
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in self.functions and not (isinstance(node, ast.Attribute) and self.is_property(name)):
            handed.append(node)
            return NOTHING
        if name and (self.loses(name) or root_of(node) in self.away):
            handed.append(node)
        return self.value(node, scope)

    def hand_on(self, handed: list[ast.expr], given: Given, scope: Scope) -> Nodes:
        """Functions given to a call are run on what else it is given; what they return may come of it."""
        func = given.node.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        again = self.new()  # a loop gives them what they have returned
        run_on = ANYTHING if name in RUN_LATER else self.element((*given.everything, again))
        found: Nodes = NOTHING
        for function in handed:
            if isinstance(function, ast.Lambda):
                found += self.lambda_(function, scope, run_on)
                continue
            called = function.attr if isinstance(function, ast.Attribute) else function.id  # type: ignore[attr-defined]
            if called not in self.functions:
                self.place(given.everything)
                found += CUTTER if name in RUN_LATER else NOTHING
            for known in self.functions.get(called, ()):
                for _, number in known.parameters[known.bound :]:
                    self.flow(run_on, number)
                self.flow(run_on, known.rest)
                found += (known.result,)
        self.flow(found, again)
        if name in DATASETS_RUN or self.loses(name):
            self.place(found)
        return found

    # ---- by name

    def call_name(self, name: str, given: Given, scope: Scope) -> Nodes:
        if name in self.functions or name in self.classes:
            return self.call_own(name, given, NOTHING)
        if name == "getattr" and len(given.args) > 1 and isinstance(given.node.args[1], ast.Constant):
            asked = ast.Attribute(given.node.args[0], str(given.node.args[1].value), ast.Load())
            return self.attribute_of(asked, scope) + sum(given.args[2:], NOTHING)
        if name in NUMBERS:
            self.place(given.everything, bits=CARRIES | CHOICE)
            return NOTHING
        if name in self.away:
            return self.leave(name, given)
        if name in PLAIN_CALLS:
            return NOTHING
        name = self.called.get(name, name)
        known = self.operation(name, given, given.everything)
        if known is not None:
            return known
        if name == scope.me and self.running is not None and self.running.owner is not None:
            self.fill_fields(self.running.owner, given)  # a class method that makes an object
        if name in ("list", "tuple", "dict", "set", "sorted", "reversed", "iter", "zip", "enumerate", "next", "filter"):
            return given.everything
        if name.startswith(PLAIN_PREFIXES):
            return self.part(given.everything)
        return self.call_value(self.load(name, scope), given)

    def leave(self, name: str, given: Given) -> Nodes:
        """A call of another library: an array comes of it."""
        self.place(given.everything)
        return self.ask(given.everything) + CUTTER + (CHANCE if name in RANDOM else NOTHING)

    def call_attribute(self, func: ast.Attribute, given: Given, scope: Scope) -> Nodes:
        name, base = func.attr, func.value
        root = root_of(base)
        if root in self.modules and scope.find(root) is None:
            if root in self.away:
                return self.leave(name, given)
            if name in PLAIN_CALLS or (isinstance(base, ast.Attribute) and base.attr == "summary"):
                return NOTHING
            if not LOSES.isdisjoint(parts_of(base)):  # `keras.metrics.binary_accuracy`
                self.place(given.everything)
            known = self.operation(name, given, given.everything)
            return self.ask(given.everything) if known is None else known
        if name in DATASETS_RUN:
            self.place(given.everything, bits=LOSABLE | HOLDS)
        me = self.is_me(base, scope)
        owner = NOTHING if me else self.value(base, scope)
        if name in TELLING_METHODS:
            return NOTHING
        if name in MODEL_METHODS:
            for number in owner:
                self.flow(OBJECT, number)
        if name in WRITES or name.startswith("scatter"):
            self.place(given.everything)
        found = self.call_own(name, given, owner) if name in self.functions else NOTHING
        if not found and (name in PLAIN_CALLS or (name.startswith(QUESTIONS) and not me)):
            return NOTHING
        if given.everything and not me:
            self.store(base, given.everything, scope)
        if name in WRITES:
            return owner + found
        if name in PLAIN_METHODS and not found and not me:
            return self.element(owner + given.everything)
        if me:
            return found + self.call_mine(name, given, bool(found))
        if given.everything and owner:
            self.place(given.everything, by=owner)
        known = self.operation(name, given, owner + given.everything)
        if known is not None:
            return known + found
        if name.startswith(PLAIN_PREFIXES):
            return found + self.part(owner) + self.ask(given.everything)
        return found + self.ask(given.everything + owner)

    def call_mine(self, name: str, given: Given, known: bool) -> Nodes:
        """A call through the object's own attribute: a method, a layer, or what a class further up defines."""
        if name in MAKES_WEIGHTS:
            return self.makes_weights(name, given.everything)
        if known:
            return NOTHING
        if (name in LOSES and self.layered) or name in self.cutting:
            self.place(given.everything)
        result = self.new()
        self.layer_calls.append((name, given, result))
        callee = (self.attribute(name),)
        self.place(given.everything, by=callee)
        return (result, *self.ask(callee), *self.ask(given.everything))

    # ---- operations

    def operation(self, name: str, given: Given, values: Nodes) -> Nodes | None:
        """What comes of an operation that is known by its name; None for one that is not."""
        if name in MAKES_WEIGHTS:
            return self.makes_weights(name, values)
        if name in MAKES_LAYERS and not self.making and self.row:
            self.always.add(self.row)
        if name in RANDOM:
            return self.ask(values) + CHANCE
        if name in COMPARISONS:
            return self.compare(values)
        if name in SELECTING:
            return self.select(name, given, values)
        if name in LOSES:
            self.place(values, bits=LOSABLE | HOLDS)
            return self.ask(values)
        if name in MAY_LOSE:
            self.may_lose(name, given)
            return values if name != "cast" else self.ask(values)
        if name in self.cutting:
            self.place(values)
            return self.ask(values) + OBJECT
        if name[:1].isupper():
            return OBJECT + self.contain(values) + (CUTTER if name in LOOK_UP else NOTHING)
        return None

    def makes_weights(self, name: str, values: Nodes) -> Nodes:
        if name != "add_weight" and not self.making and self.row:
            self.always.add(self.row)
        self.place(values, bits=CARRIES | CHOICE)
        return TENSOR

    def select(self, name: str, given: Given, values: Nodes) -> Nodes:
        """A part of other arguments: the one that says which loses its gradient, if nothing else has one."""
        by = given.at(*SELECTING[name])
        rest = tuple(number for number in values if number not in by)
        self.place(by, rest)
        self.place(by, bits=CHOICE)
        return rest

    def may_lose(self, name: str, given: Given) -> None:
        if name not in ("cast", "convert_image_dtype"):
            self.place(given.everything)
            return
        node = given.node
        kind = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "dtype"), None)
        text = ast.unparse(kind) if kind is not None else ""
        if "int" in text or "bool" in text or text in _TRUTHS_TYPES:
            self.place(given.everything)
        else:
            self.place(self.choices(given.everything))

    # ---- the file's own

    def call_own(self, name: str, given: Given, owner: Nodes) -> Nodes:
        found: Nodes = NOTHING
        for function in self.functions.get(name, ()):
            if function.bound and owner:
                self.flow(owner, function.parameters[0][1])
            self.pass_arguments(function, given)
            found += (function.result,)
        if name in self.classes:
            for init in self.functions.get("__init__", ()):
                if init.owner is not None and init.owner.name == name:
                    self.pass_arguments(init, given)
            for owner_class in self.classes[name]:
                self.fill_fields(owner_class, given)
            found += OBJECT + self.contain(given.everything)
        return found

    def fill_fields(self, owner: ast.ClassDef, given: Given) -> None:
        """A dataclass or named tuple is made: its fields are given values in their order, or by name."""
        fields = [n.target.id for n in owner.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        for field_name, value in zip(fields, given.args, strict=False):
            self.flow(value, self.attribute(field_name))
        for keyword, value in given.named:
            if keyword in fields:
                self.flow(value, self.attribute(keyword))

    def pass_arguments(self, function: Function, given: Given, apart: bool = False) -> None:
        """`apart`: a layer of the file is called, which is looked at by itself as well."""
        first = int(function.bound)
        if given.spread_out:
            for number in (*(n for _, n in function.parameters[first:]), function.rest):
                self.give(given.everything, number, None, apart)
            return
        by_name = dict(function.parameters)
        node = given.node
        for i, value in enumerate(given.args):
            at = i + first
            number = function.parameters[at][1] if at < len(function.parameters) else function.rest
            self.give(value, number, node.args[i], apart)
        for keyword, (name, value) in zip(node.keywords, given.named, strict=True):
            self.give(value, by_name.get(name or "", function.rest), keyword.value, apart)

    def give(self, value: Nodes, number: int, origin: ast.expr | None, apart: bool) -> None:
        if apart:
            self.handed.append((value, number))
            return
        self.flow(value, number)
        if isinstance(origin, _NAMES):
            self.aliases += [(node, number) for node in value]

    def call_layers(self) -> None:
        """Layers of this file behind attributes that are called: known when the whole file is."""
        for name, given, result in self.layer_calls:
            origin = self.origins.get(name)
            for function in (f for called in CALLS for f in self.functions.get(called, ())):
                if function.owner is None or origin is None:
                    continue
                if origin.unknown or function.owner.name in origin.classes:
                    self.pass_arguments(function, given, apart=True)
                    self.flow((function.result,), result)


def root_of(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def parts_of(node: ast.expr) -> list[str]:
    """The names in a dotted name, last first."""
    found = []
    while isinstance(node, ast.Attribute):
        found.append(node.attr)
        node = node.value
    return found
