"""Expressions: names, constants, operators and choices."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from dataclasses import replace

from tapefix.flow.facts import How
from tapefix.flow.interpreter.core import BUILTINS, BudgetSpent
from tapefix.flow.interpreter.statements import Statements
from tapefix.flow.objects import Api, Array, Bound, Function, Imported, Instance, Layer, Sequence, WeightOf, api_value
from tapefix.flow.values import (
    MISSING,
    NO_LOST,
    NONE,
    NUMBER,
    NUMERIC,
    UNKNOWN,
    Kind,
    Lost,
    Value,
    Var,
    covers,
    join,
    join_all,
)

_FOLD = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

#: functions of NumPy and `math` with a slope of their own; not the logarithm: what `p log p` lacks sums to nothing
#: where p are shares of a whole
_SMOOTH = frozenset(
    """exp expm1 sqrt cbrt square power sin cos tan sinh cosh tanh arcsin arccos arctan
    reciprocal asin acos atan""".split()
)


_COMPARE = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


SMALL = 1e-5


def negligible(value: Value, factor: Value) -> Value:
    """What is only there to keep a logarithm or root from its pole: `1e-12 * mask`."""
    small = isinstance(factor.const, float) and 0.0 < abs(factor.const) <= SMALL
    return value.with_(lost=NO_LOST) if small and value.lost and not value.live else value


class Expressions(Statements):
    """Evaluates expressions."""

    def eval(self, node: ast.expr) -> Value:
        self.budget -= 1
        if self.budget < 0:
            raise BudgetSpent
        method = self.evaluators[type(node)]
        if method is None:
            return UNKNOWN
        value: Value = method(node)
        seen = value
        if value.ref is not None and isinstance(value.ref, (Var, WeightOf, Array)):
            seen = self.whole(value)
        old = self.seen.get(node)
        if old is None:
            self.seen[node] = seen
        elif old is not seen and not covers(old, seen):
            self.seen[node] = join(old, seen)
        return value

    def eval_Constant(self, node: ast.Constant) -> Value:
        if node.value is None:
            return NONE
        if node in self.seen:
            return self.seen[node]
        dtype = (
            "complex"
            if isinstance(node.value, complex)
            else "float"
            if isinstance(node.value, float)
            else "bool"
            if isinstance(node.value, bool)
            else "int"
            if isinstance(node.value, int)
            else ""
        )
        return Value(Kind.NUMBER, const=node.value, dtype=dtype, node=node)

    def eval_JoinedStr(self, node: ast.JoinedStr) -> Value:
        values = [self.eval(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
        return Value(Kind.NUMBER, lost=self.cut(How.PYTHON_NUMBER, node, values, "text"))

    def eval_Name(self, node: ast.Name) -> Value:
        value = self.scope.lookup(node.id)
        if value is None:
            if node.id == "__name__":
                return Value(Kind.NUMBER, const=self.module.name)
            return api_value("builtins." + node.id) if node.id in BUILTINS else UNKNOWN
        if isinstance(value.ref, Imported):
            value = self.imported(value.ref)
            self.scope.replace(node.id, value)
        return self.refresh(value, node)

    def eval_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.assign(node.target, value, node.value)
        return value

    def eval_Await(self, node: ast.Await) -> Value:
        return self.eval(node.value)

    def eval_Starred(self, node: ast.Starred) -> Value:
        return self.eval(node.value)

    def eval_Lambda(self, node: ast.Lambda) -> Value:
        function = Function(node, self.scope)
        self.bind_defaults(function, node.args)
        return Value(Kind.OBJECT, ref=function, node=node)

    def eval_Yield(self, node: ast.Yield) -> Value:
        self.frame.yields.append(self.eval(node.value) if node.value else NONE)
        return UNKNOWN

    def eval_YieldFrom(self, node: ast.YieldFrom) -> Value:
        self.frame.yields.append(self.element(self.eval(node.value), node))
        return UNKNOWN

    def eval_BinOp(self, node: ast.BinOp) -> Value:
        return self.combine(node.op, self.eval(node.left), self.eval(node.right), node)

    def combine(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        if left.const is not MISSING and right.const is not MISSING and type(op) in _FOLD:
            try:
                return Value(Kind.NUMBER, const=_FOLD[type(op)](left.const, right.const))
            except Exception:
                return NUMBER
        for one, other in ((left, right), (right, left)):
            if isinstance(one.const, complex) and other.kind == Kind.TENSOR and other.dtype != "complex":
                self.misuse(node, "complex")
                return self.carry(node, [left, right], Kind.TENSOR, "complex")
        if isinstance(op, ast.Mod) and isinstance(left.const, str):
            return NUMBER
        if (left.kind | right.kind) & Kind.CONTAINER and not (left.kind | right.kind) & NUMERIC:
            return self._combine_containers(op, left, right, node)
        kinds = left.kind | right.kind
        if kinds & (Kind.TENSOR | Kind.VARIABLE):
            kind = Kind.TENSOR | (
                kinds & Kind.UNKNOWN if not self._sure(left) and not self._sure(right) else Kind.NOTHING
            )
        elif kinds & Kind.ARRAY:
            kind = Kind.ARRAY | (kinds & Kind.UNKNOWN)
        elif kinds & Kind.SHAPE:
            kind = Kind.SHAPE
        else:
            kind = kinds & (Kind.NUMBER | Kind.UNKNOWN) or Kind.UNKNOWN
        if not (left.tainted or right.tainted or self.tapes or left.refs or right.refs):
            return Value(kind, node=node)
        if isinstance(op, ast.FloorDiv):
            if kind & Kind.UNKNOWN:
                return Value(kind, node=node)  # it may be a size
            return Value(kind, lost=self.cut(How.ROUNDED, node, [left, right], "//"), node=node)
        pure_sum = isinstance(op, ast.Add) or (isinstance(op, ast.Sub) and left.reduced and right.reduced)
        # a weight times a detached state is a layer on a lost input, not a weighing
        weighs = isinstance(op, ast.MatMult) and (isinstance(left.ref, Var) or isinstance(right.ref, Var))
        same = isinstance(op, (ast.Sub, ast.Div))
        if isinstance(op, ast.Mult):
            left, right = negligible(left, right), negligible(right, left)
        if isinstance(op, ast.Sub):
            right = self.fraction(left, right)
        elif isinstance(op, ast.Div) and right.lost and not right.live:
            # a number that was taken out by name scales: a bandwidth, a temperature
            right = right.with_(lost=frozenset(x.weakened() if x.site.how is How.TO_NUMPY else x for x in right.lost))
        value = self.carry(node, [left, right], kind, meet=not pure_sum and not weighs, same=same, sums=pure_sum)
        if isinstance(op, ast.Mult) and (missed := self.half_of_a_product(left, right, node)):
            value.lost = value.lost - {x.weakened() for x in missed} | missed
        if isinstance(op, (ast.Add, ast.Sub)) and is_straight_through(value, node):
            value.lost = frozenset(replace(x, weak=True, direct=False) for x in value.lost)
        value.reduced = (left.reduced or left.kind == Kind.NUMBER) and (right.reduced or right.kind == Kind.NUMBER)
        if isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)) and left.dtype == "bool":
            value.dtype = "bool"
        return value

    def half_of_a_product(self, left: Value, right: Value, node: ast.AST) -> frozenset[Lost]:
        """`x * np.tanh(x)`: a smooth function written out beside the very value is a part of it, no weight."""
        return frozenset(
            lost
            for one, other in ((left, right), (right, left))
            for lost in (one.lost if self.whole(other).live and not self.whole(one).live else ())
            if lost.site.how is How.NUMPY_CALL
            and lost.site.detail.rpartition(".")[2] in _SMOOTH
            and (other.near & lost.past or other.ref is lost.source)
            and any(part is lost.site.spot.node for part in ast.walk(node))
        )

    def fraction(self, whole: Value, rounded: Value) -> Value:
        """`x - floor(x)`: the slope of a fraction is that of x, nothing is missing."""
        watched = {tape.watched[id(whole)].source for tape in self.tapes if id(whole) in tape.watched}
        if not rounded.lost or not (whole.near or watched) or rounded.live:
            return rounded
        named = id(whole) in self.named

        def is_part(lost: Lost) -> bool:
            if lost.site.how is How.ROUNDED and lost.source in watched:
                return True
            if lost.site.how not in (How.ROUNDED, How.INTEGER_CAST) or lost.direct or not whole.near <= lost.past:
                return False
            return named or (whole.node is not None and self.text(whole.node) in self.text(lost.site.spot.node))

        kept = frozenset(x for x in rounded.lost if not is_part(x))
        for lost in rounded.lost - kept:
            lost.site.fraction = True  # the whole part, added again to something of the fraction, is a step
        return rounded if len(kept) == len(rounded.lost) else rounded.with_(lost=kept)

    @staticmethod
    def _sure(value: Value) -> bool:
        return not value.kind & Kind.UNKNOWN

    def _combine_containers(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        sequence = Sequence("list")
        for side in (left, right):
            if side.kind & Kind.CONTAINER or side.refs:
                for item in self.iterate_items(side):
                    sequence.add(item)
        if isinstance(op, ast.Mult) or any(isinstance(s.ref, Sequence) and s.ref.items is None for s in (left, right)):
            sequence.forget()
        return Value(Kind.CONTAINER, ref=sequence, node=node)

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Value:
        return self.unary(node, self.eval(node.operand))

    def unary(self, node: ast.UnaryOp, value: Value) -> Value:
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            if truth is not None:
                return Value(Kind.NUMBER, const=not truth)
            return value.with_(kind=value.kind & ~Kind.CONTAINER, ref=None, alts=(), const=MISSING)
        if value.const is not MISSING:
            try:
                return value.with_(const=-value.const if isinstance(node.op, ast.USub) else MISSING)
            except TypeError:
                return NUMBER
        result = self.carry(
            node, [value], value.kind & (NUMERIC | Kind.SHAPE | Kind.NUMBER | Kind.UNKNOWN) or Kind.UNKNOWN
        )
        if result.kind & Kind.VARIABLE:
            result.kind = (result.kind & ~Kind.VARIABLE) | Kind.TENSOR
        result.reduced = value.reduced
        if isinstance(node.op, ast.Invert):
            result.dtype = value.dtype
        return result

    def eval_BoolOp(self, node: ast.BoolOp) -> Value:
        values = [self.eval(v) for v in node.values]
        truths = [self.truth(v) for v in values]
        if isinstance(node.op, ast.And) and any(t is False for t in truths):
            return Value(Kind.NUMBER, const=False)
        if isinstance(node.op, ast.Or) and any(t is True for t in truths):
            for value, truth in zip(values, truths):
                if truth is True:
                    return value if value is values[0] else join_all([values[0], value])
        return join_all(values)

    def eval_Compare(self, node: ast.Compare) -> Value:
        operands = [self.eval(node.left), *(self.eval(c) for c in node.comparators)]
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            return self._identity_test(node, operands)
        if len(operands) == 2 and operands[0].const is not MISSING and operands[1].const is not MISSING:
            try:
                return Value(Kind.NUMBER, const=bool(_COMPARE[type(node.ops[0])](operands[0].const, operands[1].const)))
            except Exception:
                return NUMBER
        kinds = Kind.NOTHING
        for operand in operands:
            kinds |= operand.kind
        if kinds & (Kind.TENSOR | Kind.VARIABLE):
            kind = Kind.TENSOR | (
                kinds & Kind.UNKNOWN
                if not any(o.kind & Kind.TENSOR and self._sure(o) for o in operands)
                else Kind.NOTHING
            )
        elif kinds & Kind.ARRAY:
            kind = Kind.ARRAY | (kinds & Kind.UNKNOWN)
        else:
            kind = kinds & (Kind.NUMBER | Kind.SHAPE | Kind.UNKNOWN) or Kind.UNKNOWN
        if kinds & Kind.SHAPE and not kinds & (Kind.TENSOR | Kind.VARIABLE):
            kind = Kind.SHAPE
        if kind & Kind.UNKNOWN and not any(self.surely_tensor(o) for o in operands):
            return Value(kind, node=node)  # it may be a flag or a size
        lost = self.cut(How.COMPARED, node, operands, "comparison", lost=(node,))
        return Value(kind, lost=lost, dtype="bool", node=node)

    def _identity_test(self, node: ast.Compare, operands: list[Value]) -> Value:
        if len(operands) == 2 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and operands[1].const is None:
            left = operands[0]
            if left.const is None and left.kind == Kind.NUMBER:
                return Value(Kind.NUMBER, const=isinstance(node.ops[0], ast.Is))
            if not left.kind & (Kind.UNKNOWN | Kind.NUMBER):
                return Value(Kind.NUMBER, const=isinstance(node.ops[0], ast.IsNot))
        return NUMBER

    def eval_IfExp(self, node: ast.IfExp) -> Value:
        test = self.eval(node.test)
        truth = self.truth(test)
        if truth is not None:
            return self.eval(node.body if truth else node.orelse)
        on_data, lost = self.predicate(test, node.test, How.PREDICATE)
        ways = [self.judging(node.test, test, holds, self.guards_of(node.test, test, holds)) for holds in (True, False)]
        first, second = self.each_way([(lambda: self.eval(node.body)), (lambda: self.eval(node.orelse))], ways)
        value = join(first, second)
        if on_data:
            if any(isinstance(ref, (Layer, Instance, Function, Bound, Api)) for ref in value.refs):
                value = self.tagged(value, lost)
                self.choices.append((value, node.test))
                return value
            tags = lost | self.exclusive(first, second, node.test, How.PREDICATE)
            if tags:
                value = self.tagged(value, tags)
        return value

    #: values that a test chose between two callables: the tag comes when they are called
    choices: list[tuple[Value, ast.expr]]


def is_straight_through(value: Value, node: ast.AST) -> bool:
    """`hard + soft - stop_gradient(soft)`: the hard value with the soft one's slope, by hand."""
    if not value.live or not any(x.site.how is How.STOPPED for x in value.lost):
        return False
    terms = list(_terms(node.value if isinstance(node, ast.AugAssign) else node))
    added = {ast.unparse(term) for positive, term in terms if positive}
    return any(
        isinstance(term, ast.Call)
        and len(term.args) == 1
        and _last(term.func) == "stop_gradient"
        and ast.unparse(term.args[0]) in added
        for positive, term in terms
        if not positive
    )


def _terms(node: ast.AST, positive: bool = True) -> Iterator[tuple[bool, ast.AST]]:
    """The terms of a sum with their signs: True for what is added."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left, positive)
        yield from _terms(node.right, positive == isinstance(node.op, ast.Add))
    elif isinstance(node, ast.Call) and len(node.args) == 2 and _last(node.func) in ("add", "subtract"):
        yield from _terms(node.args[0], positive)
        yield from _terms(node.args[1], positive == (_last(node.func) == "add"))
    else:
        yield positive, node


def _last(function: ast.expr) -> str:
    """`add` of `tf.math.add`."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
