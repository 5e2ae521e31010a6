"""Indices that NumPy takes and TensorFlow does not: arrays and lists of positions."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapefix.flow.values import Kind, Value

#: tells what was seen at an expression
Seen = Callable[[ast.AST], "Value | None"]

#: draws and positions of one number where they are called with nothing more than the values
_ONE_NUMBER = frozenset({"choice", "randint", "argmax", "argmin", "integers", "int", "len", "random"})
_GIVE_ELEMENTS = frozenset({"zip", "enumerate"})
#: what gives arrays of positions, not a mask
_POSITIONS = frozenset("arange range argsort permutation flatnonzero".split())


def parts_of_index(index: ast.expr) -> list[ast.expr]:
    """`x[i, j]`: i and j."""
    return list(index.elts) if isinstance(index, ast.Tuple) else [index]


def is_array_index(part: ast.expr, seen: Seen) -> bool:
    """Whether an index is an array or a list of positions, or a mask; not one position or a slice."""
    if isinstance(part, (ast.Slice, ast.Constant, ast.UnaryOp)):
        return False
    if isinstance(part, (ast.List, ast.ListComp)):
        return True
    if isinstance(part, ast.Call):
        name = name_called(part)
        if name in _ONE_NUMBER and len(part.args) <= 1 and not part.keywords:
            return False
        if name == "range":
            return True
    value = seen(part)
    if value is None or not value.kind & Kind.ARRAY or value.kind & ~(Kind.ARRAY | Kind.CONTAINER):
        return False
    made = value.node
    if isinstance(made, ast.Call) and name_called(made) in _GIVE_ELEMENTS:
        return False  # an element of an array that is gone through: most are of one dimension
    if isinstance(made, ast.Call) and made is not part:
        sized = any(k.arg in ("size", "axis") for k in made.keywords)
        return name_called(made) not in _ONE_NUMBER or sized
    return made is not None


def is_mask(part: ast.expr, seen: Seen) -> bool:
    value = seen(part)
    return value is not None and value.dtype == "bool"


def fails_on_a_tensor(index: ast.expr, seen: Seen) -> bool:
    """An index that TensorFlow surely refuses, or reads otherwise than NumPy: a mask it takes as it is."""
    parts = parts_of_index(index)
    return any(_is_surely_positions(part, seen) for part in parts) and (len(parts) > 1 or not is_mask(parts[0], seen))


def _is_surely_positions(part: ast.expr, seen: Seen) -> bool:
    """An array of one axis at least, by how it is made: an element of an array, or a parameter, may be a number."""
    if isinstance(part, (ast.Slice, ast.Constant)):
        return False
    value = seen(part)
    if not isinstance(part, (ast.List, ast.ListComp, ast.Call)):
        part = value.node if value is not None and value.kind == Kind.ARRAY else part  # type: ignore[assignment]
    if isinstance(part, ast.Subscript):
        return any(isinstance(p, ast.Slice) for p in parts_of_index(part.slice))
    if not isinstance(part, ast.Call):
        return isinstance(part, (ast.List, ast.ListComp))
    name, asked = name_called(part), {k.arg for k in part.keywords}
    if name in ("array", "asarray"):
        return bool(part.args) and isinstance(part.args[0], (ast.List, ast.ListComp, ast.Tuple))
    if name in ("argmax", "argmin"):
        return "axis" in asked
    if name in ("randint", "integers", "choice"):
        return "size" in asked or len(part.args) == 3
    return name in _POSITIONS


def pairs_with_its_length(parts: list[ast.expr]) -> bool:
    """`p[np.arange(len(y)), y]`: y is as long as the other index."""
    if len(parts) != 2 or not isinstance(parts[0], ast.Call) or len(parts[0].args) != 1:
        return False
    length = ast.unparse(parts[0].args[0])
    other = ast.unparse(parts[1])
    return name_called(parts[0]) in ("arange", "range") and length in (
        f"len({other})",
        f"{other}.shape[0]",
        f"{other}.size",
    )


def name_called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
