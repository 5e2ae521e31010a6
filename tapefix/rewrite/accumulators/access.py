"""How a buffer is indexed, written and read: the user's syntax as data."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from tapefix.flow.facts import Buffer, Role, Use
from tapefix.rewrite.accumulators.syntax import Syntax, dotted


@dataclass(frozen=True)
class At:
    """One position of an axis: `i` in `buf[:, i]`."""

    node: ast.expr


@dataclass(frozen=True)
class Span:
    """A slice of an axis; a whole one is `:`."""

    node: ast.Slice

    @property
    def whole(self) -> bool:
        return self.node.lower is None and self.node.upper is None and self.node.step is None


@dataclass(frozen=True)
class Rest:
    """`...`"""


@dataclass(frozen=True)
class NewAxis:
    """`None`, `np.newaxis`, `tf.newaxis`"""


@dataclass(frozen=True)
class Fancy:
    """An index that is an array, a list or a mask."""

    node: ast.expr


Element = At | Span | Rest | NewAxis | Fancy
Index = tuple[Element, ...]


@dataclass(frozen=True)
class Access:
    """A place in the buffer: `node` is the outermost subscript (or the buffer itself), `index` what it selects."""

    node: ast.expr
    index: Index

    @property
    def whole(self) -> bool:
        """Whether it stands for the buffer as a whole: `buf`, `buf[:]`, `buf[...]`, `buf[:, :]`."""
        return all(isinstance(e, Rest) or (isinstance(e, Span) and e.whole) for e in self.index)


Operation = Literal["set", "add", "sub", "mul", "div", "min", "max"]
Form = Literal["item", "augmented", "method", "scatter", "whole", "fill"]


@dataclass(frozen=True)
class Write:
    """One write: where to, what, and by which syntax."""

    use: Use
    form: Form
    operation: Operation
    access: Access
    value: ast.expr | None  # None: of a scatter whose arguments are in `call`
    call: ast.Call | None = None
    rebinds: bool = False  # `v = v[i].assign(x)`: the result is bound to the buffer's own name
    result: ast.Call | None = None  # `y = v.assign(x)`, `return v.assign(x)`: the write, where its result is used
    shared: bool = False  # `a[i, j] = a[j, i] = x`: the statement has other targets

    @property
    def statement(self) -> ast.stmt:
        return self.use.statement


@dataclass(frozen=True)
class Read:
    """One read, with the subscripts that follow directly."""

    use: Use
    access: Access


@dataclass(frozen=True)
class Unknown:
    """A use whose syntax is none that the ladder knows."""

    use: Use
    reason: str


_AUGMENTED: dict[type[ast.operator], Operation] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
}
_SCATTERS = {
    "scatter_update",
    "scatter_add",
    "scatter_sub",
    "scatter_max",
    "scatter_min",
    "scatter_nd_update",
    "scatter_nd_add",
    "scatter_nd_sub",
    "batch_scatter_update",
}


def uses_of(buffer: Buffer, syntax: Syntax) -> list[Write | Read | Unknown]:
    """The uses of a buffer in the order of the text, without the one that makes it."""
    found: list[Write | Read | Unknown] = []
    seen: set[ast.AST] = set()
    for use in sorted(buffer.uses, key=lambda u: syntax.order.get(u.spot.node, -1)):
        if use.role is Role.MADE or use.spot.node in seen:
            continue
        if use.spot.node not in syntax.order:
            found.append(Unknown(use, "it is used in another file"))
            continue
        seen.add(use.spot.node)
        found.append(_write(use, syntax) if _writes(use, syntax) else _read(use, syntax))
    return found


def _writes(use: Use, syntax: Syntax) -> bool:
    """Whether the syntax around a use is a write, whatever role it was given."""
    access = access_at(use.spot.node, syntax)
    parent = syntax.parent(access.node)
    if isinstance(getattr(access.node, "ctx", None), ast.Store):
        return isinstance(access.node, ast.Subscript) or isinstance(parent, ast.AugAssign)
    grand = syntax.parent(parent) if parent is not None else None
    if isinstance(parent, ast.Attribute) and isinstance(grand, ast.Call) and grand.func is parent:
        return parent.attr in ("assign", "assign_add", "assign_sub", "fill") or parent.attr in _SCATTERS
    return False


def _write(use: Use, syntax: Syntax) -> Write | Unknown:
    access = access_at(use.spot.node, syntax)
    parent = syntax.parent(access.node)
    if (reason := _view(use.spot.node)) is not None:
        return Unknown(use, reason)
    match parent:
        case ast.Assign(targets=[target], value=value) if target is access.node:
            return Write(use, "whole" if access.whole else "item", "set", access, value)
        case ast.Assign(targets=targets, value=value) if access.node in targets and not access.whole:
            return Write(use, "item", "set", access, value, shared=True)
        case ast.Assign():
            return Unknown(use, "it is written together with other targets")
        case ast.AugAssign(op=op, value=value) if type(op) in _AUGMENTED:
            return Write(use, "augmented", _AUGMENTED[type(op)], access, value)
        case ast.AugAssign():
            return Unknown(use, f"`{ast.unparse(parent)}` is none of +=, -=, *=, /=")
        case ast.Attribute(attr=name):
            call = syntax.parent(parent)
            assert isinstance(call, ast.Call)
            return _method(use, access, name, call, syntax)
    return Unknown(use, "it is written by an unpacking or a loop target")


def _view(node: ast.AST) -> str | None:
    """Why what is written is another view of the buffer, if it is: `a.T[i] = x`, `a.reshape(-1)[k] = x`."""
    if isinstance(node, ast.Call) or (isinstance(node, ast.Attribute) and node.attr in _VIEWS):
        return f"it is written through `{ast.unparse(node)}`"
    return None


_VIEWS = ("T", "flat", "real", "imag", "data", "mT")


def _method(use: Use, access: Access, name: str, call: ast.Call, syntax: Syntax) -> Write | Unknown:
    """`v[i].assign(x)`, `v.assign_add(x)`, `v.scatter_nd_update(i, x)`, `a.fill(x)`."""
    outer = syntax.parent(call)
    rebinds = False
    result: ast.Call | None = None
    if (
        isinstance(outer, ast.Assign)
        and len(outer.targets) == 1
        and dotted(outer.targets[0]) == (dotted(use.spot.node) or "")
    ):
        rebinds = True
    elif not isinstance(outer, ast.Expr):
        if not _alone_in_its_statement(call, use, syntax):
            return Unknown(use, "the result of the write is used in a larger expression")
        result = call
    if name in _SCATTERS:
        return Write(use, "scatter", _scatter_operation(name), access, None, call, rebinds, result)
    value = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg in ("value", "delta")), None)
    if value is None or isinstance(value, ast.Starred):
        return Unknown(use, "what is written is not seen")
    operation: Operation = "add" if name == "assign_add" else "sub" if name == "assign_sub" else "set"
    form: Form = "fill" if name == "fill" else "whole" if access.whole else "method"
    return Write(use, form, operation, access, value, call, rebinds, result)


def _alone_in_its_statement(call: ast.Call, use: Use, syntax: Syntax) -> bool:
    """Whether the write can be done before the statement that uses its result: nothing else there reads the buffer."""
    statement = use.statement
    if not isinstance(statement, ast.Assign | ast.Return | ast.AnnAssign):
        return False
    inside = set(ast.walk(call))
    node: ast.AST = call
    while node is not statement:
        if isinstance(
            node, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp
        ):
            return False
        node = syntax.parents[node]
    buffer = ast.unparse(use.spot.node)
    return not any(
        isinstance(other, ast.Name | ast.Attribute | ast.Await | ast.NamedExpr)
        and (not isinstance(other, ast.Name | ast.Attribute) or ast.unparse(other) == buffer)
        for other in ast.walk(statement)
        if other not in inside
    )


def _scatter_operation(name: str) -> Operation:
    last = name.rsplit("_", 1)[-1]
    return {"add": "add", "sub": "sub", "max": "max", "min": "min"}.get(last, "set")  # type: ignore[return-value]


def _read(use: Use, syntax: Syntax) -> Read:
    return Read(use, access_at(use.spot.node, syntax))


def access_at(node: ast.AST, syntax: Syntax) -> Access:
    """The subscripts that follow directly on a buffer: `buf[i][j]` is `buf[i, j]` where the first is a position."""
    assert isinstance(node, ast.expr)
    index: Index = ()
    while True:
        parent = syntax.parent(node)
        if not (isinstance(parent, ast.Subscript) and parent.value is node):
            return Access(node, index)
        if not all(isinstance(e, At) for e in index):
            return Access(node, index)
        index, node = index + parse_index(parent.slice, syntax), parent


def parse_index(node: ast.expr, syntax: Syntax) -> Index:
    """The elements of a subscript."""
    elements = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(_element(element, syntax) for element in elements)


def _element(node: ast.expr, syntax: Syntax) -> Element:
    match node:
        case ast.Slice():
            return Span(node)
        case ast.Constant(value=value) if value is Ellipsis:
            return Rest()
        case ast.Constant(value=None):
            return NewAxis()
        case ast.Attribute(attr="newaxis"):
            return NewAxis()
        case ast.List() | ast.Compare() | ast.BoolOp() | ast.ListComp():
            return Fancy(node)
        case ast.UnaryOp(op=ast.Invert()):
            return Fancy(node)
        case ast.Call(func=ast.Attribute(attr="arange" | "nonzero" | "argsort" | "where" | "ix_" | "array")):
            return Fancy(node)
    return At(node)


def leading(index: Index) -> list[ast.expr] | None:
    """The positions of an index that selects by leading positions alone: `[i]`, `[i, j]`, `[i, :]`, `[i, ...]`."""
    positions: list[ast.expr] = []
    rest = list(index)
    while rest and isinstance(rest[0], At):
        positions.append(rest.pop(0).node)  # type: ignore[union-attr]
    if positions and all(isinstance(e, Rest) or (isinstance(e, Span) and e.whole) for e in rest):
        return positions
    return None


def single_axis(index: Index, rank: int | None) -> tuple[int, ast.expr] | None:
    """(axis, position) of an index with one position among whole slices: (1, i) of `[:, i]`, (-1, i) of `[..., i]`."""
    places = [k for k, e in enumerate(index) if isinstance(e, At)]
    if len(places) != 1:
        return None
    axis = places[0]
    others = [e for k, e in enumerate(index) if k != axis]
    if not all(isinstance(e, Rest) or (isinstance(e, Span) and e.whole) for e in others):
        return None
    element = index[axis]
    assert isinstance(element, At)
    if any(isinstance(e, Rest) for e in index[:axis]):
        after = len(index) - 1 - axis
        return (rank - 1 - after if rank is not None else -1 - after), element.node
    return axis, element.node
