"""What an index is: one whole number, never negative, or an array of them."""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators.dims import Dims, shape_owner
from tapefix.rewrite.accumulators.syntax import Function, Syntax, dotted

#: what gives tuples of positions: of the first iterable, of each in turn, or below a shape
_CHOSEN = {
    "combinations": "first",
    "combinations_with_replacement": "first",
    "permutations": "first",
    "product": "each",
    "ndindex": "shape",
}
#: what gives an array of positions for each axis
_CORNERS = frozenset({"triu_indices", "tril_indices", "nonzero", "triu_indices_from", "tril_indices_from"})


def _starred(nodes: list[ast.expr]) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)


class Positions:
    """Answers about indices from the tree of one document; what a loop or a caller gives is followed."""

    def __init__(self, syntax: Syntax):
        self.syntax = syntax
        self.dims = Dims(syntax)

    def is_array_index(self, node: ast.expr) -> bool:
        match node:
            case ast.Name():
                value = self.dims.single_value(node)
                return value is not None and self._makes_array(value)
            case ast.Call() | ast.List() | ast.Compare() | ast.BoolOp():
                return self._makes_array(node)
        return False

    def _makes_array(self, node: ast.expr) -> bool:
        match node:
            case ast.List() | ast.ListComp() | ast.Compare() | ast.BoolOp():
                return True
            case ast.Call(func=func):
                name = dotted(func) or ""
                return name.startswith(("np.", "numpy.")) and name.split(".")[-1] in (
                    "arange", "array", "argsort", "nonzero", "where", "asarray", "concatenate", "permutation",
                    "flatnonzero",
                )  # fmt: skip
        return False

    def is_position(self, node: ast.expr, depth: int = 6) -> bool:
        match node:
            case ast.Constant(value=int()):
                return True
            case ast.UnaryOp(operand=operand):
                return self.is_position(operand, depth)
            case ast.BinOp(left=left, right=right):
                return self.is_position(left, depth) and self.is_position(right, depth)
            case ast.Call(func=ast.Name(id="len" | "int" | "min" | "max")):
                return True
            case ast.Subscript(value=whole):
                return shape_owner(whole) is not None or self._flat(whole)
            case ast.Attribute():
                return True
            case ast.Name() if depth:
                _, bindings = self.syntax.visible(node.id, node)
                return bool(bindings) and all(self._binds_position(b, depth - 1) for b in bindings)
        return False

    def is_natural(self, node: ast.expr, depth: int = 6) -> bool:
        match node:
            case ast.Constant(value=int() as value):
                return value >= 0
            case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.FloorDiv() | ast.Mod(), right=right):
                return self.is_natural(left, depth) and self.is_natural(right, depth)
            case ast.Call(func=ast.Name(id="len")):
                return True
            case ast.Subscript(value=whole):
                return shape_owner(whole) is not None
            case ast.Name() if depth:
                _, bindings = self.syntax.visible(node.id, node)
                return bool(bindings) and all(self._binds_natural(b, depth - 1) for b in bindings)
        return False

    def _binds_natural(self, binding: ast.AST, depth: int) -> bool:
        parent = self.syntax.parent(binding)
        match parent:
            case ast.For(target=target, iter=iterable) if target is binding:
                return self._gives_naturals(iterable, depth)
            case ast.Tuple(elts=[first, *_]) if first is binding:
                loop = self.syntax.parent(parent)
                match loop:
                    case ast.For(iter=ast.Call(func=ast.Name(id="enumerate"), args=args, keywords=[])) if (
                        loop.target is parent
                    ):
                        return len(args) == 1 or self.is_natural(args[1], depth)
            case ast.Assign(value=value):
                return self.is_natural(value, depth)
            case ast.AugAssign(op=ast.Add(), value=value):
                return self.is_natural(value, depth)
        return False

    def _gives_naturals(self, iterable: ast.expr, depth: int) -> bool:
        match iterable:
            case ast.Call(func=ast.Name(id="reversed"), args=[inner]):
                return self._gives_naturals(inner, depth)
            case ast.Call(func=func, args=args, keywords=[]) if (dotted(func) or "").split(".")[-1] == "range":
                if len(args) < 3:
                    return len(args) == 1 or self.is_natural(args[0], depth)
                backwards = self.dims.of(args[2]).value
                stop = self.dims.of(args[1]).value
                if backwards is not None and backwards < 0:
                    return stop is not None and stop >= -1
                return self.is_natural(args[0], depth) and self.is_natural(args[2], depth)
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                return all(self.is_natural(e, depth) for e in elts)
        return False

    def _flat(self, node: ast.expr) -> bool:
        """Whether a list of whole numbers is written out: its elements are positions."""
        value = self.dims.single_value(node) if isinstance(node, ast.Name) else node
        return isinstance(value, ast.List | ast.Tuple) and all(self.is_position(e) for e in value.elts)

    def _binds_position(self, binding: ast.AST, depth: int) -> bool:
        path: list[int] = []
        target, parent = binding, self.syntax.parent(binding)
        while isinstance(parent, ast.Tuple):
            path.insert(0, parent.elts.index(target))  # type: ignore[arg-type]
            target, parent = parent, self.syntax.parent(parent)
        match parent:
            case ast.For(target=bound, iter=iterable) if bound is target:
                return self._gives_positions(iterable, path, depth)
            case ast.Assign(value=value):
                if path and isinstance(value, ast.Tuple) and len(path) == 1 and path[0] < len(value.elts):
                    return self.is_position(value.elts[path[0]], depth)
                if path:
                    return shape_owner(value) is not None
                return self.is_position(value, depth)
            case ast.AugAssign(value=value):
                return self.is_position(value, depth)
            case ast.arguments():
                return self._position_argument(binding, depth)
        return False

    def _gives_positions(self, iterable: ast.expr, path: list[int], depth: int) -> bool:
        match iterable, path:
            case ast.Call(func=ast.Name(id="reversed" | "list" | "tqdm" | "sorted"), args=[inner, *_]), _:
                return self._gives_positions(inner, path, depth)
            case ast.Call(func=ast.Name(id="enumerate")), [0]:
                return True
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]), [1, *rest]:
                return self._gives_positions(inner, rest, depth)
            case ast.Call(func=ast.Name(id="zip"), args=[ast.Starred(value=ast.Call(func=func))]), [_]:
                return (dotted(func) or "").split(".")[-1] in _CORNERS
            case ast.Call(func=ast.Name(id="zip"), args=inners), [place, *rest] if place < len(inners):
                return self._gives_positions(inners[place], rest, depth)
            case ast.Call(func=func), [] if (dotted(func) or "").split(".")[-1] in ("range", "arange"):
                return True
            case ast.Call(func=func, args=inners), [place] if inners and not _starred(inners):
                return self._chooses_positions((dotted(func) or "").split(".")[-1], inners, place, depth)
            case ast.List(elts=elts) | ast.Tuple(elts=elts), []:
                return all(self.is_position(e, depth) for e in elts)
            case ast.List(elts=elts) | ast.Tuple(elts=elts), [place]:
                return all(
                    isinstance(e, ast.Tuple) and place < len(e.elts) and self.is_position(e.elts[place], depth)
                    for e in elts
                )
            case ast.Call(func=ast.Attribute(attr="array" | "asarray" | "constant"), args=[inner, *_]), []:
                return self._gives_positions(inner, path, depth)
            case ast.Call(func=ast.Attribute(attr="randint" | "integers")), []:
                assert isinstance(iterable, ast.Call)
                named = [k.value for k in iterable.keywords if k.arg == "size"] or iterable.args[2:3]
                return bool(named) and isinstance(named[0], ast.Constant | ast.Name)
            case ast.Name(), _ if depth:
                value = self.dims.single_value(iterable)
                if value is not None:
                    return self._gives_positions(value, path, depth - 1)
                _, bindings = self.syntax.visible(iterable.id, iterable)
                if len(bindings) == 1 and isinstance(bindings[0], ast.arg):
                    given = self._given(bindings[0])
                    return bool(given) and all(
                        g is not None and self._gives_positions(g, path, depth - 1) for g in given
                    )
        return False

    def _chooses_positions(self, name: str, inners: list[ast.expr], place: int, depth: int) -> bool:
        """Whether `itertools` and its like give positions at a place of their tuples."""
        match _CHOSEN.get(name):
            case "shape":
                return True
            case "first":
                return self._gives_positions(inners[0], [], depth)
            case "each":  # with repeat=, there are fewer iterables than places
                return all(self._gives_positions(inner, [], depth) for inner in inners)
        return False

    def _position_argument(self, argument: ast.AST, depth: int) -> bool:
        """Whether every call in the document gives a position for a function's argument."""
        assert isinstance(argument, ast.arg)
        given = self._given(argument)
        return bool(given) and all(value is not None and self.is_position(value, depth) for value in given)

    def _given(self, argument: ast.arg) -> list[ast.expr | None]:
        """What the calls in the document give for a function's argument; None for a call where that is not seen."""
        function = next(a for a in self.syntax.ancestors(argument) if isinstance(a, Function))
        if isinstance(function, ast.Lambda):
            return [None]
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if argument.arg not in names:
            return [None]
        called = function.name
        place = names.index(argument.arg)
        if names[0] in ("self", "cls"):
            place -= 1
        if called == "__init__":
            owner = self.syntax.parent(function)
            called = owner.name if isinstance(owner, ast.ClassDef) else called
        given: list[ast.expr | None] = []
        for call in ast.walk(self.syntax.tree):
            if isinstance(call, ast.Call) and (dotted(call.func) or "").split(".")[-1] == called:
                value = next((k.value for k in call.keywords if k.arg == argument.arg), None)
                if (
                    value is None
                    and 0 <= place < len(call.args)
                    and not any(isinstance(a, ast.Starred) for a in call.args)
                ):
                    value = call.args[place]
                given.append(value)
        return given
