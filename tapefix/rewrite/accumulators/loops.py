"""What a loop counts: which name runs through which numbers, and how often a statement is reached in one pass."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tapefix.rewrite.accumulators.dims import Dims, Linear
from tapefix.rewrite.accumulators.syntax import Loop, Scope, Syntax, dotted


@dataclass(frozen=True)
class Counter:
    """A name that takes each whole number of [start, stop) once, upwards (or downwards)."""

    name: str
    start: Linear
    stop: Linear
    upwards: bool = True


def counters(loop: Loop, dims: Dims) -> list[Counter]:
    """The names that a loop counts with, one step at a time."""
    if isinstance(loop, ast.While):
        found = _while(loop, dims)
        return [found] if found else []
    if isinstance(loop, ast.AsyncFor):
        return []
    return [c for c in _bound(loop.target, loop.iter, dims) if not _stored_in(c.name, loop.body)]


def _bound(target: ast.expr, iterable: ast.expr, dims: Dims) -> list[Counter]:
    match target, iterable:
        case ast.Name(id=name), ast.Call():
            numbers = _range(iterable, dims)
            return [Counter(name, *numbers)] if numbers else []
        case ast.Tuple(elts=[ast.Name(id=name), rest]), ast.Call(
            func=ast.Name(id="enumerate"), args=[inner, *more], keywords=keywords
        ):
            first = more[0] if more else next((k.value for k in keywords if k.arg == "start"), ast.Constant(0))
            start, size = dims.of(first), _trips(inner, dims)
            found = [Counter(name, start, start + size)] if size is not None else []
            return found + [c for c in _bound(rest, inner, dims) if c.upwards]
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=iterables) if len(targets) == len(
            iterables
        ):
            size = _trips(iterable, dims)
            if size is None:
                return []
            each = [_bound(t, i, dims) for t, i in zip(targets, iterables)]
            return [c for found in each for c in found]
    return []


def _range(call: ast.expr, dims: Dims) -> tuple[Linear, Linear, bool] | None:
    """(start, stop, upwards) of `range`, `tf.range`, `np.arange` by steps of 1 or -1, and of `reversed(range(…))`."""
    match call:
        case ast.Call(func=ast.Name(id="reversed"), args=[inner]):
            numbers = _range(inner, dims)
            return (numbers[0], numbers[1], not numbers[2]) if numbers else None
        case ast.Call(func=func, args=args, keywords=[]) if (dotted(func) or "").split(".")[-1] in (
            "range",
            "arange",
            "trange",
        ):
            zero, one = Linear.constant(0), Linear.constant(1)
            limits = [dims.of(arg) for arg in args]
            if len(limits) == 1:
                return zero, limits[0], True
            if len(limits) == 2 or (len(limits) == 3 and limits[2] == one):
                return limits[0], limits[1], True
            if len(limits) == 3 and limits[2] == -one:
                return limits[1] + one, limits[0] + one, False
        case ast.Call(func=ast.Name(id="tqdm"), args=[inner, *_]):
            return _range(inner, dims)
    return None


def _trips(iterable: ast.expr, dims: Dims) -> Linear | None:
    """How many elements an iterable gives, where that is one number."""
    match iterable:
        case ast.Call(func=ast.Name(id="zip"), args=iterables) if iterables:
            sizes = {_trips(i, dims) for i in iterables}
            return sizes.pop() if len(sizes) == 1 else None
        case ast.Call(func=ast.Name(id="enumerate" | "reversed"), args=[inner, *_]):
            return _trips(inner, dims)
        case ast.Call():
            numbers = _range(iterable, dims)
            if numbers is not None:
                return numbers[1] - numbers[0]
    return dims.length(iterable)


def _while(loop: ast.While, dims: Dims) -> Counter | None:
    """`i = 0; while i < n: …; i += 1`, the count being the last thing the body does."""
    match loop.test, loop.body[-1]:
        case (
            ast.Compare(left=ast.Name(id=name), ops=[ast.Lt() | ast.NotEq()], comparators=[stop]),
            ast.AugAssign(target=ast.Name(id=counted), op=ast.Add(), value=ast.Constant(value=1)),
        ) if name == counted:
            pass
        case _:
            return None
    syntax = dims.syntax
    if _stored_in(name, loop.body[:-1]) or _leaves_early(loop.body, (ast.Continue,)):
        return None
    block = syntax.block(loop)
    before = [s for s in block[: block.index(loop)] if _stored_in(name, [s])]
    match before[-1:]:
        case [ast.Assign(targets=[ast.Name()], value=first)]:
            if any(_stored_in(n, loop.body) for n in _names(stop)):
                return None
            return Counter(name, dims.of(first), dims.of(stop))
    return None


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _stored_in(name: str, statements: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for statement in statements
        for node in ast.walk(statement)
    )


def _leaves_early(body: list[ast.stmt], kinds: tuple[type[ast.stmt], ...]) -> ast.stmt | None:
    """The first `break`/`continue` of this loop itself, not of one inside it."""
    for statement in body:
        if isinstance(statement, kinds):
            return statement
        if isinstance(statement, Scope) or not isinstance(statement, ast.stmt):
            continue
        if isinstance(statement, Loop):
            blocks = [statement.orelse]
        else:
            blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
            blocks += [handler.body for handler in getattr(statement, "handlers", [])]
            blocks += [case.body for case in getattr(statement, "cases", [])]
        for block in blocks:
            if found := _leaves_early(block, kinds):
                return found
    return None


def leaves_early(loop: Loop) -> ast.stmt | None:
    """A `break` or `continue` that may end a pass of the loop before its end."""
    return _leaves_early(loop.body, (ast.Break, ast.Continue))


def reached_each_pass(loop: Loop, statements: list[ast.stmt], syntax: Syntax) -> bool:
    """Whether each pass of the loop's body runs exactly one of the statements (they stand in its own block or in
    every branch of an `if`); inner loops are another matter."""
    return passes(loop.body, statements, syntax) == 1


def passes(block: list[ast.stmt], statements: list[ast.stmt], syntax: Syntax) -> int | None:
    """How many of the statements one run of the block executes; None where that is not always the same."""
    total = 0
    for statement in block:
        if statement in statements:
            total += 1
            continue
        inside = [s for s in statements if syntax.inside(s, statement)]
        if not inside:
            continue
        match statement:
            case ast.If(body=body, orelse=orelse):
                yes, no = passes(body, statements, syntax), passes(orelse, statements, syntax)
                if yes is None or yes != no:
                    return None
                total += yes
            case ast.With(body=body):
                inner = passes(body, statements, syntax)
                if inner is None:
                    return None
                total += inner
            case _:
                return None
    return total
