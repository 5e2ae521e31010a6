"""Calls of functions, methods and lambdas of the program, and of what nobody knows."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from tapefix.flow.facts import How
from tapefix.flow.interpreter.attributes import Attributes
from tapefix.flow.interpreter.core import Frame
from tapefix.flow.objects import Api, Bound, Function, Generator, Instance, Layer, Mapping, Method, Sequence
from tapefix.flow.scope import Scope, argument_names
from tapefix.flow.values import (
    ANY_TAPE,
    MISSING,
    NO_LOST,
    NONE,
    NUMERIC,
    UNKNOWN,
    Kind,
    Lost,
    Source,
    Value,
    is_numeral,
    join_all,
)

MOST_RUNS = 24  # of one function in one document


@dataclass
class Arguments:
    """The evaluated arguments of a call."""

    args: list[Value]
    keywords: dict[str, Value]
    nodes: list[ast.expr] = field(default_factory=list)

    def get(self, position: int, *names: str) -> Value | None:
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.args[position] if position is not None and 0 <= position < len(self.args) else None

    @property
    def all(self) -> list[Value]:
        return [*self.args, *self.keywords.values()]


MOST_CALL_DEPTH = 14


def told_apart(value: Value) -> Any:
    """What a cache tells an argument by: equal constants are one, and so is all that is not known."""
    return value.const if value.const is not MISSING else value.ref


class Calls(Attributes):
    """Calls functions."""

    def eval_Call(self, node: ast.Call) -> Value:
        function = self.eval(node.func)
        given = self.arguments(node)
        return self.call(function, given, node)

    def arguments(self, node: ast.Call) -> Arguments:
        args: list[Value] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args += self.iterate_items(self.eval(arg.value))
            else:
                args.append(self.eval(arg))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is None:
                for ref in value.refs:
                    if isinstance(ref, Mapping):
                        keywords.update({k: v for k, v in ref.items.items() if isinstance(k, str)})
            else:
                keywords[keyword.arg] = value
        return Arguments(args, keywords, [a.value if isinstance(a, ast.Starred) else a for a in node.args])

    def call(self, function: Value, given: Arguments, node: ast.Call | ast.AST) -> Value:
        if id(function) in self.left_out:
            _, test, lost = self.left_out[id(function)]
            value = self.call(function.with_(), given, node)
            # what goes in is there without it, too
            tags = lost | self.exclusive(value, self.carry(node, given.all), test, How.PREDICATE)
            return self.tag_inside(value, tags) if tags else value
        if function.alts and function.ref is None:
            results = [self.call(alt, given, node) for alt in function.alts]
            value = join_all(results)
            tags = function.lost
            for chosen, test in self.choices:
                if chosen is function:
                    for other in results[1:]:
                        tags |= self.exclusive(results[0], other, test, How.PREDICATE)
            return self.tag_inside(value, tags) if tags else value
        if function.lost and not function.kind & NUMERIC:
            plain = function.with_(lost=NO_LOST)
            return self.tag_inside(self.call(plain, given, node), function.lost)
        ref = function.ref
        handler = self.callers[type(ref)]
        if handler is None:
            return self.call_unknown(function, given, node)
        result: Value = handler(function, ref, given, node)
        return result

    def call_Function(self, value: Value, function: Function, given: Arguments, node: ast.AST) -> Value:
        return self.call_function(function, given.args, given.keywords, node)

    def call_Bound(self, value: Value, bound: Bound, given: Arguments, node: ast.AST) -> Value:
        merged = Arguments([*bound.args, *given.args], {**bound.keywords, **given.keywords}, [])
        return self.call(bound.function, merged, node)

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.AST, fresh: bool = False
    ) -> Value:
        if function.is_generator:
            return Value(Kind.CONTAINER, ref=Generator(function, tuple(args), keywords), node=node)
        if function.kept is None:
            return self.run_function(function, args, keywords, node)
        key = tuple(told_apart(value) for value in [*args, *keywords.values()])
        if key not in function.kept:
            function.kept[key] = self.run_function(function, args, keywords, node)
            self.stores += 1  # the next call is given what this one computed, under another tape perhaps
        return function.kept[key]

    def next_of(self, generator: Generator, node: ast.AST) -> Value:
        """An element, for which the body runs under the tapes that are open now."""
        key = (*map(id, self.tapes), self.stores)
        if key not in generator.given:
            generator.given[key] = UNKNOWN  # one that asks for itself
            made = self.run_function(generator.function, list(generator.args), generator.keywords, node)
            generator.given[key] = made.ref.element() if isinstance(made.ref, Sequence) else made
        return generator.given[key]

    def exhaust(self, value: Value, node: ast.AST) -> Value:
        """Runs the body of a generator whose consumer is not known, under whatever tape that has open."""
        if isinstance(value.ref, Generator):
            saved, self.tapes = self.tapes, [*self.tapes, ANY_TAPE]
            try:
                self.next_of(value.ref, node)
            finally:
                self.tapes = saved
        return value

    def run_function(self, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        depth = sum(1 for f in self.frames if f.function is function)
        if function.runs > MOST_RUNS and function.last is not None and not self.whole(function.last).tainted:
            return function.last  # a helper that gave nothing of value so many times: sizes, flags, settings
        if depth >= 2 or len(self.frames) > MOST_CALL_DEPTH or function.runs > MOST_RUNS:
            self.gave_up = True
            return self.carry(node, [*args, *keywords.values()], Kind.UNKNOWN)
        function.runs += 1
        self.drop_unused(function, args, keywords, node)
        scope = Scope(function.scope.module, function.scope, "function")
        self.bind_arguments(function, scope, args, keywords)
        frame = Frame(function, scope, function.graph or (bool(self.frames) and self.frames[-1].graph))
        if args and function.owner is not None:
            frame.self_value = args[0]
        self.frames.append(frame)
        saved = self.statement
        saved_tapes = self.tapes
        if function.kind == "custom_gradient":
            self.tapes = []
        try:
            if isinstance(function.node, ast.Lambda):
                result = self.eval(function.node.body)
            else:
                self.run(function.node.body)
                result = self.returned(frame)
        finally:
            self.frames.pop()
            self.statement = saved
            self.tapes = saved_tapes
        if function.kind == "custom_gradient":
            # what it gives may be a list
            first = result.ref.items[0] if isinstance(result.ref, Sequence) and result.ref.items else result
            may_be_list = first.kind & (Kind.UNKNOWN | Kind.CONTAINER)
            return Value(Kind.TENSOR | (Kind.UNKNOWN if may_be_list else 0), self.live_of(*args))
        function.last = result
        return result

    def returned(self, frame: Frame) -> Value:
        if frame.yields:
            return Value(Kind.CONTAINER, ref=Sequence("generator", None, join_all(frame.yields)))
        if not frame.returns:
            return NONE
        outer = self.holding()
        returns = [self.settled(v, {**outer, **held}) for v, held in zip(frame.returns, frame.return_guards)]
        for choice in frame.predicated:
            first = returns[choice.start : choice.middle]
            second = returns[choice.middle :]
            tags = choice.lost
            if first and second:
                tags |= self.exclusive(join_all(first), join_all(second), choice.test, How.PREDICATE)
            if choice.taken:
                rounds = returns[choice.loop_start :]
                later = self.later_rounds(rounds, choice.taken, choice.test, How.PREDICATE)
                returns[choice.loop_start :] = [self.tag_inside(v, later) for v in rounds] if later else rounds
            if tags:
                returns[choice.start :] = [self.tag_inside(v, tags) for v in returns[choice.start :]]
        return join_all(returns)

    def tag_inside(self, value: Value, tags: frozenset[Lost]) -> Value:
        if isinstance(value.ref, Sequence) and value.ref.items is not None and value.ref.type == "tuple":
            return value.with_(ref=Sequence("tuple", [self.tag_inside(v, tags) for v in value.ref.items]))
        if value.alts and value.kind == Kind.CONTAINER:
            return join_all(self.tag_inside(alt, tags) for alt in value.alts)
        counts = value.kind & (NUMERIC | Kind.UNKNOWN) or is_numeral(value)
        if counts and not isinstance(value.ref, (Instance, Layer, Function)):
            return self.tagged(value, tags)
        return value

    def bind_arguments(self, function: Function, scope: Scope, args: list[Value], keywords: dict[str, Value]) -> None:
        spec = function.node.args
        names = argument_names(function.node)
        for name, value in zip(names, args):
            scope.vars[name] = value
        if spec.vararg:
            scope.vars[spec.vararg.arg] = Value(Kind.CONTAINER, ref=Sequence("tuple", list(args[len(names) :])))
        known = {*names, *(a.arg for a in spec.kwonlyargs)}
        extra = {k: v for k, v in keywords.items() if k not in known}
        for name, value in keywords.items():
            if name in known:
                scope.vars[name] = value
        if spec.kwarg:
            scope.vars[spec.kwarg.arg] = Value(Kind.CONTAINER, ref=Mapping(dict(extra)))
        for name in known:
            if name not in scope.vars:
                scope.vars[name] = function.defaults.get(name, UNKNOWN)
        for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
            value = scope.vars[arg.arg]
            self.christen(value)
            self.note(arg, value)

    def unknown_parameters(self, function: Function, skip: int = 0) -> list[Value]:
        """Values for the parameters of a function that nobody calls: each an object of which nothing is known."""
        names = argument_names(function.node)[skip:]
        result = []
        for name in names:
            if name in function.defaults and function.defaults[name].const is not MISSING:
                default = function.defaults[name]
                flag = isinstance(default.const, bool) or default.const is None
                result.append(
                    Value(Kind.UNKNOWN) if flag else default.with_(const=MISSING, kind=default.kind | Kind.UNKNOWN)
                )
                continue
            result.append(self.parameter(function, name))
        return result

    def parameter(self, function: Function, name: str) -> Value:
        model = name in function.scope.module.model_names
        layer = Layer(name, self.spot(function.node), opaque=not model, weights=True, parameter=True)
        return Value(Kind.OBJECT if model else Kind.UNKNOWN, ref=layer, node=function.node)

    def decorate(self, decorator: ast.expr, value: Value, function: Function) -> Value:
        made = self.eval(decorator)
        name = ""
        if isinstance(made.ref, Api):
            name = made.ref.name
        elif isinstance(decorator, ast.Call) and isinstance(made.ref, Bound) and isinstance(made.ref.function.ref, Api):
            name = made.ref.function.ref.name
        tail = name.rsplit(".", 1)[-1]
        if (
            tail == "property"
            or tail == "cached_property"
            or (isinstance(decorator, ast.Attribute) and decorator.attr == "setter")
        ):
            function.kind = "property"
            if tail == "cached_property":
                function.kept = {}
            return value
        if tail == "staticmethod":
            function.kind = "static"
            return value
        if tail == "classmethod":
            function.kind = "class"
            return value
        if tail == "custom_gradient":
            function.kind = "custom_gradient"
            return value
        if name in ("functools.lru_cache", "functools.cache"):
            function.kept = {}
            return value
        if name == "tensorflow.function" or tail in ("tf_function", "convert"):
            function.graph = True
            return value
        if isinstance(made.ref, (Function, Bound, Instance)) and not isinstance(made.ref, Api):
            if isinstance(made.ref, Bound) and isinstance(made.ref.function.ref, Api):
                return value
            wrapped = self.call(made, Arguments([value], {}), decorator)
            if any(isinstance(ref, (Function, Bound, Instance)) for ref in wrapped.refs):
                for ref in wrapped.refs:
                    if isinstance(ref, Function) and ref is not function:
                        ref.wraps = function
                return wrapped
        return value

    def call_unknown(self, function: Value, given: Arguments, node: ast.AST) -> Value:
        """A call of which nothing is known: functions handed over are taken to be called, values to go on."""
        for tape in self.tapes:
            tape.strange = True
        for value in given.all:
            self.called_back(value, node)
            for ref in value.refs:
                if isinstance(ref, Source):
                    ref.ready = True  # it may be called, or built
        lost = frozenset(x.weakened() for x in self.lost_of(*given.all))
        return Value(Kind.UNKNOWN, self.live_of(*given.all), lost, node=node)

    def called_back(self, value: Value, node: ast.AST) -> Value:
        ref = value.ref
        function = ref.function.ref if isinstance(ref, Bound) else ref
        if isinstance(function, Function) and function.runs < 3:
            skip = len(ref.args) if isinstance(ref, Bound) else 0
            return self.call(value, Arguments(self.unknown_parameters(function, skip), {}), node)
        return UNKNOWN

    def call_Method(self, value: Value, method: Method, given: Arguments, node: ast.AST) -> Value:
        receiver = method.receiver
        ref = receiver.ref
        handler = getattr(self, "method_of_" + type(ref).__name__, None)
        if handler is not None:
            result: Value | None = handler(receiver, ref, method.name, given, node)
            if result is not None:
                return result
        return self.method_of_value(receiver, method.name, given, node)

    def method_of_value(self, receiver: Value, name: str, given: Arguments, node: ast.AST) -> Value:
        raise NotImplementedError
