"""Parts of an input that a tape watches, while the result is computed of the whole: the whole put together of them."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.leaving import finished, put
from tapefix.rewrite.said import pairs_of

_ADVICE = "another value goes into the result; compute it of the tensor that is watched"


@dataclass(frozen=True)
class _Part:
    """`name = whole[:, start:end]`, or `whole[..., start:end]`; `end` is None where it goes to the last."""

    name: str
    whole: str
    front: str
    start: int
    end: int | None


def whole_of_parts(document: Document, block: ast.With, watched: set[str]) -> Fix | Refusal:
    """Each use of the whole in the block becomes the parts joined again.

    Safe where they reach to the last column; where the last part ends at a number, the whole may have more columns.
    """
    syntax = syntax_of(document)
    parts = _parts(syntax, block)
    wholes = {part.whole for part in parts if part.name in watched}
    if len(wholes) != 1 or not watched <= {part.name for part in parts}:
        return Refusal(_ADVICE)
    (whole,) = wholes
    row = sorted((part for part in parts if part.whole == whole), key=lambda part: part.start)
    joined = len({part.front for part in row}) == 1 and row[0].start == 0
    if not joined or any(one.end != other.start for one, other in itertools.pairwise(row)):
        return Refusal(f"the parts of `{whole}` leave gaps; {_ADVICE}")
    uses = [
        node
        for node in ast.walk(block)
        if isinstance(node, ast.Name) and node.id == whole and isinstance(node.ctx, ast.Load)
    ]
    last_watch = max((n.lineno for n in ast.walk(block) if isinstance(n, ast.Call) and _is_watch(n)), default=0)
    stored = {n.id for n in ast.walk(block) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if not uses or min(use.lineno for use in uses) <= last_watch or stored & {whole, *(part.name for part in row)}:
        return Refusal(_ADVICE)
    edits = EditSet(document)
    axis = 1 if row[0].front == ":" else -1
    try:
        for use in uses:
            put(edits, use, f"tf.concat([{', '.join(part.name for part in row)}], axis={axis})")
        message = f"compute it of {' and '.join(f'`{part.name}`' for part in row)}, joined again"
        return finished(edits, message, ("watch the whole, and take the columns of its gradient",), row[-1].end is None)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _parts(syntax: Syntax, block: ast.With) -> list[_Part]:
    """The names that stand for columns of a value, bound once, before the block in its scope."""
    scope = syntax.scope(block)
    found: list[_Part] = []
    for statement in ast.walk(scope):
        for target, value in pairs_of(statement):
            if not isinstance(target, ast.Name) or syntax.bindings(target.id, scope) != [target]:
                continue
            if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and syntax.before(target, block):
                part = _columns(target.id, value, value.value.id)
                rebound = [b for b in syntax.bindings(value.value.id, scope) if syntax.before(target, b)]
                found += [part] if part is not None and not rebound else []
    return found


def _columns(name: str, value: ast.Subscript, whole: str) -> _Part | None:
    index = value.slice.elts if isinstance(value.slice, ast.Tuple) else []
    if len(index) != 2 or not isinstance(index[1], ast.Slice) or index[1].step is not None:
        return None
    front, (low, high) = ast.unparse(index[0]), (_number(index[1].lower, 0), _number(index[1].upper, None))
    known = low is not None and (index[1].upper is None or high is not None)
    return _Part(name, whole, front, low or 0, high) if known and front in (":", "...") else None


def _number(node: ast.expr | None, default: int | None) -> int | None:
    if node is None:
        return default
    fits = isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= 0
    return node.value if fits else None  # type: ignore[attr-defined]


def _is_watch(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "watch"
