"""What a truth value is softly: a number between 0 and 1 that has a gradient, and near 1 where the truth holds."""

from __future__ import annotations

import ast

from tapefix.rewrite.routing.site import Site, Unclear, joined

_GREATER = {"greater", "greater_equal"}
_LESS = {"less", "less_equal"}
_EQUAL = {"equal", "not_equal"}
_COMPARING = {
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
TRUTHS = (
    _GREATER
    | _LESS
    | _EQUAL
    | {"logical_and", "logical_or", "logical_not", "logical_xor", "reduce_any", "reduce_all", "any", "all"}
)


class Conditions:
    """Says truth values softly. Every method raises Unclear where there is no sensible way."""

    def __init__(self, site: Site):
        self.site = site

    def number(self, node: ast.expr) -> str:
        raise NotImplementedError

    def distribution(self, node: ast.expr) -> tuple[str, str] | None:
        raise NotImplementedError

    def is_truth(self, node: ast.expr) -> bool:
        """Whether an expression is a truth value (and not a number that is used as one)."""
        node = self.site.definition(node)
        match node:
            case ast.Compare() | ast.BoolOp():
                return True
            case ast.UnaryOp(op=ast.Not()):
                return True
            case ast.UnaryOp(op=ast.Invert()) | ast.Subscript():
                return self.is_truth(node.operand if isinstance(node, ast.UnaryOp) else node.value)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor()):
                return self.is_truth(node.left)
            case ast.Call():
                operation = self.site.operation(node)
                if operation in ("reshape", "expand_dims", "squeeze", "transpose", "identity", "stop_gradient"):
                    return bool(node.args) and self.is_truth(node.args[0])
                return operation in TRUTHS or self.site.dtype(node) == "bool"
        return self.site.dtype(node) == "bool"

    def truth(self, node: ast.expr) -> str:
        """The soft counterpart of a truth value."""
        site = self.site
        if not site.trained(node):
            return self.as_number(node)
        match node:
            case ast.Name():
                if site.alive(node) and not self.is_truth(node):
                    return site.text(node)  # a number used as a truth value: 0 or 1
                value = site.definition(node)
                if value is not node:
                    return self.truth(value)
            case ast.Compare():
                return self._compared(node)
            case ast.BoolOp(values=values):
                return self._both(values) if isinstance(node.op, ast.And) else self._either(values)
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return joined("1.0 - {p}", p=self.truth(operand))
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self._both([left, right])
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._either([left, right])
            case ast.BinOp(left=left, op=ast.BitXor(), right=right):
                return self._equal(left, right, False)
            case ast.Subscript(value=value) if self.is_truth(value):
                return f"{joined('{p}.a', p=self.truth(value))[:-2]}[{site.text(node.slice)}]"
            case ast.Call(func=ast.Name(id="bool" | "float" | "int"), args=[inner]):
                return self.truth(inner)
            case ast.Call():
                return self._truth_called(node)
        if site.alive(node):
            return site.text(node)
        raise Unclear(f"what `{site.brief(node)}` means softly can't be told")

    def as_number(self, node: ast.expr) -> str:
        """A truth value or number that no weight has to do with, as a float."""
        site = self.site
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return "1.0" if node.value else "0.0"
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return f"{node.value}.0"
        if site.is_number(node) and not self.is_truth(node):
            return site.text(node)
        if site.dtype(node) == "float":
            return site.text(node)
        return joined("tf.cast({it}, tf.float32)", it=self.hard(node))

    def hard(self, node: ast.expr) -> str:
        """A Python test as a tensor of truth values: `and`, `or` and `not` said by TensorFlow."""
        site = self.site
        match node:
            case ast.BoolOp(op=op, values=values):
                name = "tf.logical_and" if isinstance(op, ast.And) else "tf.logical_or"
                text = self.hard(values[0])
                for value in values[1:]:
                    text = joined(f"{name}({{a}}, {{b}})", a=text, b=self.hard(value))
                return text
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return joined("tf.logical_not({it})", it=self.hard(operand))
            case ast.Call(func=ast.Name(id="bool"), args=[inner]):
                return self.hard(inner)
            case ast.Compare(left=left, ops=ops, comparators=rights) if len(ops) > 1:
                sides = [left, *rights]
                pairs = [ast.Compare(a, [op], [b]) for a, op, b in zip(sides, ops, rights, strict=False)]
                signs = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
                texts = [
                    joined(f"{{a}} {signs[type(p.ops[0])]} {{b}}", a=site.text(p.left), b=site.text(p.comparators[0]))
                    for p in pairs
                    if type(p.ops[0]) in signs
                ]
                if len(texts) != len(pairs):
                    raise Unclear(f"`{site.brief(node)}` is no comparison of numbers")
                text = texts[0]
                for more in texts[1:]:
                    text = joined("tf.logical_and({a}, {b})", a=text, b=more)
                return text
        if not self.is_truth(node) and not site.is_number(node):
            return joined("tf.cast({it}, tf.bool)", it=site.text(node))
        return site.text(node)

    def _both(self, values: list[ast.expr]) -> str:
        text = self.truth(values[0])
        for value in values[1:]:
            text = joined("{a} * {b}", a=text, b=self.truth(value))
        return text

    def _either(self, values: list[ast.expr]) -> str:
        text = joined("1.0 - {p}", p=self.truth(values[0]))
        for value in values[1:]:
            text = joined("{a} * (1.0 - {b})", a=text, b=self.truth(value))
        return joined("1.0 - {p}", p=text)

    def _compared(self, node: ast.Compare) -> str:
        sides = [node.left, *node.comparators]
        text = ""
        for left, op, right in zip(sides, node.ops, node.comparators, strict=False):
            name = _COMPARING.get(type(op))
            if name is None:
                raise Unclear(f"`{self.site.brief(node)}` compares no numbers")
            one = self._pair(name, left, right)
            text = joined("{a} * {b}", a=text, b=one) if text else one
        return text

    def _pair(self, name: str, left: ast.expr, right: ast.expr) -> str:
        if name in _EQUAL:
            return self._equal(left, right, name == "equal")
        if name in _LESS:
            left, right = right, left
        if self._is_uniform(right):
            return self.number(left)  # the chance that a uniform draw is smaller
        if self._is_uniform(left):
            return joined("1.0 - {p}", p=self.number(right))
        if self.is_truth(left) or self.is_truth(right):
            raise Unclear("truth values are compared by size")
        if _is_zero(right):
            return joined("tf.sigmoid({a})", a=self.number(left))
        if _is_zero(left):
            return joined("tf.sigmoid(-{a})", a=self.number(right))
        return joined("tf.sigmoid({a} - {b})", a=self._side(left, right), b=self._side(right, left))

    def _side(self, node: ast.expr, other: ast.expr) -> str:
        """One side of a comparison; one that lost its gradient for good is a number like any other beside one that
        carries it."""
        try:
            return self.number(node)
        except Unclear:
            if self.site.alive(other) and isinstance(node, ast.Name):
                return self.site.text(node)
            raise

    def _is_uniform(self, node: ast.expr) -> bool:
        """A uniform draw between 0 and 1."""
        node = self.site.definition(node)
        if not isinstance(node, ast.Call) or self.site.operation(node) not in (
            "uniform",
            "stateless_uniform",
            "random_uniform",
        ):
            return False
        bounds = [self.site.argument(node, i, name) for i, name in ((1, "minval"), (2, "maxval"))]
        if self.site.operation(node) == "stateless_uniform":
            bounds = [k.value for k in node.keywords if k.arg in ("minval", "maxval")]
        return all(b is None or constant(b) in (0.0, 1.0) for b in bounds)

    def _equal(self, left: ast.expr, right: ast.expr, equal: bool) -> str:
        site = self.site
        for one, other in ((left, right), (right, left)):
            spread = self.distribution(one) if site.trained(one) else None
            if spread is not None and not site.trained(other):
                probabilities, depth = spread
                agree = joined(
                    "tf.reduce_sum({p} * tf.one_hot({labels}, {depth}, dtype={p}.dtype), axis=-1)",
                    p=probabilities,
                    labels=site.once(other),
                    depth=depth,
                )
                return agree if equal else joined("1.0 - {p}", p=agree)
            number = constant(other)
            if number in (0.0, 1.0):
                soft = self.truth(one) if self.is_truth(one) else self.number(one)
                return soft if (number == 1.0) == equal else joined("1.0 - {p}", p=soft)
        best = self._winner(left, right)
        if best:
            return best if equal else joined("1.0 - {p}", p=best)
        texts = [
            (self.truth(side) if self.is_truth(side) else self.number(side))
            if site.trained(side)
            else self.as_number(side)
            for side in (left, right)
        ]
        if self.is_truth(left) or self.is_truth(right) or self._zero_or_one(left) or self._zero_or_one(right):
            agree = joined("1.0 - tf.abs({a} - {b})", a=texts[0], b=texts[1])
            return agree if equal else joined("tf.abs({a} - {b})", a=texts[0], b=texts[1])
        agree = joined("tf.exp(-tf.square({a} - {b}))", a=texts[0], b=texts[1])
        return agree if equal else joined("1.0 - {p}", p=agree)

    def _zero_or_one(self, node: ast.expr) -> bool:
        """A number that can only be 0 or 1: a rounded or chosen one."""
        node = self.site.definition(node)
        operation = self.site.operation(node)
        return isinstance(node, ast.Call) and (
            operation in ("round", "rint")
            or (operation in ("cast",) and bool(node.args) and self.is_truth(node.args[0]))
            or (operation == "where" and all(constant(a) in (0, 1, 0.0, 1.0) for a in node.args[1:3]))
        )

    def _winner(self, left: ast.expr, right: ast.expr) -> str:
        """`x == max(x)`: the softmax."""
        site = self.site
        for one, other in ((left, right), (right, left)):
            best = site.definition(other)
            if site.operation(best) in ("reduce_max", "max", "amax") and isinstance(best, ast.Call) and best.args:
                if ast.unparse(best.args[0]) == ast.unparse(one):
                    axis = site.argument(best, 1, "axis")
                    template = "tf.nn.softmax({x}, axis={axis})" if axis is not None else "tf.nn.softmax({x})"
                    return joined(template, x=site.text(one), **({"axis": site.text(axis)} if axis is not None else {}))
        return ""

    def _truth_called(self, node: ast.Call) -> str:
        site, operation = self.site, self.site.operation(node)
        first, second = (
            site.argument(node, 0, "x", "x1", "a", "input_tensor", "input"),
            site.argument(node, 1, "y", "x2", "b"),
        )
        if operation in _GREATER | _LESS | _EQUAL and first is not None and second is not None:
            return self._pair(operation, first, second)
        if operation == "logical_and" and first is not None and second is not None:
            return self._both([first, second])
        if operation == "logical_or" and first is not None and second is not None:
            return self._either([first, second])
        if operation == "logical_xor" and first is not None and second is not None:
            return self._equal(first, second, False)
        if operation == "logical_not" and first is not None:
            return joined("1.0 - {p}", p=self.truth(first))
        if operation in ("reduce_any", "reduce_all", "any", "all") and first is not None:
            rest = ", ".join(
                site.text(a)
                for a in [*node.args[1:], *(k for k in node.keywords if k.arg not in ("input_tensor", "x"))]
            )
            rest = f", {rest}" if rest else ""
            if operation.endswith("all"):
                return f"tf.reduce_prod({self.truth(first)}{rest})"
            inner = joined("1.0 - {p}", p=self.truth(first))
            return f"1.0 - tf.reduce_prod({inner}{rest})"
        if operation in ("cast", "saturate_cast") and first is not None:
            if self.is_truth(first):
                return self.truth(first)
            return joined("tf.tanh(tf.abs({x}))", x=self.number(first))
        if (
            operation in ("reshape", "expand_dims", "squeeze", "transpose", "identity", "convert_to_tensor")
            and node.args
        ):
            rest = ", ".join(site.text(a) for a in [*node.args[1:], *node.keywords])
            return f"{site.text(node.func)}({self.truth(node.args[0])}{', ' + rest if rest else ''})"
        if operation == "stop_gradient":
            raise Unclear("the condition is stopped on purpose")
        if site.alive(node):
            return site.once(node)
        raise Unclear(f"what `{site.brief(node)}` means softly can't be told")


def constant(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = constant(node.operand)
        return -inner if inner is not None else None
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    return None


def _is_zero(node: ast.expr) -> bool:
    return constant(node) == 0.0
