"""Selections whose condition or index holds weights: `tf.where`, masks, gathered rows."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import replace

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.routing.conditions import constant
from tapefix.rewrite.routing.gates import HUGE, Gates, refuse_other_types
from tapefix.rewrite.routing.numbers import GATHERS, Soften
from tapefix.rewrite.routing.repair import attempt, message
from tapefix.rewrite.routing.site import Site, Unclear, joined

_WHERE = {"where", "select", "switch"}
_ALTERNATIVES = ("a gate with another slope", "a Gumbel or relaxed Bernoulli gate")


def repair_selection(model: Model, cut: Cut, threshold: str) -> Fix | Refusal:
    """A selection as values weighed by gates: the forward value stays, what chooses gets a gradient."""
    site = Site(model, model.document_of(cut.spot), threshold)
    node = cut.spot.node

    def rewrite() -> tuple[str, tuple[str, ...]]:
        if not isinstance(node, ast.expr):
            raise Unclear("the place is no expression")
        soften = Soften(site)
        operation = site.operation(node)
        if is_where(site, node):
            for sibling in siblings(model, cut, site):
                where(site, soften, sibling)
        elif isinstance(node, ast.Call) and operation in GATHERS | {"gather_nd"} and _has_neighbours(soften, node):
            site.straight_through(node, soften.number(node))
        else:
            weigh_rows(site, soften, node)
        return message(site, "a sigmoid of what is compared", _ALTERNATIVES)

    outcome = attempt(site, rewrite)
    if isinstance(outcome, Fix) and is_where(site, node):
        first = siblings(model, cut, site)[0]
        key = f"{site.document.filename}:{first.lineno}:{first.col_offset}"
        return replace(outcome, group=hashlib.sha256(key.encode()).hexdigest()[:12])
    return outcome


def is_where(site: Site, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and site.operation(node) in _WHERE and len(node.args) + len(node.keywords) == 3


def siblings(model: Model, cut: Cut, site: Site) -> list[ast.Call]:
    """The selections of one function by the same weights: once one of them carries the gradient, the others are only
    incomplete. One inside another is rewritten with it."""
    names = {origin.name for origin in cut.origins}
    found: list[ast.Call] = []
    for other in model.of(How.SELECTION):
        node = other.spot.node
        if other is not cut and (
            other.spot.function is not cut.spot.function or not names & {o.name for o in other.origins}
        ):
            continue
        if isinstance(node, ast.Call) and is_where(site, node) and node in site.syntax.order:
            found.append(node)
    return [n for n in found if not any(n is not o and site.syntax.inside(n, o) for o in found)]


def _has_neighbours(soften: Soften, node: ast.Call) -> bool:
    """The index is a whole number with a soft counterpart: picked by size, or rounded."""
    try:
        soften.number(node)
    except Unclear:
        return False
    return True


def where(site: Site, soften: Soften, node: ast.Call) -> None:
    gates = Gates(site, soften)
    condition = site.argument(node, 0, "condition")
    one, other = (
        site.argument(node, 1, "x", "x1", "then_expression"),
        site.argument(node, 2, "y", "x2", "else_expression"),
    )
    if condition is None or one is None or other is None:
        raise Unclear(f"the branches of `{site.brief(node)}` can't be told")
    refuse_other_types(site, one, other)
    huge = constant(site.definition(other))
    if _is_huge(site, other) or (huge is not None and abs(huge) >= HUGE):
        soft = site.name_for(joined("tf.math.log({p})", p=soften.truth(condition)), condition, "log_weight")
        template = "{x} + ({s} - tf.stop_gradient({s}))" if not site.soft else "{x} + {s}"
        detach(site, condition)
        site.edits.rewrite(one, site.local_template(template, node), x=one, s=site.local(soft, node))
        return
    if not site.alive(one) and not site.alive(other):
        soft = soften.truth(condition)
        gate = site.name_for(soft, condition, "soft")
        blended = gates.blend(gate, _soft_branch(soften, one), _soft_branch(soften, other))
        site.straight_through(node, blended)
        return
    for branch in (one, other):
        if is_where(site, branch) and isinstance(branch, ast.Call) and site.trained(branch.args[0]):
            where(site, soften, branch)
    gate = gates.gate(condition)
    text = gates.blend(gate, gates.guarded(one, condition, True), gates.guarded(other, condition, False))
    site.edits.replace(node, site.local(text, node))


def _soft_branch(soften: Soften, node: ast.expr) -> str:
    return soften.number(node) if soften.hardened(node) else soften.site.text(node)


def detach(site: Site, condition: ast.expr) -> None:
    """Say that the hard choice itself is meant to be without a gradient, now that a weight beside it has one."""
    if site.direct(condition):
        name = site.name_for(joined("tf.stop_gradient({c})", c=site.text(condition)), condition, "chosen")
        site.edits.replace(condition, site.local(name, condition))


def _is_huge(site: Site, node: ast.expr) -> bool:
    node = site.definition(node)
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Attribute):
        return node.attr in ("inf", "min", "max", "infty", "Inf")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float" and node.args:
        return isinstance(node.args[0], ast.Constant) and "inf" in str(node.args[0].value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return (
            _is_huge(site, node.left)
            or _is_huge(site, node.right)
            or any(abs(constant(side) or 0.0) >= HUGE for side in (node.left, node.right))
        )
    value = constant(node)
    return value is not None and abs(value) >= HUGE


def weigh_rows(site: Site, soften: Soften, node: ast.expr) -> None:
    """Rows picked by a mask or by positions keep their values and get a weight of one that has a gradient."""
    weights, values = _weights(site, soften, node)
    if isinstance(node, ast.Call) and "scatter" in site.operation(node):
        node = values  # what is put there is weighed, not what it is put into
    if site.dtype(node) in ("int", "bool"):
        raise Unclear(f"`{site.brief(node)}` picks whole numbers, which take no weight")
    if not site.free(node):
        raise Unclear("the rows are picked inside an expression that has no place for the weights")
    weights = site.name_for(weights, node, "weight")
    if site.facts.rank(values) == 1:
        one = joined("1.0 + ({w} - tf.stop_gradient({w}))", w=weights)
        site.edits.rewrite(node, site.local_template(f"{{it}} * ({one})", node), it=node)
        return
    name = site.name_for(site.text(node), node, "picked")
    # a mask or a list of positions picks along one axis: the weights have that axis alone
    shaped = joined("tf.reshape({w}, [-1] + [1] * (len({x}.shape) - 1))", w=weights, x=name)
    weights = site.name_for(shaped, node, "weight")
    one = joined("1.0 + ({w} - tf.stop_gradient({w}))", w=weights)
    site.edits.replace(node, site.local(joined("{x} * ({one})", x=name, one=one), node))


def _weights(site: Site, soften: Soften, node: ast.expr) -> tuple[str, ast.expr]:
    """The picked rows' own weights, by the same pick, and what the rows are picked of."""
    if isinstance(node, ast.Subscript):
        mask = node.slice
        soft = site.name_for(soften.truth(mask), mask if isinstance(mask, ast.expr) else node, "soft")
        hard = soften.hard(mask)
        detach(site, mask)
        if not isinstance(mask, ast.Name):
            hard = site.text(mask)
        return joined("tf.boolean_mask({s}, {m})", s=soft, m=hard), node.value
    operation = site.operation(node)
    if not isinstance(node, ast.Call):
        raise Unclear("it is no selection that takes weights")
    if operation == "boolean_mask":
        values, mask_ = site.argument(node, 0, "tensor"), site.argument(node, 1, "mask")
        axis = (
            site.argument(node, 2, "axis")
            if len(node.args) == 3
            else next((k.value for k in node.keywords if k.arg == "axis"), None)
        )
        if values is None or mask_ is None or (axis is not None and constant(axis) != 0.0):
            raise Unclear(f"`{site.brief(node)}` masks along another axis than the first")
        soft = site.name_for(soften.truth(mask_), node, "soft")
        detach(site, mask_)
        return joined("tf.boolean_mask({s}, {m})", s=soft, m=site.text(mask_)), values
    if operation in ("gather", "gather_nd", "take", "tensor_scatter_nd_update", "tensor_scatter_nd_add", "scatter_nd"):
        values = site.argument(node, 0, "params", "x", "tensor")
        indices = site.argument(node, 1, "indices")
        if operation == "scatter_nd":
            indices, values = site.argument(node, 0, "indices"), site.argument(node, 1, "updates")
        elif "scatter" in operation:
            values = site.argument(node, 2, "updates")
        condition = positions(site, indices) if indices is not None else None
        if values is None or indices is None or condition is None:
            raise Unclear(f"how `{site.brief(node)}` picks its rows can't be followed")
        extra = [k for k in node.keywords if k.arg in ("axis", "batch_dims")]
        if extra or (operation == "gather" and len(node.args) > 2):
            raise Unclear(f"`{site.brief(node)}` picks along another axis than the first")
        soft = site.name_for(soften.truth(condition), node, "soft")
        at = site.text(indices)
        if operation == "gather":
            return joined("tf.gather({s}, {i})", s=soft, i=at), values
        return joined("tf.gather_nd({s}, {i})", s=soft, i=at), values
    raise Unclear(f"`{site.brief(node)}` picks its rows in a way that takes no weights")


def positions(site: Site, indices: ast.expr) -> ast.expr | None:
    """The condition whose true positions the indices are: of `tf.where(condition)`."""
    node = site.definition(indices)
    if isinstance(node, ast.Subscript):
        return positions(site, node.value)
    if isinstance(node, ast.Call):
        operation = site.operation(node)
        if operation == "where" and len(node.args) == 1:
            return node.args[0]
        if operation in ("squeeze", "cast", "reshape", "flatten") and node.args:
            return positions(site, node.args[0])
    return None
