"""`stop_gradient` stands on the only path.

The value is detached on purpose, yet its weights are among the sources.

Before
------
    loss = f(tf.stop_gradient(model(x)))

After
-----
    loss = f(model(x))

Fix
---
Unsafe: the value may have been detached on purpose, as a target is; then the other use is the one to change.

See https://www.tensorflow.org/guide/autodiff
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.leaving import finished


class StopGradient(Codemod):
    code = "TAP407"
    name = "stop-gradient"
    speaks_for: ClassVar = frozenset({How.STOPPED})
    why = "stop_gradient says that nothing may pass"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        node = cut.spot.node
        value = _stopped(node)
        if value is None or not isinstance(node, ast.expr):
            return Refusal("what is stopped can't be told")
        edits = EditSet(model.document_of(cut.spot))
        statement = edits.layout.statement(node)
        if (
            isinstance(statement, ast.Assign)
            and statement.value is node
            and all(
                isinstance(target, ast.Name) and ast.unparse(target) == ast.unparse(value)
                for target in statement.targets
            )
        ):
            edits.delete_statement(statement)
        else:
            edits.rewrite(node, "{it}", it=value)
        return finished(
            edits,
            "take the stop_gradient away, since no other way leads to these weights",
            ("keep it where the value serves as a target, and pass the value itself where it is trained",),
            safe=False,
        )


def _stopped(call: ast.AST) -> ast.expr | None:
    """The value that the call stops, given by place or by its name."""
    if not isinstance(call, ast.Call):
        return None
    named = [keyword.value for keyword in call.keywords if keyword.arg == "input"]
    if len(call.args) == 1 and not call.keywords:
        return call.args[0]
    return named[0] if named and not call.args and all(k.arg in ("input", "name") for k in call.keywords) else None
