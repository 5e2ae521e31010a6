"""Numbers that were stored before the tape was opened, and read inside its block."""

from __future__ import annotations

import ast

from tapefix.codemod import Refusal
from tapefix.flow import Cut, Model
from tapefix.flow.objects import flat
from tapefix.flow.values import ANY_TAPE
from tapefix.rewrite.tape_block import block_of


def before_the_tape(model: Model, cut: Cut) -> bool:
    """Whether the value was made number outside the tape that wants its gradient, so that keeping it a tensor
    alone does not help."""
    block = block_of(model, cut)
    if isinstance(block, Refusal):
        return False
    found = False
    for node in _converted(model, cut):
        value = model.value_of(node)
        for dep in flat(value).live if value is not None else ():
            found = True
            if any(tape is ANY_TAPE or tape.node in (block.statement, *_items(block.statement)) for tape in dep.tapes):
                return False
    return found


def _converted(model: Model, cut: Cut) -> list[ast.expr]:
    call = cut.spot.node
    if not isinstance(call, ast.Call):
        return []
    method = isinstance(call.func, ast.Attribute) and not model.api_of(call.func)
    return [call.func.value] if method and isinstance(call.func, ast.Attribute) else list(call.args)


def _items(statement: ast.With) -> list[ast.AST]:
    return [item.context_expr for item in statement.items]
