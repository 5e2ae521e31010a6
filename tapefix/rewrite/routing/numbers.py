"""What a number that lost its gradient is softly: counts, positions, rounded and looked-up values.

A soft value has the gradient that the hard one lacks, and often another value: it is meant to stand in
`soft + tf.stop_gradient(hard - soft)`, or alone where the forward value may change.
"""

from __future__ import annotations

import ast

from tapefix.flow.libraries.operations import HOW_OF, INDEX_OF, SAMPLED
from tapefix.flow.objects import Layer
from tapefix.rewrite.routing.conditions import Conditions
from tapefix.rewrite.routing.pixels import slopes
from tapefix.rewrite.routing.site import Exact, Site, Unclear, joined

ROUNDING = {"round", "rint", "floor", "ceil", "trunc"}
CASTS = {"cast", "saturate_cast", "to_float", "to_int32", "to_int64", "to_double"}
GATHERS = {"gather", "take", "embedding_lookup"}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@"}
_DRAWS = {"categorical", "stateless_categorical", "multinomial", "stateless_multinomial"}


class Soften(Conditions):
    """Says numbers softly. Every method raises Unclear where there is no sensible way."""

    def __init__(self, site: Site):
        super().__init__(site)
        self.cold = False

    def number(self, node: ast.expr) -> str:
        """The soft counterpart of a number, as a float."""
        site = self.site
        if not self.hardened(node):
            if site.dtype(node) in ("int", "bool") and not isinstance(node, ast.Constant):
                return joined("tf.cast({it}, tf.float32)", it=site.text(node))
            return self.as_number(node) if isinstance(node, ast.Constant) else site.once(node)
        if self.is_truth(node) and not isinstance(node, ast.Name):
            return self.truth(node)
        match node:
            case ast.Name():
                value = site.definition(node)
                if value is node:
                    raise Unclear(f"`{node.id}` is bound at several places or elsewhere")
                return self.number(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return joined("-{x}", x=self.number(operand))
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                return joined("{a} / {b}", a=self.number(left), b=self.number(right))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return joined(f"{{a}} {_ARITHMETIC[type(op)]} {{b}}", a=self.number(left), b=self.number(right))
            case ast.Subscript(value=value, slice=index) if not self.hardened(index):
                return joined(f"{{x}}[{site.text(index)}]", x=self.number(value))
            case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
                return self.number(inner)
            case ast.Call():
                return self._called(node, site.operation(node))
        if site.alive(node):
            return site.once(node)
        raise Unclear(f"what `{site.brief(node)}` means softly can't be told")

    def hardened(self, node: ast.AST) -> bool:
        """A gradient is lost in the expression, or before it, and its own value does not carry it."""
        site = self.site
        if isinstance(node, (ast.Name, ast.Attribute)):
            return site.loses(node) and not site.alive(node)
        if site.loses(node) and not site.alive(node):
            return True
        return any(
            self.hardened(inner) for inner in ast.iter_child_nodes(node) if isinstance(inner, (ast.expr, ast.keyword))
        )

    def _called(self, node: ast.Call, operation: str) -> str:
        site = self.site
        first = site.argument(node, 0, "x", "input_tensor", "input", "tensor", "value", "values", "params", "condition")
        if operation in CASTS and first is not None:
            if self.is_truth(first):
                return self.truth(first)
            mean = self.expected(first)
            return mean if mean is not None else self.number(first)
        if operation in ROUNDING and first is not None:
            return self.number(first)
        if operation == "sign" and first is not None:
            return joined("tf.tanh({x})", x=self.number(first))
        if operation in ("floordiv", "floor_div", "floor_divide") and len(node.args) == 2:
            return joined("{a} / {b}", a=self.number(node.args[0]), b=self.number(node.args[1]))
        if operation in ("poisson", "random_poisson") and len(node.args) > 1:
            return self.number(node.args[1])
        if operation in INDEX_OF:
            mean = self.expected(node)
            if mean is not None:
                return mean
            if operation == "argsort":
                return self._ranks(node)
            raise Unclear(f"`{site.brief(node)}` has no position to expect")
        if operation == "one_hot":
            return self._one_hot(node)
        if operation in GATHERS:
            return self._gathered(node)
        if operation == "gather_nd":
            return slopes(self, node)
        if operation == "take_along_axis":
            return self._taken_along(node)
        if operation in ("where", "select", "switch") and len(node.args) == 3:
            condition, one, other = node.args
            p = site.name_for(self.truth(condition), condition, "soft")
            return joined("{p} * {a} + (1.0 - {p}) * {b}", p=p, a=self.number(one), b=self.number(other))
        if operation == "count_nonzero" and first is not None:
            rest = self._rest(node, 1, drop=("dtype", "input", "input_tensor", "x"))
            inner = self.truth(first) if self.is_truth(first) else self._nonzero(first)
            return f"tf.reduce_sum({inner}{rest})"
        if operation == "bincount":
            spread = self.distribution(first) if first is not None else None
            if spread is None:
                raise Unclear(f"`{site.brief(node)}` counts what has no probabilities")
            return f"tf.reduce_sum(tf.reshape({spread[0]}, [-1, {spread[1]}]), axis=0)"
        if operation == "confusion_matrix":
            return self._confusion(node)
        if operation == "stop_gradient":
            raise Unclear("the value is stopped on purpose")
        if self._is_embedding(node) and node.args:
            return self._looked_up(node)
        if operation in HOW_OF:
            raise Unclear(f"`{site.brief(node)}` has no soft counterpart that fits every use")
        if operation:
            return self._applied(node)
        if site.alive(node):
            return site.once(node)
        raise Unclear(f"what `{site.brief(node)}` means softly can't be told")

    def _applied(self, node: ast.Call) -> str:
        """A differentiable operation on soft values."""
        site = self.site
        parts = []
        for argument in node.args:
            parts.append(self._element(argument))
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Unclear("arguments are handed on by `**`")
            value = self._element(keyword.value) if self.hardened(keyword.value) else site.text(keyword.value)
            parts.append(f"{keyword.arg}={value}")
        return f"{site.text(node.func)}({', '.join(parts)})"

    def _element(self, node: ast.expr) -> str:
        if isinstance(node, (ast.List, ast.Tuple)) and self.hardened(node):
            inner = ", ".join(self.number(e) for e in node.elts)
            return f"[{inner}]"
        if isinstance(node, ast.Starred):
            raise Unclear("arguments are handed on by `*`")
        return self.number(node) if self.hardened(node) else self.site.text(node)

    def _rest(self, node: ast.Call, start: int, drop: tuple[str, ...]) -> str:
        texts = [self.site.text(a) for a in node.args[start:]]
        texts += [self.site.text(k) for k in node.keywords if k.arg not in drop]
        return "".join(f", {t}" for t in texts)

    def _nonzero(self, node: ast.expr) -> str:
        value = self.site.definition(node)
        if self.site.operation(value) in CASTS and isinstance(value, ast.Call) and self.is_truth(value.args[0]):
            return self.truth(value.args[0])
        return joined("tf.tanh(tf.abs({x}))", x=self.number(node))

    # positions

    def distribution(self, node: ast.expr) -> tuple[str, str] | None:
        """(probabilities over the last axis, their number) of an index that was picked by size or drawn; else None."""
        site = self.site
        node = site.origin(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
            return self.distribution(node.args[0])
        operation = site.operation(node)
        if isinstance(node, ast.Subscript):
            return self._drawn(node.value)
        if not isinstance(node, ast.Call):
            return None
        first = site.argument(node, 0, "input", "x", "input_tensor", "logits", "tensor")
        if first is None:
            return None
        if operation in CASTS and not self.is_truth(first):
            return self.distribution(first)
        if operation in ("argmax", "arg_max", "argmin", "arg_min"):
            axis = site.argument(node, 1, "axis", "dimension")
            if not self._last_axis(first, axis):
                raise Unclear(f"`{site.brief(node)}` picks along an axis that is not the last")
            if self.hardened(first):
                raise Unclear(f"`{site.brief(first)}` has lost its gradient before")
            return self._probabilities(first, "min" in operation, node)
        if operation == "squeeze" and isinstance(first, ast.Call):
            return self._drawn(first)
        return None

    def _drawn(self, node: ast.expr) -> tuple[str, str] | None:
        """One draw from a categorical distribution: the draws' own axis was taken off."""
        node = self.site.origin(node)
        if not isinstance(node, ast.Call) or self.site.operation(node) not in _DRAWS:
            return None
        logits = self.site.argument(node, 0, "logits")
        count = self.site.argument(node, 1, "num_samples")
        if logits is None or self.hardened(logits):
            return None
        if isinstance(logits, ast.Subscript) and isinstance(logits.slice, ast.Constant) and logits.slice.value is None:
            logits = logits.value  # many draws from one distribution
        elif not (isinstance(count, ast.Constant) and count.value == 1):
            return None
        return self._probabilities(logits, False, node)

    def _probabilities(self, scores: ast.expr, smallest: bool, at: ast.expr) -> tuple[str, str]:
        site = self.site
        if not smallest and site.activation(scores) == "softmax":
            name = site.once(scores, "probabilities")
        else:
            value = site.once(scores, "scores")
            text = joined("tf.nn.softmax(-{x})" if smallest else "tf.nn.softmax({x})", x=value)
            name = site.name_for(text, scores, "probabilities")
        return name, joined("tf.shape({p})[-1]", p=name)

    def _last_axis(self, node: ast.expr, axis: ast.expr | None) -> bool:
        rank = self.site.facts.rank(node)
        number = ast.literal_eval(axis) if axis is not None and _is_literal(axis) else (0 if axis is None else None)
        if not isinstance(number, int):
            return False
        if number < 0:
            return number == -1
        if rank is not None:
            return number == rank - 1
        return number <= 1  # most have as few axes as that, and a vector has no axis 1

    def expected(self, node: ast.expr) -> str | None:
        """The mean of a whole-number expression over the probabilities of the one index that it is made of."""
        found: dict[str, tuple[str, str]] = {}
        places: list[ast.expr] = []
        self._indices(node, found, places)
        if len(found) != 1 or "" in found:
            return None
        ((name, depth),) = found.values()
        positions = joined("tf.range({depth})", depth=depth)
        if len(places) == 1 and places[0] is node:
            return joined("tf.tensordot({p}, tf.range(tf.cast({depth}, {p}.dtype)), 1)", p=name, depth=depth)
        text = _with(self.site, node, places, positions)
        return joined("tf.tensordot({p}, tf.cast({f}, {p}.dtype), 1)", p=name, f=text)

    def _indices(self, node: ast.expr, found: dict[str, tuple[str, str]], places: list[ast.expr]) -> None:
        """The index that an elementwise whole-number expression is made of; nothing where it is not elementwise."""
        spread = self.distribution(node)
        if spread is not None:
            found[spread[0]] = spread
            places.append(node)
            return
        if not self.hardened(node):
            if not (isinstance(node, ast.Constant) or self.site.is_number(node)):
                found[""] = ("", "")  # another tensor: the mean is not that of a table
            return
        match node:
            case ast.BinOp(left=left, right=right):
                self._indices(left, found, places)
                self._indices(right, found, places)
                return
            case ast.UnaryOp(operand=operand):
                self._indices(operand, found, places)
                return
        found[""] = ("", "")

    def _one_hot(self, node: ast.Call) -> str:
        site = self.site
        indices = site.argument(node, 0, "indices", "x")
        depth = site.argument(node, 1, "depth", "num_classes")
        if indices is None or depth is None:
            raise Unclear(f"`{site.brief(node)}` says no depth")
        spread = self.distribution(indices)
        if spread is not None:
            return spread[0]
        # a rounded number: the rows around it share the weight
        return joined(
            "tf.nn.relu(1.0 - tf.abs(tf.expand_dims({x}, -1) - tf.range(tf.cast({depth}, tf.float32))))",
            x=site.name_for(self.number(indices), indices, "position"),
            depth=site.text(depth),
        )

    def _gathered(self, node: ast.Call) -> str:
        site = self.site
        table = site.argument(node, 0, "params", "x", "a")
        indices = site.argument(node, 1, "indices", "ids")
        axis = site.argument(node, 3, "axis") if site.operation(node) == "gather" else site.argument(node, 2, "axis")
        batch = next((k.value for k in node.keywords if k.arg == "batch_dims"), None)
        if table is None or indices is None or self.hardened(table):
            raise Unclear(f"the table of `{site.brief(node)}` has lost its gradient as well")
        spread = self.distribution(indices)
        if spread is None:
            return self._between(node, table, indices, axis, batch)
        probabilities = spread[0]
        rows = site.once(table, "table")
        if batch is not None:
            if not _is_one(batch):
                raise Unclear(f"`{site.brief(node)}` gathers by more than one batch axis")
            if axis is not None and not _is_one(axis):
                raise Unclear(f"`{site.brief(node)}` gathers along an axis behind others")
            rank = site.facts.rank(table)
            if rank == 2:
                return joined("tf.reduce_sum({p} * {rows}, axis=-1)", p=probabilities, rows=rows)
            return joined('tf.einsum("bn,bn...->b...", {p}, {rows})', p=probabilities, rows=rows)
        if axis is not None and not (_is_literal(axis) and ast.literal_eval(axis) == 0):
            return joined(
                "tf.tensordot({rows}, {p}, [[{axis}], [-1]])", rows=rows, p=probabilities, axis=site.text(axis)
            )
        return joined("tf.tensordot({p}, {rows}, 1)", p=probabilities, rows=rows)

    def _taken_along(self, node: ast.Call) -> str:
        """`take_along_axis(values, expand_dims(argmax(scores), -1), -1)`: the mean over the last axis.

        `take_along_axis(values, argmax(scores)[:, None, None], 1)`: one row of each sample, over the second axis.
        """
        site = self.site
        values, indices = site.argument(node, 0, "x", "arr"), site.argument(node, 1, "indices")
        axis = site.argument(node, 2, "axis")
        wide = site.origin(indices) if indices is not None else None
        one_each = _widened(wide)
        if values is not None and axis is not None and _is_one(axis) and one_each is not None:
            spread = self.distribution(one_each)
            if spread is not None and not self.hardened(values):
                rows = site.once(values, "values")
                return joined('tf.einsum("bn,bn...->b...", {p}, {v})[:, None]', p=spread[0], v=rows)
        if values is None or not (axis is None or (_is_literal(axis) and ast.literal_eval(axis) == -1)):
            raise Unclear(f"`{site.brief(node)}` takes along an axis that is not the last")
        spread = None
        if isinstance(wide, ast.Call) and site.operation(wide) == "expand_dims" and wide.args:
            spread = self.distribution(wide.args[0])
        if spread is None or self.hardened(values):
            raise Unclear(f"`{site.brief(node)}` takes what has no probabilities")
        return joined("tf.reduce_sum({p} * {v}, axis=-1, keepdims=True)", p=spread[0], v=site.once(values, "values"))

    def _between(
        self, node: ast.Call, table: ast.expr, indices: ast.expr, axis: ast.expr | None, batch: ast.expr | None
    ) -> str:
        """A row between two neighbours, for an index that is a rounded number."""
        site = self.site
        if axis is not None or batch is not None:
            raise Unclear(f"`{site.brief(node)}` looks up along another axis by a rounded number")
        position = site.name_for(self.number(indices), indices, "position")
        rank = site.facts.rank(table)
        if rank != 1 and not (rank is None and self._is_flat(table)):
            raise Unclear(f"`{site.brief(node)}` looks up rows by a rounded number; interpolate between neighbours")
        rows = site.once(table, "table")
        index = site.text(indices)
        picked = site.name_for(joined("tf.gather({t}, {i})", t=rows, i=index), node, "picked")
        following = joined("tf.gather({t}, tf.minimum({i} + 1, tf.shape({t})[0] - 1))", t=rows, i=index)
        return Exact(joined("{r} + ({x} - tf.stop_gradient({x})) * ({f} - {r})", r=picked, x=position, f=following))

    def _is_flat(self, table: ast.expr) -> bool:
        made = self.site.definition(table)
        if isinstance(made, ast.Call) and made.args and isinstance(made.args[0], ast.List):
            return not any(isinstance(e, (ast.List, ast.Tuple)) for e in made.args[0].elts)
        return False

    def _is_embedding(self, node: ast.Call) -> bool:
        value = self.site.model.value_of(node.func)
        return any(isinstance(ref, Layer) and ref.api.endswith("Embedding") for ref in (value.refs if value else []))

    def _looked_up(self, node: ast.Call) -> str:
        """The mean row of an embedding; all its rows are had by asking for each."""
        spread = self.distribution(node.args[0])
        if spread is None:
            raise Unclear(f"`{self.site.brief(node)}` looks up what has no probabilities")
        layer = self.site.text(node.func)
        return f"tf.tensordot({spread[0]}, {layer}(tf.range({spread[1]})), 1)"

    def _confusion(self, node: ast.Call) -> str:
        site = self.site
        labels, predictions = site.argument(node, 0, "labels"), site.argument(node, 1, "predictions")
        if labels is None or predictions is None or self.hardened(labels):
            raise Unclear(f"`{site.brief(node)}` counts labels that have lost their gradient")
        spread = self.distribution(predictions)
        if spread is None:
            raise Unclear(f"`{site.brief(node)}` counts what has no probabilities")
        return f"tf.matmul(tf.one_hot({site.text(labels)}, {spread[1]}), {spread[0]}, transpose_a=True)"

    def _ranks(self, node: ast.Call) -> str:
        raise Unclear(
            "an order has no gradient; use soft ranks, `0.5 + tf.reduce_sum(tf.sigmoid(x[:, None] - x[None, :]), 1)`, "
            "or a loss on pairs"
        )


def _with(site: Site, node: ast.expr, places: list[ast.expr], text: str) -> str:
    """The source of `node` with other text in some places."""
    start, _ = site.document.span(node)
    source = site.text(node)
    for place in sorted(places, key=lambda p: -site.document.span(p)[0]):
        a, b = site.document.span(place)
        source = source[: a - start] + text + source[b - start :]
    return source


def _widened(node: ast.expr | None) -> ast.expr | None:
    """`k` of `k[:, None, None]`, with two new axes at least."""
    match node:
        case ast.Subscript(value=value, slice=ast.Tuple(elts=[ast.Slice(None, None, None), *news])) if len(news) > 1:
            new = all(
                getattr(e, "attr", "") == "newaxis" or (isinstance(e, ast.Constant) and e.value is None) for e in news
            )
            return value if new else None
    return None


def _is_one(node: ast.expr) -> bool:
    return _is_literal(node) and bool(ast.literal_eval(node) == 1)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


__all__ = ["CASTS", "GATHERS", "ROUNDING", "SAMPLED", "Soften"]
