"""What the ladder for values written in place asks about a program, answered by the flow model where it knows more."""

from __future__ import annotations

import ast
import functools

from tapefix.flow import Model
from tapefix.flow.objects import Bound, Function, Instance
from tapefix.flow.values import Kind, Value
from tapefix.rewrite.accumulators import SyntaxFacts
from tapefix.rewrite.accumulators.syntax import Loop, syntax_of

#: Keras methods that other code calls by the object: `layer(x)`, `model.fit(x)`
_BY_KERAS = ("call", "train_step", "test_step")


class FlowFacts(SyntaxFacts):
    """The tree's answers, and the flow model's where the tree does not tell."""

    def __init__(self, model: Model, filename: str):
        self.document = model.documents.get(filename, model.document)
        super().__init__(syntax_of(self.document))
        self.model = model

    # values

    def is_number(self, node: ast.expr) -> bool:
        return super().is_number(node) or self.model.kind_of(node) in (Kind.NUMBER, Kind.SHAPE)

    def is_tensor(self, node: ast.expr) -> bool:
        return self.model.kind_of(node) == Kind.TENSOR

    def may_be_variable(self, node: ast.expr) -> bool:
        return bool(self.model.kind_of(node) & Kind.VARIABLE)

    def is_array(self, node: ast.expr) -> bool:
        return self.model.kind_of(node) == Kind.ARRAY or super().is_array(node)

    def number(self, node: ast.expr) -> int | None:
        value = self.model.value_of(node)
        constant = value.const if value is not None else None
        return constant if type(constant) is int else super().number(node)

    # other files

    def _rank(self, node: ast.expr, busy: frozenset[ast.AST], depth: int) -> int | None:
        """Also of an expression of another file: what a call there hands to a function here."""
        if node not in self.syntax.order:
            for other in self._others:
                if node in other.syntax.order:
                    return other._rank(node, busy, depth)
        return super()._rank(node, busy, depth)

    @functools.cached_property
    def _others(self) -> list[FlowFacts]:
        names = [name for name, document in self.model.documents.items() if document is not self.document]
        return [FlowFacts(self.model, name) for name in names]

    # calls

    def callee(self, call: ast.Call) -> ast.FunctionDef | None:
        value = self.model.value_of(call.func)
        if value is None:
            return super().callee(call)
        found = {function for ref in value.refs if (function := _function_of(ref)) is not None}
        only = found.pop() if len(found) == 1 and len(value.refs) == 1 else None
        return only if only in self.syntax.order else None

    def _resolved(self, call: ast.Call) -> set[ast.FunctionDef]:
        """The functions, of whichever file, that a call runs."""
        value = self.model.value_of(call.func)
        return {f for ref in value.refs if (f := _function_of(ref)) is not None} if value is not None else set()

    def calls(self, function: ast.FunctionDef) -> list[ast.Call]:
        return self._calls_by_function.get(function) or super().calls(function)

    def calls_of(self, function: ast.FunctionDef) -> list[ast.Call] | None:
        if function.name in ("call", "__call__"):
            by_keras = any(name in self.document.text for name in (".fit(", ".predict(", ".evaluate("))
            return None if by_keras else self._calls_by_function.get(function)
        own = super().calls_of(function)
        if own is not None or self.syntax.uses_named(function.name):
            return own
        calls = [n for other in self._others for n in other.syntax.order if isinstance(n, ast.Call)]
        return [call for call in calls if function in self._resolved(call)] or None

    def is_known_here_alone(self, function: ast.FunctionDef) -> bool:
        name = function.name
        return not any(o.syntax.uses_named(name) or o.syntax.functions_named(name) for o in self._others)

    @functools.cached_property
    def _calls_by_function(self) -> dict[ast.FunctionDef, list[ast.Call]]:
        found: dict[ast.FunctionDef, list[ast.Call]] = {}
        for node in self.syntax.order:
            if isinstance(node, ast.Call) and (function := self.callee(node)) is not None:
                found.setdefault(function, []).append(node)
        return found

    # graphs

    def graph_loop(self, loop: Loop) -> bool:
        """Whether AutoGraph may turn the loop into one of the graph; Keras 2 has it convert `call` as well."""
        if not isinstance(loop, ast.For) or not self._runs_in_graph(loop.iter):
            return False
        function = self.syntax.function(loop)
        return self._converted(loop) or (isinstance(function, ast.FunctionDef) and function.name == "call")

    def _runs_in_graph(self, iterable: ast.expr) -> bool:
        """A loop over a tensor is one of the graph, whether it is `tf.range`, `range` of one, or any other."""
        if super()._runs_in_graph(iterable) or self.is_tensor(iterable):
            return True
        match iterable:
            case ast.Call(func=ast.Name(id="range"), args=args):
                return any(self.is_tensor(arg) for arg in args)
        return False

    @functools.cached_property
    def _in_graph(self) -> set[ast.AST]:
        found = set(super()._in_graph)
        values = self.model.seen.values()
        found |= {ref.node for value in values for ref in value.refs if isinstance(ref, Function) and ref.graph}
        waiting = [f for f in found if f in self.syntax.order]
        while waiting:
            for call in ast.walk(waiting.pop()):
                function = self.callee(call) if isinstance(call, ast.Call) else None
                if function is not None and function.name not in _BY_KERAS and function not in found:
                    found.add(function)
                    waiting.append(function)
        return found


def _function_of(ref: object) -> ast.FunctionDef | None:
    """The function of the program that a call of an object runs."""
    match ref:
        case Bound(function=Value(ref=inner)):
            return _function_of(inner)
        case Function(node=ast.FunctionDef() as node):
            return node
        case Instance(cls=cls) if cls is not None:
            for name in ("call", "__call__"):
                if (found := cls.find(name)) is not None:
                    return _function_of(found[1].ref)
    return None
