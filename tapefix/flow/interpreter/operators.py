"""Operators and conversions that classes of the program define: `__mul__`, `__neg__`, `__float__`, `__array__`."""

from __future__ import annotations

import ast

from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.interpreter.objects import Objects
from tapefix.flow.objects import Api, Instance
from tapefix.flow.values import NUMERIC, Value, join_all

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}


def is_declined(value: Value) -> bool:
    """`NotImplemented`: the other operand is asked instead."""
    return isinstance(value.ref, Api) and value.ref.name == "builtins.NotImplemented"


class Operators(Objects):
    """Runs the methods behind operators on objects of the program's own classes."""

    def combine(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        for first, second, swapped in ((left, right, False), (right, left, True)):
            if any(isinstance(alt.ref, Instance) for alt in first.alts):
                pairs = [(second, alt) if swapped else (alt, second) for alt in first.alts]
                return join_all(self.combine(op, *pair, node) for pair in pairs)
        if isinstance(left.ref, Instance) or isinstance(right.ref, Instance):
            name = _BINARY[type(op)]
            if left.kind & NUMERIC and not self.outranks(right):
                made = self.special("__array__", right, [], node)
                if made is not None:  # tensors and arrays convert what they can before they ask the other side
                    return super().combine(op, left, made, node)
            asked = [(f"__i{name}__", left, right)] if isinstance(node, ast.AugAssign) else []
            for method, owner, other in [*asked, (f"__{name}__", left, right), (f"__r{name}__", right, left)]:
                result = self.special(method, owner, [other], node)
                if result is not None:
                    return result
        return super().combine(op, left, right, node)

    @staticmethod
    def outranks(value: Value) -> bool:
        """The class asks to be asked first."""
        cls = value.ref.cls if isinstance(value.ref, Instance) else None
        return cls is not None and any(cls.find(name) for name in ("__array_priority__", "__array_ufunc__"))

    def unary(self, node: ast.UnaryOp, value: Value) -> Value:
        if isinstance(value.ref, Instance) and type(node.op) in _UNARY:
            result = self.special(_UNARY[type(node.op)], value, [], node)
            if result is not None:
                return result
        return super().unary(node, value)

    def special(self, name: str, owner: Value, args: list[Value], node: ast.AST) -> Value | None:
        """What a special method gives; None where the class has none, or declines."""
        ref = owner.ref
        found = ref.cls.find(name) if isinstance(ref, Instance) and ref.cls is not None else None
        if found is None:
            return None
        result = self.call(self.bind_member(*found, owner, node), Arguments(args, {}), node)
        if is_declined(result):
            return None
        if any(is_declined(alt) for alt in result.alts):
            return join_all(alt for alt in result.alts if not is_declined(alt))
        return result

    def as_arrays(self, given: Arguments, node: ast.AST) -> Arguments:
        """Arguments of a library's function, which asks objects for their `__array__`."""
        if not any(isinstance(value.ref, Instance) for value in given.all):
            return given

        def converted(value: Value) -> Value:
            made = self.special("__array__", value, [], node)
            return value if made is None else made

        args = [converted(value) for value in given.args]
        return Arguments(args, {name: converted(v) for name, v in given.keywords.items()}, given.nodes)
