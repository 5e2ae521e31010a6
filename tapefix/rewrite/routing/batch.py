"""A loop over the samples of a batch, whose body is one straight line, said once for the whole batch.

Every expression of the body is lifted: `photo` to `photos`, `tf.expand_dims(photo, 0)` to `photos`,
`net(photos[i:i + 1])` to `net(photos)`. What cannot be lifted for sure keeps the loop.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from tapefix.documents.document import Document
from tapefix.flow import Model
from tapefix.flow.objects import Instance, Layer
from tapefix.flow.values import Kind
from tapefix.rewrite import names
from tapefix.rewrite.accumulators.syntax import dotted
from tapefix.rewrite.routing.gates import complement
from tapefix.rewrite.routing.ranks import Ranks, is_new_axis
from tapefix.rewrite.routing.site import Site, Unclear, joined

_ELEMENTWISE = frozenset(
    """sigmoid tanh exp log sqrt square abs cast stop_gradient relu softplus negative round sign sin cos clip_by_value
    maximum minimum where logical_and logical_or logical_not greater greater_equal less less_equal equal not_equal
    identity pow add subtract multiply divide""".split()
)
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|"}
_MIXING = ("BatchNormalization", "LayerNormalizationOverBatch")


@dataclass(frozen=True)
class Lifted:
    """An expression over the whole batch.

    `form` is "one" (no sample in it), "row" (each sample's value without an axis for the batch, which the lifted one
    has in front) or "batch" (each sample's value has a first axis of length one). `scalar` tells a row of single
    numbers.
    """

    text: str
    form: str
    scalar: bool = False
    rank: int | None = None  # of the lifted expression


class Batch:
    """The rewrite of one loop. Raises Unclear with the reason why the loop stays."""

    def __init__(self, model: Model, site: Site, loop: ast.For):
        self.model, self.site, self.loop = model, site, loop
        self.rows: dict[str, Lifted] = {}
        self.index: str | None = None
        self.values: dict[str, Lifted] = {}
        self.lines: list[str] = []
        self.slice = ":"  # the samples that the loop goes through
        self.ranks = Ranks(site)
        self.given: dict[str, str] = {}
        self.shaped: dict[tuple[str, int | None], str] = {}

    def rewrite(self) -> None:
        self._samples(self.loop.target, self.loop.iter)
        if self.loop.orelse:
            raise Unclear("the loop has an `else`")
        name, joint, made = self._list()
        result: Lifted | None = None
        for statement in self.loop.body:
            match statement:
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    continue
                case ast.Assign(targets=[ast.Name(id=target)], value=value):
                    self._bind(target, value)
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append"), args=[value])
                ) if owner == name:
                    if result is not None:
                        raise Unclear("the list grows twice in a pass")
                    result = self.lift(value)
                case _:
                    raise Unclear(f"`{self.site.brief(statement)}` has to run sample by sample")
        if result is None:
            raise Unclear("the loop fills no list")
        self._leftovers(name)
        operation = self.site.operation(joint)
        if operation in ("concat", "concatenate") and result.form != "batch":
            raise Unclear("the pieces that are joined have no axis for the samples")
        if operation == "stack" and result.form != "row":
            if result.form != "one":
                raise Unclear("each piece that is stacked has an axis for the samples already")
        if result.form == "one":
            raise Unclear("what is collected does not depend on the sample")
        self._write(made, joint, result)

    # the loop's frame

    def _samples(self, target: ast.expr, iterable: ast.expr) -> None:
        match target, iterable:
            case ast.Name(id=name), ast.Call(func=ast.Name(id="range"), args=[count]):
                self.index = name
                if not self._counts_all(count):
                    self.slice = f":{self.site.text(count)}"
            case ast.Tuple(elts=[ast.Name(id=name), inner]), ast.Call(func=ast.Name(id="enumerate"), args=[items]):
                self.index = name
                self._samples(inner, items)
            case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=items) if len(targets) == len(items):
                for one, item in zip(targets, items, strict=True):
                    self._samples(one, item)
            case ast.Name(id=name), ast.Call() if self.site.operation(iterable) == "unstack":
                rest = [*iterable.args[1:], *(k.value for k in iterable.keywords if k.arg == "axis")]
                if any(not (isinstance(a, ast.Constant) and a.value == 0) for a in rest):
                    raise Unclear("the samples are taken along another axis")
                self._samples(target, iterable.args[0])
            case ast.Name(id=name), ast.Call() if self.model.is_tensor(iterable):
                rank = self._rank(iterable)
                whole = names.fresh(self.site.edits, self.loop, f"{name}_all")
                self.lines.append(f"{whole} = {self.site.text(iterable)}\n")
                self.rows[name] = Lifted(whole, "row", rank == 1, rank)
            case ast.Name(id=name), _ if isinstance(iterable, (ast.Name, ast.Attribute, ast.Subscript)):
                if not self._is_array(iterable):
                    raise Unclear(f"`{self.site.brief(iterable)}` may be no tensor")
                self.rows[name] = Lifted(
                    self.site.text(iterable), "row", self._rank(iterable) == 1, self._rank(iterable)
                )
            case _:
                raise Unclear("what the loop runs over can't be taken as a whole")

    def _counts_all(self, count: ast.expr) -> bool:
        """`len(x)`, `x.shape[0]` or `tf.shape(x)[0]`: all samples."""
        node = self.site.definition(count)
        if isinstance(node, ast.Call) and dotted(node.func) == "len":
            return True
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
            whole = node.value
            return (isinstance(whole, ast.Attribute) and whole.attr == "shape") or (
                self.site.operation(whole) in ("shape", "int_shape")
            )
        return False

    def _is_array(self, node: ast.expr) -> bool:
        kind = self.model.kind_of(node)
        return bool(kind & (Kind.TENSOR | Kind.VARIABLE | Kind.ARRAY | Kind.UNKNOWN)) and not kind & Kind.CONTAINER

    def _rank(self, node: ast.expr) -> int | None:
        return self.ranks.of(node)

    def _list(self) -> tuple[str, ast.Call, ast.stmt]:
        """The list that is filled: its name, the one call that joins it, and where it is made."""
        syntax, site = self.site.syntax, self.site
        names = {
            s.value.func.value.id
            for s in self.loop.body
            if isinstance(s, ast.Expr)
            and isinstance(s.value, ast.Call)
            and isinstance(s.value.func, ast.Attribute)
            and s.value.func.attr == "append"
            and isinstance(s.value.func.value, ast.Name)
        }
        if len(names) != 1:
            raise Unclear("the loop does not fill one list")
        name = names.pop()
        scope = syntax.function(self.loop) or syntax.tree
        made: ast.stmt | None = None
        joint: ast.Call | None = None
        for node in ast.walk(scope):
            if not (isinstance(node, ast.Name) and node.id == name) or syntax.inside(node, self.loop):
                continue
            parent = syntax.parent(node)
            if isinstance(parent, ast.Assign) and node in parent.targets and made is None:
                value = parent.value
                empty = isinstance(value, ast.List) and not value.elts
                empty |= isinstance(value, ast.Call) and dotted(value.func) == "list" and not value.args
                if not empty:
                    raise Unclear(f"`{name}` does not begin empty")
                made = parent
            elif (
                isinstance(parent, ast.Call)
                and site.operation(parent) in ("concat", "stack", "concatenate")
                and joint is None
            ):
                axis = site.argument(parent, 1, "axis")
                if axis is not None and not (isinstance(axis, ast.Constant) and axis.value == 0):
                    raise Unclear(f"`{name}` is joined along another axis")
                joint = parent
            else:
                raise Unclear(f"`{name}` is used otherwise")
        if made is None or joint is None:
            raise Unclear(f"`{name}` is not joined to one tensor")
        if syntax.loops(made) != syntax.loops(self.loop) or syntax.before(joint, self.loop):
            raise Unclear(f"`{name}` is made in another loop")
        return name, joint, made

    def _leftovers(self, name: str) -> None:
        """Names of the loop that are read after it."""
        syntax = self.site.syntax
        bound = {n.id for n in ast.walk(self.loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        scope = syntax.function(self.loop) or syntax.tree
        end = syntax.end(self.loop)
        for node in ast.walk(scope):
            if (
                isinstance(node, ast.Name)
                and node.id in bound
                and isinstance(node.ctx, ast.Load)
                and syntax.order[node] > end
            ):
                _, bindings = syntax.visible(node.id, node)
                if not any(syntax.order[b] > end and syntax.before(b, node) for b in bindings):
                    raise Unclear(f"`{node.id}` is read after the loop")

    def _bind(self, name: str, value: ast.expr) -> None:
        lifted = self.lift(value)
        reads = sum(
            isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(self.loop)
        )
        if (
            _is_dtype(value)
            or lifted.text.isidentifier()
            or reads <= 1
            or re.fullmatch(r"[\w.]+(\[[^()]*\])?", lifted.text)
        ):
            self.values[name] = lifted
            return
        self.lines.append(f"{name} = {lifted.text}\n")
        self.values[name] = replace(lifted, text=name)

    # expressions

    def lift(self, node: ast.expr) -> Lifted:
        match node:
            case ast.Name(id=name) if name in self.values:
                return self.values[name]
            case ast.Name(id=name) if name in self.rows:
                return self.rows[name]
            case ast.Name(id=name) if name == self.index:
                raise Unclear("the number of the sample is used as a value")
            case ast.Attribute(value=value, attr="dtype") if self._mentions(value):
                return Lifted(f"{_atom(self.lift(value).text)}.dtype", "one")
            case ast.Subscript():
                return self._subscript(node)
            case ast.Call():
                return self._call(node)
            case ast.BinOp() | ast.UnaryOp() | ast.Compare():
                return self._arithmetic(node)
        if self._mentions(node):
            raise Unclear(f"`{self.site.brief(node)}` has to run sample by sample")
        return Lifted(self.site.text(node), "one")

    def _mentions(self, node: ast.AST) -> bool:
        return any(
            isinstance(n, ast.Name) and (n.id in self.values or n.id in self.rows or n.id == self.index)
            for n in ast.walk(node)
        )

    def _subscript(self, node: ast.Subscript) -> Lifted:
        index = node.slice
        elements = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        first = elements[0]
        rest = elements[1:]
        if self.index is not None and any(isinstance(n, ast.Name) and n.id == self.index for n in ast.walk(index)):
            if self._mentions(node.value) or not self._is_array(node.value):
                raise Unclear(f"`{self.site.brief(node)}` can't be taken as a whole")
            if any(self._mentions(e) for e in rest):
                raise Unclear(f"`{self.site.brief(node)}` can't be taken as a whole")
            text, rank = self.site.text(node.value), self._rank(node.value)
            tail = "".join(f", {self.site.text(e)}" for e in rest)
            whole = joined("{x}", x=text) + (f"[{self.slice}{tail}]" if rest or self.slice != ":" else "")
            if isinstance(first, ast.Name):
                fixed = sum(not isinstance(e, ast.Slice) for e in rest)
                return Lifted(
                    whole, "row", rank is not None and rank - 1 - fixed == 0, None if rank is None else rank - fixed
                )
            if isinstance(first, ast.Slice) and self._one_row(first):
                return Lifted(whole, "batch", rank=rank if not rest else None)
            raise Unclear(f"`{self.site.brief(node)}` can't be taken as a whole")
        if self._mentions(index):
            raise Unclear(f"`{self.site.brief(node)}` can't be taken as a whole")
        value = self.lift(node.value)
        if value.form == "one":
            return Lifted(self.site.text(node), "one")
        new_axis = is_new_axis(first)
        if (
            value.form == "row"
            and new_axis
            and all((isinstance(e, ast.Constant) and e.value is ...) or _is_full(e) for e in rest)
        ):
            return Lifted(value.text, "batch", rank=value.rank)
        tail = ", ".join(self.site.text(e) for e in elements)
        if value.form == "row" and not new_axis:
            fixed = all(not isinstance(e, ast.Slice) for e in elements)
            left = None if value.rank is None else value.rank - (len(elements) if fixed else 0)
            return Lifted(f"{_atom(value.text)}[:, {tail}]", "row", fixed and left == 1, left if fixed else None)
        if value.form == "batch" and isinstance(first, ast.Constant) and first.value == 0:
            more = ", ".join(self.site.text(e) for e in rest)
            return Lifted(
                f"{_atom(value.text)}[:, {more}]" if more else value.text, "row", False, None if more else value.rank
            )
        raise Unclear(f"`{self.site.brief(node)}` can't be taken as a whole")

    def _one_row(self, piece: ast.Slice) -> bool:
        """`i:i + 1`."""
        return (
            isinstance(piece.lower, ast.Name)
            and piece.lower.id == self.index
            and piece.step is None
            and isinstance(piece.upper, ast.BinOp)
            and isinstance(piece.upper.op, ast.Add)
            and {ast.unparse(piece.upper.left), ast.unparse(piece.upper.right)} == {str(self.index), "1"}
        )

    def _call(self, node: ast.Call) -> Lifted:
        site = self.site
        if not self._mentions(node):
            return Lifted(site.text(node), "one")
        operation = site.operation(node)
        first = node.args[0] if node.args else None
        if operation == "expand_dims" and first is not None:
            axis = site.argument(node, 1, "axis")
            value = self.lift(first)
            if value.form == "row" and isinstance(axis, ast.Constant) and axis.value == 0:
                return Lifted(value.text, "batch", rank=value.rank)
            raise Unclear(f"`{site.brief(node)}` can't be taken as a whole")
        if operation in _ELEMENTWISE:
            return self._together(node, [*node.args, *(k.value for k in node.keywords)], keep_scalars=True)
        if self._is_model(node.func) and first is not None:
            value = self.lift(first)
            if value.form != "batch" or any(self._mentions(a) for a in [*node.args[1:], *node.keywords]):
                raise Unclear(f"`{site.brief(node)}` takes no batch")
            rest = "".join(f", {site.text(a)}" for a in [*node.args[1:], *node.keywords])
            rank = self.ranks.output(node.func, value.rank)
            return Lifted(f"{site.text(node.func)}({value.text}{rest})", "batch", rank=rank)
        raise Unclear(f"`{site.brief(node)}` may treat a batch otherwise than its samples")

    def _is_model(self, node: ast.expr) -> bool:
        """A Keras layer or model: it takes a batch, and treats each sample alike (unless it normalises over it)."""
        value = self.model.value_of(node)
        refs = value.refs if value is not None else []
        return bool(refs) and all(
            (isinstance(ref, Layer) and not ref.api.endswith(_MIXING)) or (isinstance(ref, Instance) and ref.is_keras())
            for ref in refs
        )

    def _arithmetic(self, node: ast.expr) -> Lifted:
        if isinstance(node, ast.UnaryOp):
            return self._together(node, [node.operand])
        if isinstance(node, ast.BinOp):
            return self._together(node, [node.left, node.right])
        assert isinstance(node, ast.Compare)
        return self._together(node, [node.left, *node.comparators])

    def _together(self, node: ast.expr, parts: list[ast.expr], keep_scalars: bool = False) -> Lifted:
        """An elementwise operation on lifted parts, those of lower rank shaped so that the samples stay in line."""
        site = self.site
        lifted = [self.lift(part) if self._mentions(part) else Lifted(site.text(part), "one") for part in parts]
        forms = {one.form for one in lifted if one.form != "one"}
        if not forms:
            return Lifted(site.text(node), "one")
        for part, one in zip(parts, lifted, strict=True):
            if one.form == "one" and not self._broadcasts(part):
                raise Unclear(f"the shape of `{site.brief(part)}` beside the samples is not known")
        if forms == {"row", "batch"}:
            lifted = self._ranked(parts, lifted)
        if forms == {"row"} and len({one.scalar for one in lifted if one.form == "row"}) > 1:
            lifted = self._ranked(parts, lifted)
        scalar = all(one.scalar or one.form == "one" for one in lifted)
        text = self._composed(node, parts, [one.text for one in lifted])
        ranks = [one.rank for one in lifted if one.form != "one"]
        rank = None if None in ranks else max(r for r in ranks if r is not None)
        return Lifted(text, "batch" if "batch" in forms else "row", scalar and "batch" not in forms, rank)

    def _composed(self, node: ast.expr, parts: list[ast.expr], texts: list[str]) -> str:
        """The expression with other operands."""
        places = {f"p{i}": text for i, text in enumerate(texts)}
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            return joined(f"{{p0}} {_SIGNS[type(node.op)]} {{p1}}", **places)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Invert)):
            return joined("-{p0}" if isinstance(node.op, ast.USub) else "~{p0}", **places)
        start, _ = self.site.document.span(node)
        template = self.site.document.source(node)
        for i, part in sorted(enumerate(parts), key=lambda p: -self.site.document.span(p[1])[0]):
            a, b = self.site.document.span(part)
            template = template[: a - start] + f"{{p{i}}}" + template[b - start :]
        return joined(template, **places)

    def _broadcasts(self, node: ast.expr) -> bool:
        """Numbers and scalar Variables, and what is a type: they go with any shape."""
        if isinstance(node, ast.Constant) or self.site.is_number(node):
            return True
        if _is_dtype(node) or (dotted(node) or "").startswith(("tf.", "np.")):
            return True
        return self._rank(node) == 0 or self._is_scalar_variable(node)

    def _is_scalar_variable(self, node: ast.expr) -> bool:
        value = self.model.value_of(node)
        for ref in value.refs if value is not None else []:
            spot = getattr(ref, "spot", None)
            made = spot.node if spot is not None else None
            if isinstance(made, ast.Call):
                shape = next((k.value for k in made.keywords if k.arg == "shape"), None)
                if isinstance(shape, (ast.Tuple, ast.List)) and not shape.elts:
                    return True
                initial = made.args[0] if made.args else None
                if isinstance(initial, ast.Constant) and isinstance(initial.value, (int, float)):
                    return True
        return False

    def _ranked(self, parts: list[ast.expr], lifted: list[Lifted]) -> list[Lifted]:
        """Rows of single numbers beside whole batches get as many axes as these."""
        big = next((one for one in lifted if one.form == "batch"), None) or next(
            one for one in lifted if one.form == "row" and not one.scalar
        )
        result = []
        for one in lifted:
            if one.form == "row" and (big.form == "batch" or one.scalar):
                result.append(replace(one, text=self._shaped(one, big), form=big.form, scalar=False, rank=big.rank))
            else:
                result.append(one)
        return result

    def _shaped(self, one: Lifted, big: Lifted) -> str:
        """One number a sample (it was the condition of an `if`), with as many axes as what it weighs."""
        left = complement(one.text)
        if left is not None:
            return f"1.0 - {_atom(self._shaped(replace(one, text=left), big))}"
        key = (one.text, big.rank)
        if key in self.shaped:
            return self.shaped[key]
        if one.rank is not None and one.rank == big.rank:
            return one.text
        if one.rank == 1 and big.rank == 2:
            text = f"{_atom(one.text)}[:, tf.newaxis]"
        elif big.rank is not None:
            text = f"tf.reshape({one.text}, [-1{', 1' * (big.rank - 1)}])"
        else:
            like = self._named("branch", big.text)
            text = f"tf.reshape({one.text}, [-1] + [1] * (len({like}.shape) - 1))"
        self.shaped[key] = self._named("mask", text)
        return self.shaped[key]

    def _named(self, base: str, text: str) -> str:
        if text.isidentifier():
            return text
        if text not in self.given:
            name = names.fresh(self.site.edits, self.loop, base)
            self.lines.append(f"{name} = {text}\n")
            self.given[text] = name
        return self.given[text]

    def _write(self, made: ast.stmt, joint: ast.Call, result: Lifted) -> None:
        site = self.site
        site.edits.delete_statement(made)
        for known, name in self.given.items():
            result = replace(result, text=result.text.replace(known, name))
        text = "".join([*comments_in(site.document, self.loop), *self.lines])
        if text:
            site.edits.replace_statement(self.loop, site.local(text, self.loop, statement=True))
        else:
            site.edits.delete_statement(self.loop)
        site.edits.replace(joint, site.local(result.text, joint))


def comments_in(document: Document, statement: ast.stmt) -> list[str]:
    """The comments that have lines of their own in a statement."""
    lines = (document.line(row).strip() for row in range(statement.lineno, (statement.end_lineno or 0) + 1))
    return [f"{line}\n" for line in lines if line.startswith("#")]


def _is_dtype(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


def _is_full(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None


def _atom(text: str) -> str:
    tree = ast.parse(f"({text}\n)", mode="eval").body
    if isinstance(tree, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)):
        return text
    return f"({text})"
