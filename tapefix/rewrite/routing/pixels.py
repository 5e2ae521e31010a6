"""Values read from a grid at whole-number positions that were made of real ones: `tf.gather_nd` at cast coordinates."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tapefix.rewrite.routing.site import Exact, Unclear, joined

if TYPE_CHECKING:
    from tapefix.rewrite.routing.numbers import Soften


def slopes(soften: Soften, node: ast.Call) -> str:
    """The value itself, with the difference to the next grid value along each coordinate as its gradient.

    Raises Unclear where the index is not a stack of coordinates along its last axis.
    """
    site = soften.site
    grid, index = site.argument(node, 0, "params"), site.argument(node, 1, "indices")
    batch = site.argument(node, 2, "batch_dims")
    stack = site.origin(index) if index is not None else None
    axis = site.argument(stack, 1, "axis") if isinstance(stack, ast.Call) else None
    if (
        grid is None
        or index is None
        or not isinstance(stack, ast.Call)
        or site.operation(stack) != "stack"
        or not stack.args
        or not isinstance(stack.args[0], (ast.List, ast.Tuple))
        or axis is None
        or ast.unparse(axis) != "-1"
        or not (batch is None or (isinstance(batch, ast.Constant) and isinstance(batch.value, int)))
        or soften.hardened(grid)
    ):
        raise Unclear(f"how `{site.brief(node)}` is indexed can't be followed; interpolate between neighbours")
    first = batch.value if isinstance(batch, ast.Constant) and isinstance(batch.value, int) else 0
    coordinates = stack.args[0].elts
    table = site.once(grid, "grid")
    at = site.name_for(site.text(index), node, "index")
    picked = site.name_for(f"tf.gather_nd({table}, {at}, batch_dims={first})", node, "picked")
    last = site.name_for(f"tf.shape({table})[{first}:{first + len(coordinates)}] - 1", node, "last")
    terms = []
    for d, coordinate in enumerate(coordinates):
        position = site.name_for(soften.number(coordinate), node, "position")
        step = [int(d == other) for other in range(len(coordinates))]
        following = f"tf.gather_nd({table}, tf.minimum({at} + {step}, {last}), batch_dims={first})"
        offset = joined("{p} - tf.stop_gradient({p})", p=position)
        shape = (
            f"tf.concat([tf.shape({position}), tf.ones([len({picked}.shape) - len({position}.shape)], tf.int32)], 0)"
        )
        terms.append(f"tf.reshape({offset}, {shape}) * ({following} - {picked})")
    return Exact(" + ".join([picked, *(site.name_for(term, node, "slope") for term in terms)]))
