"""A Python function whose body is traced into a graph: what can't stand there, and what has to be said otherwise.

A symbolic tensor is not iterated, unpacked or counted by Python; where its first size is known, `tf.unstack` and
`.shape[0]` do the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapefix.flow import Model
from tapefix.flow.values import Kind
from tapefix.rewrite.accumulators.syntax import syntax_of
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.leaving.writing import put

Body = ast.FunctionDef | ast.Lambda
_PASSED_ON = frozenset({"zip", "enumerate", "reversed", "list", "tuple"})
_WANT_NUMBERS = frozenset({"int", "float", "bool", "range", "round", "max", "min", "sorted", "any", "all", "str"})
#: words of programs in which sizes may be unknown while a graph is traced
_OPEN_SIZES = (".fit(", "input_signature", "relax_shapes", "reduce_retracing", "tf.data", "Input(", "input_shape")


def reaches(node: ast.AST, names: set[str]) -> bool:
    """Whether a value of one of the names goes into the expression, not only its form."""
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "ndim", "size"):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return False
    if isinstance(node, ast.Name):
        return node.id in names
    children = (n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.expr, ast.keyword, ast.comprehension)))
    return any(reaches(n, names) for n in children)


def parameters(body: Body) -> list[str]:
    arguments = body.args
    return [a.arg for a in [*arguments.posonlyargs, *arguments.args] if a.arg != "self"]


def tensor_names(body: Body) -> set[str]:
    """The parameters, and the names for what is computed from them."""
    names = set(parameters(body))
    for _ in range(2):
        for node in ast.walk(body):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                source: ast.expr = node.value
            elif isinstance(node, (ast.For, ast.comprehension)):
                targets, source = [node.target], node.iter
            else:
                continue
            if reaches(source, names):
                names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return names


def sizes_are_known(text: str) -> bool:
    """Whether every graph of the program is traced on whole shapes."""
    return not any(word in text for word in _OPEN_SIZES)


class Tracing:
    """One function's body in a graph; `sized` are the parameters whose shape is known in any case."""

    def __init__(self, model: Model, edits: EditSet, body: Body, sized: set[str]):
        self.model, self.edits, self.body = model, edits, body
        self.names = tensor_names(body)
        self.sized = self.names if sizes_are_known(edits.document.text) else sized

    def write(self) -> str:
        """Says otherwise what a graph does not take; the reason where that is not possible, else ""."""
        for node in ast.walk(self.body):
            problem = self._decides(node) or self._wants_number(node)
            if problem:
                return f"line {getattr(node, 'lineno', self.body.lineno)} {problem}"
        for node in self._iterated():
            if not self._is_sized(node):
                return f"line {node.lineno} goes through a tensor whose size a graph may not know"
            put(self.edits, node, "tf.unstack({value})", value=node)
        for call in self._lengths():
            if not self._is_sized(call.args[0]):
                return f"line {call.lineno} asks for a size that a graph may not know"
            put(self.edits, call, "{value}.shape[0]", value=call.args[0])
        return ""

    def _decides(self, node: ast.AST) -> str:
        """Whether Python decides by a tensor's value."""
        tests: list[ast.expr] = []
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            tests = [node.test]
        elif isinstance(node, ast.comprehension):
            tests = node.ifs
        elif (
            isinstance(node, ast.BoolOp)
            or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
            or (isinstance(node, ast.Compare) and len(node.ops) > 1)
        ):
            tests = [node]
        if isinstance(node, ast.Try):
            return "catches exceptions, which a graph does not raise"
        if any(self._on_values(test) for test in tests):
            return "decides or repeats in Python, which a graph does not do on tensors"
        return ""

    def _on_values(self, test: ast.expr) -> bool:
        if isinstance(test, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops):
            return False
        known = (n for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute)))
        return reaches(test, self.names) or any(self.model.is_tensor(n) for n in known if _is_value(n))

    def _wants_number(self, node: ast.AST) -> str:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            return ""
        if node.func.id == "print":
            return "prints, which a graph does once"
        wanted = node.func.id in _WANT_NUMBERS and any(reaches(a, self.names) for a in node.args)
        return "wants a Python number" if wanted else ""

    def _iterated(self) -> Iterator[ast.expr]:
        """The tensors that Python goes through: in loops and comprehensions, when it unpacks, when it sums."""
        for node in ast.walk(self.body):
            if isinstance(node, (ast.For, ast.comprehension)):
                yield from self._tensors_in(node.iter)
            elif isinstance(node, ast.Assign) and any(isinstance(t, (ast.Tuple, ast.List)) for t in node.targets):
                if not isinstance(node.value, (ast.Call, ast.Tuple, ast.List)):
                    yield from self._tensors_in(node.value)
            elif isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Load):
                yield from self._tensors_in(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum":
                yield from self._tensors_in(node.args[0])

    def _tensors_in(self, iterated: ast.expr) -> Iterator[ast.expr]:
        if isinstance(iterated, ast.Call):
            if isinstance(iterated.func, ast.Name) and iterated.func.id in _PASSED_ON:
                for one in iterated.args:
                    yield from self._tensors_in(one)
                return
            if not self.model.api_of(iterated.func).startswith(("numpy.", "tensorflow.")):
                return
        if isinstance(iterated, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp)):
            return
        value = self.model.value_of(iterated)
        if reaches(iterated, self.names) and not (value is not None and value.kind & Kind.CONTAINER):
            yield iterated

    def _lengths(self) -> Iterator[ast.Call]:
        syntax = syntax_of(self.edits.document)
        for node in ast.walk(self.body):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
                value = self.model.value_of(node.args[0]) if node.args else None
                if value is not None and value.kind & Kind.CONTAINER:
                    continue
                if len(node.args) == 1 and reaches(node.args[0], self.names) and syntax.parent(node) is not None:
                    yield node

    def _is_sized(self, node: ast.expr) -> bool:
        named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & self.names
        return named <= self.sized


def _is_value(node: ast.Name | ast.Attribute) -> bool:
    return not (isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "ndim", "size"))
