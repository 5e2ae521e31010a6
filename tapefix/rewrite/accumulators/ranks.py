"""How many axes a value has, followed through names, loops, layers and the program's own functions.

A name that is bound in several places has a rank if all of them agree; a loop that hands a value on to its next pass
agrees with itself. What a function gives is what each `return` gives, with arguments as every call hands them over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapefix.rewrite.accumulators.rank_calls import OPEN, CallRanks, agreed, product
from tapefix.rewrite.accumulators.syntax import dotted

_NUMBERS = ("np.pi", "math.pi", "np.inf", "math.inf", "np.e", "math.e", "np.nan", "math.nan")
_DEPTH = 24


class Ranks(CallRanks):
    """Answers about ranks from the tree of one document."""

    def rank(self, node: ast.expr) -> int | None:
        """How many axes the value of an expression has, 0 for a number; None where that is not known."""
        found = self._rank(node, frozenset(), _DEPTH)
        return found if found is not None and found >= 0 else None

    def least_rank(self, node: ast.expr) -> int:
        """How many axes a value has at least: those of an operand that is known."""
        match node:
            case ast.BinOp(op=ast.MatMult()):
                return self.rank(node) or 0
            case ast.BinOp(left=left, right=right):
                return max(self.least_rank(left), self.least_rank(right))
            case ast.UnaryOp(operand=operand):
                return self.least_rank(operand)
        return self.rank(node) or 0

    # expressions

    def _rank(self, node: ast.expr, busy: frozenset[ast.AST], depth: int) -> int | None:
        if depth <= 0:
            return None
        match node:
            case ast.Constant(value=int() | float()):
                return 0
            case ast.UnaryOp(operand=operand):
                return self._rank(operand, busy, depth - 1)
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return product(self._rank(left, busy, depth - 1), self._rank(right, busy, depth - 1))
            case ast.BinOp(left=left, right=right):
                return self._widest((left, right), busy, depth)
            case ast.IfExp(body=body, orelse=orelse):
                return agreed([self._rank(body, busy, depth - 1), self._rank(orelse, busy, depth - 1)])
            case ast.Subscript():
                return self._subscript(node, busy, depth)
            case ast.List() | ast.Tuple() | ast.ListComp():
                return self._display(node, busy, depth)
            case ast.Call():
                return self._call(node, busy, depth)
            case ast.Attribute():
                return self._attribute(node, busy, depth)
            case ast.Name():
                return self._name(node, busy, depth)
        return None

    def _widest(self, nodes: Iterable[ast.expr], busy: frozenset[ast.AST], depth: int) -> int | None:
        ranks = [self._rank(node, busy, depth - 1) for node in nodes]
        if not ranks or None in ranks:
            return None
        known = [rank for rank in ranks if rank is not None and rank != OPEN]
        return max(known) if known else OPEN

    def _display(self, node: ast.expr, busy: frozenset[ast.AST], depth: int) -> int | None:
        elements = [node.elt] if isinstance(node, ast.ListComp) else getattr(node, "elts", [])
        if not elements or any(isinstance(e, ast.Starred) for e in elements):
            return None
        inner = agreed([self._rank(e, busy, depth - 1) for e in elements])
        return inner + 1 if inner is not None and inner >= 0 else inner

    def _subscript(self, node: ast.Subscript, busy: frozenset[ast.AST], depth: int) -> int | None:
        from tapefix.rewrite.accumulators.access import At, NewAxis, Rest, Span, parse_index

        element = self._element_of(node.value, node.slice, busy, depth)
        if element is not None:
            return element
        whole = self._rank(node.value, busy, depth - 1)
        if whole is None or whole == OPEN:
            return whole
        for part in parse_index(node.slice, self.syntax):
            match part:
                case At(node=position):
                    if self.is_array_index(position) or not self._one_position(position, busy, depth):
                        return None
                    whole -= 1
                case NewAxis():
                    whole += 1
                case Span() | Rest():
                    pass
                case _:
                    return None
        return whole if whole >= 0 else None

    def _one_position(self, node: ast.expr, busy: frozenset[ast.AST], depth: int) -> bool:
        return self.is_position(node) or self._rank(node, busy, depth - 1) == 0

    def _element_of(self, whole: ast.expr, index: ast.expr, busy: frozenset[ast.AST], depth: int) -> int | None:
        """The rank of one output of a call that gives several, `self.cell(x, [h])[0]`, or of a dict's element."""
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            value = self.dims.single_value(whole) if isinstance(whole, ast.Name) else whole
            if isinstance(value, ast.Dict):
                keys = [k.value if isinstance(k, ast.Constant) else None for k in value.keys]
                if index.value in keys:
                    return self._rank(value.values[keys.index(index.value)], busy, depth - 1)
        if isinstance(whole, ast.Call) and isinstance(index, ast.Constant) and isinstance(index.value, int):
            return self._output(whole, index.value, busy, depth)
        return None

    def _attribute(self, node: ast.Attribute, busy: frozenset[ast.AST], depth: int) -> int | None:
        if node.attr == "T":
            return self._rank(node.value, busy, depth - 1)
        if node.attr in ("size", "ndim") or dotted(node) in _NUMBERS:
            return 0
        values = self.syntax.values_of_attribute(node.attr, node)
        if node in busy or not values or None in values:
            return None
        return agreed([self._rank(v, busy | {node}, depth - 1) for v in values if v is not None])

    # names

    def _name(self, node: ast.Name, busy: frozenset[ast.AST], depth: int) -> int | None:
        value = self.last_value(node)
        if value is not None:
            if value in busy:
                return OPEN
            return self._rank(value, busy | {value}, depth - 1)
        _, bindings = self.syntax.visible(node.id, node)
        return agreed([self._bound(binding, busy, depth) for binding in bindings])

    def _bound(self, binding: ast.AST, busy: frozenset[ast.AST], depth: int) -> int | None:
        if isinstance(binding, ast.arg):
            return self._argument(binding, busy, depth)
        if binding in busy:
            return OPEN
        busy = busy | {binding}
        path: list[int] = []
        target, parent = binding, self.syntax.parent(binding)
        while isinstance(parent, ast.Tuple | ast.List):
            path.insert(0, parent.elts.index(target))  # type: ignore[arg-type]
            target, parent = parent, self.syntax.parent(parent)
        match parent:
            case ast.Assign(value=value):
                return self._taken(value, path, busy, depth)
            case ast.AnnAssign(value=ast.expr() as value) if not path:
                return self._rank(value, busy, depth - 1)
            case ast.AugAssign(target=ast.Name(id=name) as own, value=value) if own is binding:
                before = [b for b in self.syntax.visible(name, own)[1] if b is not binding]
                ranks = [self._bound(b, busy, depth - 1) for b in before]
                return agreed([*ranks, self._rank(value, busy, depth - 1)]) if None not in ranks else None
            case ast.For(target=bound, iter=iterable) if bound is target:
                return self._element(iterable, path, busy, depth)
            case ast.comprehension(target=bound, iter=iterable) if bound is target:
                return self._element(iterable, path, busy, depth)
        return None

    def _taken(self, value: ast.expr, path: list[int], busy: frozenset[ast.AST], depth: int) -> int | None:
        """The rank of what `a, (b, c) = value` puts at a place."""
        if not path:
            return self._rank(value, busy, depth - 1)
        if isinstance(value, ast.Tuple | ast.List) and path[0] < len(value.elts):
            return self._taken(value.elts[path[0]], path[1:], busy, depth)
        if isinstance(value, ast.Call) and len(path) == 1:
            return self._output(value, path[0], busy, depth)
        return None

    def _element(self, iterable: ast.expr, path: list[int], busy: frozenset[ast.AST], depth: int) -> int | None:
        """The rank of what a loop over an iterable binds at a place of its target."""
        match iterable, path:
            case ast.Call(func=ast.Name(id="enumerate")), [0]:
                return 0
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]), [1, *rest]:
                return self._element(inner, rest, busy, depth)
            case ast.Call(func=ast.Name(id="zip"), args=inners), [place, *rest] if place < len(inners):
                return self._element(inners[place], rest, busy, depth)
            case ast.Call(func=ast.Name(id="reversed" | "list" | "tuple" | "tqdm" | "sorted"), args=[inner, *_]), _:
                return self._element(inner, path, busy, depth)
            case ast.Call(func=func), [] if (dotted(func) or "").split(".")[-1] in ("range", "arange"):
                return 0
            case ast.Call(func=ast.Attribute(attr="unstack")) as call, []:
                return self._output(call, 0, busy, depth)
            case ast.List(elts=elts) | ast.Tuple(elts=elts), [place, *rest]:
                return agreed([self._taken(e, [place, *rest], busy, depth) for e in elts])
        if path:
            return None
        whole = self._rank(iterable, busy, depth - 1)
        return whole - 1 if whole is not None and whole >= 1 else None

    def last_value(self, node: ast.Name) -> ast.expr | None:
        """What a name was last bound to before this use, where every way to the use passes that binding."""
        single = self.dims.single_value(node)
        if single is not None:
            return single
        _, bindings = self.syntax.visible(node.id, node)
        earlier = [b for b in bindings if self.syntax.before(b, node)]
        if not earlier:
            return None
        assign = self.syntax.parent(earlier[-1])
        if not (isinstance(assign, ast.Assign) and earlier[-1] in assign.targets):
            return None
        block = self.syntax.block(assign)
        use = self.syntax.statement(node)
        if use is assign:
            return None
        return assign.value if any(self.syntax.inside(use, s) for s in block[block.index(assign) + 1 :]) else None
