"""Sizes as linear forms, so that `len(x)`, `x.shape[0]` and `n` (after `n, m = x.shape`) compare equal.

Only what cannot have changed between two places is equal: a name that is bound more than once, or an
argument of a call we do not know, stands for itself at that place alone.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tapefix.rewrite.accumulators.syntax import Function, Loop, Syntax, dotted

_ONE = ""  # the key of the constant term


class Linear:
    """A sum of atoms with integer coefficients plus a constant; equal when every coefficient is."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[str, int]):
        self.terms = {atom: factor for atom, factor in terms.items() if factor}

    @classmethod
    def constant(cls, value: int) -> Linear:
        return cls({_ONE: value})

    @classmethod
    def atom(cls, name: str) -> Linear:
        return cls({name: 1})

    def __add__(self, other: Linear) -> Linear:
        keys = self.terms.keys() | other.terms.keys()
        return Linear({key: self.terms.get(key, 0) + other.terms.get(key, 0) for key in keys})

    def __neg__(self) -> Linear:
        return Linear({key: -factor for key, factor in self.terms.items()})

    def __sub__(self, other: Linear) -> Linear:
        return self + -other

    def times(self, factor: int) -> Linear:
        return Linear({key: value * factor for key, value in self.terms.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linear) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return (
            " + ".join(f"{factor}*{atom}" if atom else str(factor) for atom, factor in sorted(self.terms.items()))
            or "0"
        )

    @property
    def value(self) -> int | None:
        """The number, where there is no atom left."""
        return self.terms.get(_ONE, 0) if self.terms.keys() <= {_ONE} else None


class Dims:
    """The sizes that expressions of one document stand for."""

    def __init__(self, syntax: Syntax):
        self.syntax = syntax

    def of(self, node: ast.expr, depth: int = 8) -> Linear:
        """`node` as a linear form; an atom of its own where nothing is known."""
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return Linear.constant(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.of(operand, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.of(left, depth) + self.of(right, depth)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self.of(left, depth) - self.of(right, depth)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                a, b = self.of(left, depth), self.of(right, depth)
                if a.value is not None:
                    return b.times(a.value)
                if b.value is not None:
                    return a.times(b.value)
                return Linear.atom("*".join(sorted((repr(a), repr(b)))))
            case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
                return self.of(inner, depth)
            case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]):
                return self.length(inner, depth)
            case ast.Attribute(value=inner, attr="value") if isinstance(inner, ast.Subscript):
                return self.of(inner, depth)  # a Dimension of TensorFlow 1
            case ast.Subscript(value=whole, slice=ast.Constant(value=int() as axis)):
                if (owner := shape_owner(whole)) is not None:
                    return self.dim(owner, axis, depth)
                if isinstance(whole, ast.Name) and (owner := self._shape_name(whole)) is not None:
                    return self.dim(owner, axis, depth)
            case ast.Name():
                return self._name(node, depth)
        return Linear.atom(self.token(node, depth))

    def dim(self, owner: ast.expr, axis: int, depth: int = 8) -> Linear:
        """The size of an array's axis; that of what the array was made from, where that is seen."""
        if depth > 0 and (made := self._shape_made(owner)) is not None and -len(made) <= axis < len(made):
            return self.of(made[axis], depth - 1)
        if depth > 0 and (part := self._part_of(owner)) is not None and axis >= 0:
            whole, axes = part
            return self.dim(whole, axis + axes, depth - 1)
        return Linear.atom(f"dim({self.token(owner, depth)},{axis})")

    def _part_of(self, owner: ast.expr) -> tuple[ast.expr, int] | None:
        """(whole, n) of an array that is an element of another one, n axes up: `x` of `for x in xs`, `xs[i]`."""
        match owner:
            case ast.Subscript(value=whole, slice=ast.Constant(value=int()) | ast.Name()):
                return whole, 1
            case ast.Name():
                _, bindings = self.syntax.visible(owner.id, owner)
                if len(bindings) != 1 or not self._steady(bindings[0], owner):
                    return None
                value = self.single_value(owner)
                if isinstance(value, ast.Subscript):
                    return self._part_of(value)
                return self._iterated(bindings[0])
        return None

    def _iterated(self, target: ast.AST) -> tuple[ast.expr, int] | None:
        """What a loop's target is taken from: `x` of `for i, (x, y) in enumerate(zip(xs, ys))` from `xs`."""
        path: list[int] = []
        parent = self.syntax.parent(target)
        while isinstance(parent, ast.Tuple):
            path.insert(0, parent.elts.index(target))  # type: ignore[arg-type]
            target, parent = parent, self.syntax.parent(parent)
        if not (isinstance(parent, ast.For) and parent.target is target):
            return None
        source = parent.iter
        while True:
            match source, path:
                case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]), [1, *rest]:
                    source, path = inner, rest
                case ast.Call(func=ast.Name(id="zip"), args=inners), [position, *rest] if position < len(inners):
                    source, path = inners[position], rest
                case _, []:
                    break
                case _:
                    return None
        plain = isinstance(source, ast.Name | ast.Attribute | ast.Subscript)
        return (source, 1) if plain else None

    def length(self, sequence: ast.expr, depth: int = 8) -> Linear:
        """`len(sequence)`, also of a `range`, a list display and a name bound once to one."""
        match sequence:
            case ast.List(elts=elts) | ast.Tuple(elts=elts) if not any(isinstance(e, ast.Starred) for e in elts):
                return Linear.constant(len(elts))
            case ast.Call(func=ast.Name(id="range"), args=[stop]):
                return self.of(stop, depth)
            case ast.Call(func=ast.Name(id="range"), args=[start, stop]):
                return self.of(stop, depth) - self.of(start, depth)
            case ast.Call(func=ast.Name(id="enumerate" | "reversed" | "list" | "tuple"), args=[inner, *_]):
                return self.length(inner, depth)
            case ast.ListComp(generators=[ast.comprehension(iter=inner, ifs=[])]):
                return self.length(inner, depth)
            case ast.Call(func=ast.Attribute(attr="unstack"), args=[whole], keywords=keywords):
                axis = next((k.value for k in keywords if k.arg == "axis"), ast.Constant(0))
                if isinstance(axis, ast.Constant) and isinstance(axis.value, int):
                    return self.dim(whole, axis.value, depth)
            case ast.Name() if depth > 0:
                value = self.single_value(sequence)
                if isinstance(value, ast.List | ast.Tuple | ast.ListComp) and not self._grows(sequence):
                    return self.length(value, depth - 1)
        return self.dim(sequence, 0, depth)

    def _name(self, node: ast.Name, depth: int) -> Linear:
        if depth <= 0:
            return Linear.atom(self.token(node, 0))
        value = self.single_value(node)
        if value is not None and not isinstance(value, ast.List | ast.Tuple):
            return self.of(value, depth - 1)
        _, bindings = self.syntax.visible(node.id, node)
        if len(bindings) == 1 and self._steady(bindings[0], node):
            binding = bindings[0]
            parent = self.syntax.parent(binding)
            assign = self.syntax.parent(parent) if parent is not None else None
            if isinstance(parent, ast.Tuple) and isinstance(assign, ast.Assign) and binding in parent.elts:
                return self._unpacked(assign.value, parent, parent.elts.index(binding), depth)
        return Linear.atom(self.token(node, depth))

    def _unpacked(self, value: ast.expr, targets: ast.Tuple, position: int, depth: int) -> Linear:
        """Target number `position` of `a, b = value`."""
        starred = any(isinstance(e, ast.Starred) for e in targets.elts)
        if not starred and isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(targets.elts):
            return self.of(value.elts[position], depth - 1)
        if not starred and (owner := shape_owner(value)) is not None:
            return self.dim(owner, position, depth - 1)
        if not starred and isinstance(value, ast.Subscript) and (owner := shape_owner(value.value)) is not None:
            match value.slice:
                case ast.Slice(lower=lower, upper=_, step=None):
                    first = self.of(lower).value if lower is not None else 0
                    if first is not None and first >= 0:
                        return self.dim(owner, first + position, depth - 1)
        name = targets.elts[position]
        return Linear.atom(f"{ast.unparse(name)}@{self.syntax.order[name]}")

    def single_value(self, node: ast.Name) -> ast.expr | None:
        """The expression a name was bound to, where it is bound once, plainly, and before this use."""
        _, bindings = self.syntax.visible(node.id, node)
        if len(bindings) != 1 or not self._steady(bindings[0], node):
            return None
        assign = self.syntax.parent(bindings[0])
        if isinstance(assign, ast.Assign) and bindings[0] in assign.targets:
            return assign.value
        if isinstance(assign, ast.AnnAssign) and assign.value is not None and bindings[0] is assign.target:
            return assign.value
        return None

    def _steady(self, binding: ast.AST, use: ast.AST) -> bool:
        """Whether the one binding of a name holds the same value wherever `use` is compared with another use."""
        if isinstance(binding, ast.arg):
            return True
        loops = self.syntax.loops(binding)
        return all(self.syntax.inside(use, loop) for loop in loops)

    def _grows(self, name: ast.Name) -> bool:
        """Whether a list bound to a name may change its length: any method call or slice write on it."""
        scope = self.syntax.scope(name)
        for other in ast.walk(scope):
            if isinstance(other, ast.Name) and other.id == name.id and other is not name:
                parent = self.syntax.parent(other)
                if isinstance(parent, ast.Attribute) and parent.attr in _RESIZING:
                    return True
        return False

    def _shape_name(self, name: ast.Name) -> ast.expr | None:
        value = self.single_value(name)
        return shape_owner(value) if value is not None else None

    def _shape_made(self, owner: ast.expr) -> list[ast.expr] | None:
        """The shape that an array was made with: `tf.zeros([n, d])`, `np.random.rand(n, d)`."""
        if isinstance(owner, ast.Name):
            value = self.single_value(owner)
            return self._shape_made(value) if value is not None else None
        if not isinstance(owner, ast.Call):
            return None
        name = (dotted(owner.func) or "").split(".")[-1]
        if name in ("rand", "randn") and not owner.keywords:
            return list(owner.args)
        if name not in ("zeros", "ones", "empty", "full", "normal", "uniform", "fill"):
            return None
        size = next((k.value for k in owner.keywords if k.arg in ("shape", "size", "dims")), None)
        if size is None and owner.args and name not in ("uniform",) and "np" not in (dotted(owner.func) or "")[:2]:
            size = owner.args[0]
        if isinstance(size, ast.List | ast.Tuple) and not any(isinstance(e, ast.Starred) for e in size.elts):
            return list(size.elts)
        return None

    def token(self, node: ast.expr, depth: int = 8) -> str:
        """A text that two expressions share only if they have the same value."""
        if isinstance(node, ast.Name):
            value = self.single_value(node) if depth > 0 else None
            if isinstance(value, ast.Name | ast.Attribute):
                return self.token(value, depth - 1)
            return f"{node.id}{self.version(node)}"
        if isinstance(node, ast.Constant):
            return repr(node.value)
        if isinstance(node, ast.Attribute):
            text = dotted(node)
            if text is not None and not self._attribute_written(text, node):
                return text
            return f"{ast.unparse(node)}@{self.syntax.order[node]}"
        if isinstance(node, ast.Call) and not _repeatable(node):
            return f"{ast.unparse(node)}@{self.syntax.order[node]}"
        parts = [self.token(child, depth - 1) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        head = type(getattr(node, "op", node)).__name__
        return f"{head}({','.join(parts)})" if parts else f"{ast.unparse(node)}@{self.syntax.order[node]}"

    def version(self, name: ast.Name) -> str:
        """Which binding of a name a use sees: empty for a name that is bound once."""
        _, bindings = self.syntax.visible(name.id, name)
        if len(bindings) <= 1 and all(self._steady(b, name) for b in bindings):
            return ""
        earlier = [b for b in bindings if self.syntax.before(b, name)]
        loops = self.syntax.loops(name)
        moving = any(self.syntax.inside(b, loop) for b in bindings for loop in loops)
        if moving or not earlier:
            return f"@{self.syntax.order[name]}"
        return f"#{self.syntax.order[earlier[-1]]}"

    def _attribute_written(self, text: str, node: ast.Attribute) -> bool:
        """Whether the function around an attribute stores into it."""
        function = self.syntax.function(node)
        return function is not None and any(
            isinstance(other, ast.Attribute) and isinstance(other.ctx, ast.Store) and dotted(other) == text
            for other in ast.walk(function)
        )


_RESIZING = {"append", "extend", "insert", "pop", "remove", "clear", "popleft", "appendleft"}


def _repeatable(call: ast.Call) -> bool:
    """Whether a call gives the same value each time: `len`, `min`, `max`, `abs`, `int`."""
    return isinstance(call.func, ast.Name) and call.func.id in ("len", "min", "max", "abs", "int")


def shape_owner(node: ast.expr) -> ast.expr | None:
    """`x` of `x.shape`, `tf.shape(x)`, `x.get_shape()`, `x.shape.as_list()`, `keras.ops.shape(x)`, `K.int_shape(x)`."""
    match node:
        case ast.Attribute(value=owner, attr="shape"):
            return owner
        case ast.Call(func=ast.Attribute(value=inner, attr="as_list" | "numpy"), args=[]):
            return shape_owner(inner)
        case ast.Call(func=ast.Attribute(value=owner, attr="get_shape"), args=[]):
            return owner
        case ast.Call(func=ast.Attribute(attr="shape" | "int_shape"), args=[owner], keywords=[]):
            return owner
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[inner], keywords=[]):
            return shape_owner(inner)
    return None


__all__ = ["Dims", "Function", "Linear", "Loop", "shape_owner"]
