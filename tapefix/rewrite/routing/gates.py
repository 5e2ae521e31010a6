"""Gates: the number 1 or 0 in the place of a decision, with a gradient; and values blended by them."""

from __future__ import annotations

import ast

from tapefix.rewrite.routing.conditions import constant
from tapefix.rewrite.routing.numbers import Soften
from tapefix.rewrite.routing.site import Site, Unclear, joined

#: what gives no number for some inputs, so that a branch that was not chosen may not run on just anything
_RISKY = frozenset(
    "log log2 log10 log1p sqrt rsqrt pow divide truediv reciprocal acos asin acosh atanh lgamma digamma".split()
)
HUGE = 1e4


class Gates:
    """Makes gates at one place and blends values by them."""

    def __init__(self, site: Site, soften: Soften):
        self.site, self.soften = site, soften

    def gate(self, condition: ast.expr, at: ast.expr | None = None) -> str:
        """A name (or expression) for the gate of a condition. Raises Unclear where it has no soft counterpart."""
        site = self.site
        at = at if at is not None else condition
        soft = self.soften.truth(condition)
        if self.is_exact(condition):
            return soft
        if site.soft:
            return site.name_for(soft, at, "gate")
        name = site.name_for(soft, at, "soft")
        hard = self.soften.hard(condition)
        text = joined("{s} + tf.stop_gradient(tf.cast({hard}, {s}.dtype) - {s})", s=name, hard=hard)
        return site.name_for(text, at, "gate")

    def is_exact(self, condition: ast.expr) -> bool:
        """The condition is a number that is 0 or 1, or its comparison with one of them: it is a mask already."""
        node = self.site.definition(condition)
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.is_exact(operand)
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                for one, other in ((left, right), (right, left)):
                    if constant(other) in (0.0, 1.0) and not self.soften.is_truth(one):
                        return self.site.alive(one) and self.is_mask(one)
                return False
            case ast.Call() if self.site.operation(node) in ("equal", "not_equal") and len(node.args) == 2:
                return self.is_exact(ast.Compare(node.args[0], [ast.Eq()], [node.args[1]]))
        return not self.soften.is_truth(node) and self.site.alive(condition) and self.is_mask(condition)

    def is_mask(self, node: ast.expr) -> bool:
        """A number that the program compares with exactly 0 or 1 is meant to be one of them, unless it is seen to be
        something else: the output of a smooth layer or function."""
        node = self.site.definition(node)
        if isinstance(node, ast.Subscript):
            return self.is_mask(node.value)
        return self.site.activation(node) not in ("sigmoid", "softmax", "tanh", "relu", "linear", "softplus")

    # blending

    def blend(self, gate: str, one: str, other: str) -> str:
        """`one` where the gate is 1, `other` where it is 0."""
        if one == other:
            return one
        left = complement(gate)
        if left is not None and _number(one) is None:
            return self.blend(left, other, one)
        a, b = _number(one), _number(other)
        if a == 1.0 and b == 0.0:
            return gate
        if a == 0.0 and b == 1.0:
            return joined("1.0 - {g}", g=gate)
        if b == 0.0:
            return joined("{g} * {a}", g=gate, a=one)
        if a == 0.0:
            return joined("(1.0 - {g}) * {b}", g=gate, b=other)
        if a is not None and b is not None:
            return joined(f"{b} + {{g}} * {a - b}" if a > b else f"{b} - {{g}} * {b - a}", g=gate)
        step = _step(one, other)
        if step is not None:
            sign, more = step
            return joined(f"{{b}} {sign} {{g}} * {{more}}", b=other, g=gate, more=more)
        step = _step(other, one)
        if step is not None:
            sign, more = step
            return joined(f"{{a}} {sign} (1.0 - {{g}}) * {{more}}", a=one, g=gate, more=more)
        return joined("{g} * {a} + (1.0 - {g}) * {b}", g=gate, a=one, b=other)

    def guarded(self, branch: ast.expr, condition: ast.expr, holds: bool) -> str:
        """The branch's text, safe to run also where it is not chosen: operations that are not defined everywhere get
        1 there, in their input, so that neither the value nor the gradient becomes NaN."""
        site = self.site
        text = site.text(branch)
        shared = self._names(condition)
        places: list[ast.expr] = []
        for operation in ast.walk(branch):
            argument = self._risky_argument(operation)
            if argument is None or not (shared & self._names(argument) or site.alive(argument)):
                continue
            if not any(site.syntax.inside(argument, place) for place in places):
                places.append(argument)
        if not places or text != site.document.source(branch):
            return text
        start, _ = site.document.span(branch)
        hard = self.soften.hard(condition)
        if site.direct(condition):
            hard = site.name_for(joined("tf.stop_gradient({c})", c=hard), condition, "chosen")
        for place in sorted(places, key=lambda p: -site.document.span(p)[0]):
            a, b = site.document.span(place)
            template = "tf.where({c}, {x}, tf.ones_like({x}))" if holds else "tf.where({c}, tf.ones_like({x}), {x})"
            text = text[: a - start] + joined(template, c=hard, x=site.document.source(place)) + text[b - start :]
        return text

    def _names(self, node: ast.expr) -> set[str]:
        """What an expression reads, also by way of the names it is made of."""
        found = {ast.unparse(n) for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))}
        for inner in [n for n in ast.walk(node) if isinstance(n, ast.Name)]:
            value = self.site.definition(inner)
            if value is not inner:
                found |= {ast.unparse(n) for n in ast.walk(value) if isinstance(n, (ast.Name, ast.Attribute))}
        return {name for name in found if name != "self" and not name.startswith(("tf", "ops", "np", "K."))}

    def _risky_argument(self, node: ast.AST) -> ast.expr | None:
        """The input for which an operation may give no number."""
        if isinstance(node, ast.BinOp) and self._is_risky(node):
            return node.right if isinstance(node.op, ast.Div) else node.left
        if isinstance(node, ast.Call) and self._is_risky(node) and node.args:
            divides = self.site.operation(node) in ("divide", "truediv")
            return node.args[1] if divides and len(node.args) > 1 else node.args[0]
        return None

    def _is_risky(self, node: ast.AST) -> bool:
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, (ast.Div, ast.Pow)) and not isinstance(node.right, ast.Constant)
        return self.site.operation(node) in _RISKY


def _number(text: str) -> float | None:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in ("zeros_like", "zeros") and node.args:
            return 0.0
        if name in ("ones_like", "ones") and node.args:
            return 1.0
        if name in ("constant", "convert_to_tensor", "float") and node.args:
            return constant(node.args[0])
    return constant(node)


def complement(gate: str) -> str | None:
    """x of `1.0 - x`."""
    node = ast.parse(gate.strip(), mode="eval").body
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and constant(node.left) == 1.0:
        return ast.get_source_segment(gate.strip(), node.right)
    return None


def _step(longer: str, shorter: str) -> tuple[str, str] | None:
    """(`+` or `-`, more) where `longer` is `shorter + more`: a residual."""
    try:
        node = ast.parse(longer.strip(), mode="eval").body
        base = ast.dump(ast.parse(shorter.strip(), mode="eval").body)
    except SyntaxError:
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        if ast.dump(node.left) == base:
            return ("+" if isinstance(node.op, ast.Add) else "-"), ast.get_source_segment(
                longer.strip(), node.right
            ) or ""
    return None


def refuse_other_types(site: Site, *branches: ast.expr) -> None:
    """Only floats can be weighed."""
    for branch in branches:
        if site.dtype(branch) in ("int", "bool") and not isinstance(branch, ast.Constant):
            raise Unclear(f"`{site.brief(branch)}` is no float, so that it can't be weighed")
        if isinstance(branch, ast.Constant) and isinstance(branch.value, (str, bytes, type(None))):
            raise Unclear(f"`{site.brief(branch)}` is no number")
