"""What is picked in order of size (`top_k`, `argsort`, `sort` by a key) keeps its value and gets a weight of one that
has the gradient of the scores."""

from __future__ import annotations

import ast

from tapefix.rewrite import names
from tapefix.rewrite.routing.numbers import CASTS, GATHERS, Soften
from tapefix.rewrite.routing.site import Site, Unclear, joined

Placed = tuple[ast.Call | ast.Return, ast.expr]
ORDERING = frozenset({"top_k", "argsort"})
_ON = frozenset("sort reverse cast reshape squeeze expand_dims stop_gradient identity convert_to_tensor".split())


def weigh_by_scores(site: Site, soften: Soften, node: ast.Call) -> None:
    """Rewrites every gather and one-hot row that the positions lead to. Raises Unclear where one goes elsewhere."""
    scores = site.argument(node, 0, "input", "values", "x")
    if scores is None or soften.hardened(scores):
        raise Unclear(f"the scores of `{site.brief(node)}` have lost their gradient before")
    text = site.once(scores, "scores")
    soft = site.name_for(joined("tf.nn.softmax({x})", x=text), scores, "soft")
    ends = [end for positions in positions_of(site, node) for end in gathers(site, positions)]
    if not ends:
        raise Unclear("what becomes of the positions can't be followed")
    for end, positions in ends:
        if isinstance(end, ast.Return):
            hand_over(site, end, soft)
        else:
            weigh(site, end, positions, weight_of(site, end, positions, soft))


def hand_over(site: Site, end: ast.Return, soft: str) -> None:
    """A function that returns the positions returns their weights beside them; its callers use both."""
    function = site.syntax.function(end)
    returns = [n for n in ast.walk(function) if isinstance(n, ast.Return)] if function is not None else []
    if len(returns) != 1 or end.value is None or function is None:
        raise Unclear("the function returns the positions at several places")
    calls = site.calls_of(function)
    if not calls:
        raise Unclear("the function returns the positions, and nobody in sight calls it")
    places: list[tuple[ast.Name, list[Placed]]] = []
    for call in calls:
        assign = site.syntax.parent(call)
        if not (
            isinstance(assign, ast.Assign) and len(assign.targets) == 1 and isinstance(assign.targets[0], ast.Name)
        ):
            raise Unclear("a caller uses the positions without a name for them")
        target = assign.targets[0]
        found = [one for use in site.uses(assign, assign.value, target.id) for one in gathers(site, use)]
        if any(isinstance(one, ast.Return) for one, _ in found):
            raise Unclear("the positions are handed on from function to function")
        places.append((target, found))
    chosen = site.name_for(site.text(end.value), end.value, "chosen")
    site.edits.replace(end.value, site.local(f"{chosen}, tf.gather({soft}, {chosen})", end))
    for target, found in places:
        weight = names.fresh(site.edits, target, "weight")
        start, stop = site.document.span(target)
        site.edits.replace_span(start, stop, f"{target.id}, {weight}")
        for one, positions in found:
            if isinstance(one, ast.Call):
                weigh(site, one, positions, weight)


def positions_of(site: Site, node: ast.Call) -> list[ast.expr]:
    """The expressions for the positions: those of `top_k` are its second result."""
    if site.operation(node) != "top_k":
        return [node]
    parent = site.syntax.parent(node)
    match parent:
        case ast.Attribute(attr="indices"):
            return [parent]
        case ast.Subscript(slice=ast.Constant(value=1)):
            return [parent]
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=name)])]):
            return list(_unpacked(site, parent, name))
        case ast.Assign(targets=[ast.Name(id=name)]):
            found: list[ast.expr] = []
            for use in site.uses(parent, parent.value, name):
                above = site.syntax.parent(use)
                if (isinstance(above, ast.Attribute) and above.attr == "indices") or (
                    isinstance(above, ast.Subscript)
                    and isinstance(above.slice, ast.Constant)
                    and above.slice.value == 1
                ):
                    found.append(above)
            return found
    raise Unclear("where the positions of the largest go can't be followed")


def _unpacked(site: Site, assign: ast.Assign, name: str) -> list[ast.Name]:
    scope = site.syntax.function(assign) or site.syntax.tree
    _, bindings = site.syntax.visible(name, assign.value)
    if len(bindings) != 1:
        raise Unclear(f"`{name}` is bound at several places")
    return [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]


def gathers(site: Site, node: ast.expr, depth: int = 10) -> list[Placed]:
    """(the gather, one-hot call or return, its positions) for each end of the positions' ways."""
    if depth == 0:
        raise Unclear("what becomes of the positions can't be followed")
    parent = site.syntax.parent(node)
    if isinstance(parent, ast.keyword):
        parent = site.syntax.parent(parent)
    match parent:
        case ast.Call() if parent.func is not node:
            operation = site.operation(parent)
            if operation in GATHERS | {"one_hot", "take_along_axis"}:
                return [(parent, node)]
            if operation in _ON or (operation in CASTS and site.dtype(parent) == "int"):
                return gathers(site, parent, depth - 1)
        case ast.Subscript(value=value) if value is node:
            return gathers(site, parent, depth - 1)
        case ast.Assign(targets=[ast.Name(id=name)]):
            return [end for use in site.uses(parent, parent.value, name) for end in gathers(site, use, depth - 1)]
        case ast.Return():
            return [(parent, node)]
    raise Unclear("the positions are used as numbers; an order has no gradient (soft ranks, or a loss on pairs, have)")


def weight_of(site: Site, end: ast.Call, positions: ast.expr, soft: str) -> str:
    """The scores' weights at the picked positions."""
    batch = next((k.value for k in end.keywords if k.arg == "batch_dims"), None)
    at = site.text(positions)
    if site.operation(end) == "take_along_axis":
        return site.name_for(f"tf.gather({soft}, {at}, batch_dims=len({soft}.shape) - 1)", end, "weight")
    more = "" if batch is None else f", batch_dims={site.text(batch)}"
    return site.name_for(f"tf.gather({soft}, {at}{more})", end, "weight")


def weigh(site: Site, end: ast.Call, positions: ast.expr, weight: str) -> None:
    """Give what was picked a weight of one, with as many axes as it has."""
    operation = site.operation(end)
    batch = next((k.value for k in end.keywords if k.arg == "batch_dims"), None)
    axis = site.argument(end, 3, "axis") if operation == "gather" else site.argument(end, 2, "axis")
    if not site.free(end):
        raise Unclear("the rows are picked inside an expression that has no place for the weights")
    if site.dtype(end) in ("int", "bool") and operation != "one_hot":
        raise Unclear(f"`{site.brief(end)}` picks whole numbers, which take no weight")
    picked = site.name_for(site.text(end), end, "picked")
    number = ast.literal_eval(axis) if isinstance(axis, ast.Constant) else 0
    if operation == "one_hot":
        shaped = f"{weight}[..., tf.newaxis]"
    elif batch is None and isinstance(number, int) and number > 0:
        shaped = f"tf.reshape({weight}, [-1] + [1] * (len({picked}.shape) - {number + 1}))"
    elif operation == "take_along_axis":
        shaped = weight
    else:
        shaped = (
            f"tf.reshape({weight}, tf.concat([tf.shape({weight}), "
            f"tf.ones([len({picked}.shape) - len({weight}.shape)], tf.int32)], 0))"
        )
    shaped = site.name_for(shaped, end, "weight")
    one = joined("1.0 + ({w} - tf.stop_gradient({w}))", w=shaped)
    site.edits.replace(end, site.local(joined("{x} * ({one})", x=picked, one=one), end))
