"""Follows an integer or a truth value to where it becomes a number that a gradient could pass."""

from __future__ import annotations

import ast

from tapefix.flow.values import Kind
from tapefix.rewrite.routing.numbers import CASTS, GATHERS, ROUNDING, Soften
from tapefix.rewrite.routing.site import Unclear

#: the value goes on as what it is
_ON = frozenset(
    """logical_and logical_or logical_not logical_xor reduce_any reduce_all any all equal not_equal greater less
    greater_equal less_equal reshape expand_dims squeeze transpose stack concat concatenate identity add subtract
    multiply floordiv floor_div mod floormod minimum maximum abs reduce_sum sum clip_by_value clip
    convert_to_tensor""".split()
)


class Sinks:
    """The ends of one value's ways. Raises Unclear where it goes where it can't be followed."""

    def __init__(self, soften: Soften):
        self.soften, self.site = soften, soften.site
        self.found: list[ast.expr] = []

    def of(self, node: ast.expr) -> list[ast.expr]:
        todo, seen = [node], set()
        while todo:
            here = todo.pop()
            if here in seen:
                continue
            seen.add(here)
            if (here is not node and self.is_end(here)) or (here is node and self.is_own_end(here)):
                if here not in self.found:
                    self.found.append(here)
                continue
            todo += self.onward(here)
        if not self.found:
            raise Unclear("what becomes of it can't be followed to a number")
        return sorted(self.found, key=lambda n: self.site.syntax.order[n])

    def is_own_end(self, node: ast.expr) -> bool:
        operation = self.site.operation(node)
        return operation in ROUNDING | {
            "sign",
            "floordiv",
            "floor_div",
            "floor_divide",
            "bincount",
            "count_nonzero",
        } or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv))

    def is_end(self, node: ast.expr) -> bool:
        """Whether the expression is a number made of the value."""
        if isinstance(node, ast.Subscript):
            if is_entry(self, node):
                return True
            return self.soften.is_truth(node.slice) and not self.soften.is_truth(node)
        if not isinstance(node, ast.Call):
            return False
        operation = self.site.operation(node)
        if operation in CASTS:
            return self.site.dtype(node) not in ("int", "bool")
        if operation == "count_nonzero":
            return False
        return operation in GATHERS | ROUNDING | {
            "take_along_axis",
            "gather_nd",
            "one_hot",
            "where",
            "sign",
            "bincount",
            "confusion_matrix",
            "boolean_mask",
        } or self.soften._is_embedding(node)

    def onward(self, node: ast.expr) -> list[ast.expr]:
        syntax, site = self.site.syntax, self.site
        parent = syntax.parent(node)
        while isinstance(parent, (ast.keyword, ast.Starred)):
            parent = syntax.parent(parent)
        match parent:
            case ast.Call() if parent.func is not node:
                operation = site.operation(parent)
                if operation in _ON | CASTS | GATHERS | {
                    "boolean_mask",
                    "take_along_axis",
                    "gather_nd",
                    "one_hot",
                    "where",
                    "count_nonzero",
                    "bincount",
                    "confusion_matrix",
                }:
                    return [parent]
                if self.soften._is_embedding(parent):
                    return [parent]
                if isinstance(parent.func, ast.Name) and parent.func.id in ("int", "float", "bool"):
                    return [parent]
                raise Unclear(f"it goes on into `{site.brief(parent.func)}`, which takes whole numbers or truth values")
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.BoolOp():
                return [parent]
            case ast.Subscript(value=value) if value is node:
                return [parent]
            case ast.List() | ast.Tuple() if isinstance(parent.ctx, ast.Load):
                return [parent]
            case ast.Assign(targets=[ast.Name(id=name)]):
                return list(site.uses(parent, parent.value, name))
            case ast.Subscript() if self.soften.is_truth(node):
                return [parent]
            case ast.Subscript() if site.model.kind_of(parent.value) & Kind.CONTAINER:
                return [parent]
            case ast.Subscript():
                raise Unclear("it is an index in brackets")
            case ast.Return():
                raise Unclear("the function returns it; what its callers do with it decides")
            case ast.Lambda():
                raise Unclear("a lambda returns it; what becomes of it decides")
            case ast.IfExp() | ast.If() | ast.While():
                raise Unclear("it decides a branch")
            case ast.Expr():
                return []
        raise Unclear("what becomes of it can't be followed")


def is_entry(sinks: Sinks, node: ast.Subscript) -> bool:
    """An entry of a list or dictionary, by a position that has lost its gradient."""
    site = sinks.site
    whole = site.model.kind_of(node.value)
    return bool(whole & Kind.CONTAINER) and not sinks.soften.is_truth(node.slice) and sinks.soften.hardened(node.slice)
