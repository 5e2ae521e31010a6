"""Runs a model on computed weights in place of writing them into it: Keras 3's `stateless_call`.

Within one function the model's weights become a list of tensors, `fast_weights`: what wrote into the model binds the
list, what read the weights reads the list, and what called the model calls it on the list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.rewrite import imports
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.names import fresh

VARIABLES = frozenset({"trainable_variables", "trainable_weights", "weights", "variables"})
MESSAGE = "run the model on the computed weights by stateless_call; the model itself no longer holds them"
ALTERNATIVES = (
    "write the model's forward pass as a function of its weights",
    "first-order: take the gradient at the written weights and apply it to the original ones",
)
WRITES = {"assign": "{value}", "assign_sub": "{variable} - {value}", "assign_add": "{variable} + {value}"}
_BY_HAND = "run the model on the computed weights by keras.Model.stateless_call"


@dataclass(frozen=True)
class Loop:
    """`for v, g in zip(model.trainable_variables, grads): v.assign_sub(rate * g)`."""

    statement: ast.For
    model: ast.expr
    variables: ast.expr  # `model.trainable_variables`
    variable: ast.Name
    others: list[ast.expr]  # the other arguments of zip
    write: ast.Call

    @classmethod
    def at(cls, statement: ast.AST | None, syntax: Syntax | None = None) -> Loop | None:
        """The loop, if the statement is one. With `syntax`, a name for the model's variables counts as well."""
        if not isinstance(statement, ast.For) or len(statement.body) != 1 or statement.orelse:
            return None
        targets = statement.target.elts if isinstance(statement.target, ast.Tuple) else []
        zipped, body = statement.iter, statement.body[0]
        if not (isinstance(zipped, ast.Call) and ast.unparse(zipped.func) == "zip" and targets and zipped.args):
            return None
        variables, variable = zipped.args[0], targets[0]
        owned = _meant(variables, syntax) if syntax is not None else variables
        if not (isinstance(owned, ast.Attribute) and owned.attr in VARIABLES and isinstance(variable, ast.Name)):
            return None
        if not (isinstance(body, ast.Expr) and isinstance(body.value, ast.Call)):
            return None
        write = body.value
        if not (isinstance(write.func, ast.Attribute) and write.func.attr in WRITES and len(write.args) == 1):
            return None
        if not (isinstance(write.func.value, ast.Name) and write.func.value.id == variable.id):
            return None
        return cls(statement, owned.value, variables, variable, zipped.args[1:], write)


def _meant(variables: ast.expr, syntax: Syntax) -> ast.expr:
    """What a name that is bound once stands for; any other expression as it is."""
    if not isinstance(variables, ast.Name):
        return variables
    _, bindings = syntax.visible(variables.id, variables)
    above = syntax.parent(bindings[0]) if len(bindings) == 1 else None
    if isinstance(above, ast.Assign) and above.targets == [bindings[0]]:
        return above.value
    return variables


class Functional:
    """The rewrite of one function in which a model's weights are written."""

    def __init__(self, document: Document, at: ast.stmt, model: ast.expr, edits: EditSet | None = None):
        self.document, self.at, self.model = document, at, model
        self.syntax: Syntax = syntax_of(document)
        self.scope = self.syntax.scope(at)
        self.key = ast.unparse(model)
        self.edits = edits or EditSet(document)
        self.name = fresh(self.edits, at, "fast_weights")

    def written_by_set_weights(self, weights: ast.expr) -> Fix | Refusal:
        """`model.set_weights(weights)` and the calls of the model after it."""
        if isinstance(weights, ast.Name) and not self._bound_again(weights):
            self.name = weights.id
            if not self._wanted_elsewhere():
                self.edits.delete_statement(self.at)
        elif self._wanted_elsewhere():
            self.edits.insert_before(
                self.at, "{name} = {weights}", name=self.name, weights=self.document.source(weights)
            )
            self.edits.rewrite(weights, "{name}", name=self.name)
        else:
            self.edits.rewrite_statement(self.at, "{name} = {weights}", name=self.name, weights=weights)
        return self._redirect(self.syntax.order[self.at], self.at)

    def copied_from(self, other: ast.expr, statement: ast.stmt | None) -> Fix | Refusal:
        """`model.set_weights(other.get_weights())`: the other's weights, as tensors. `statement` goes, if given."""
        text = "{name} = [tf.convert_to_tensor(w) for w in {other}.trainable_variables]"
        local = imports.with_local_names(self.edits, text.format(name="n", other="o"), self.at, statement=True)
        text = text.replace("tf.convert_to_tensor", local.split("[", 1)[1].split("(w)", 1)[0])
        if statement is not None:
            self.edits.rewrite_statement(statement, text, name=self.name, other=other)
        else:
            self.edits.insert_after(self.at, text, name=self.name, other=other)
        return self._redirect(self.syntax.order[self.at], self.at)

    def written_in_a_loop(self, loop: Loop) -> Fix | Refusal:
        """`for v, g in zip(...): v.assign_sub(...)` and the calls of the model after it, or around it."""
        around = self._steps(loop)
        if around is None:
            self._rebind(loop, self.document.source(loop.variables))
            return self._redirect(self.syntax.end(loop.statement))
        text = imports.with_local_names(
            self.edits,
            f"{self.name} = [tf.convert_to_tensor(w) for w in {self.key}.trainable_variables]",
            around,
            statement=True,
        )
        self.edits.insert_before(around, text)
        return self._redirect(self.syntax.order[around])

    def given_by_helper(self, call: ast.Call) -> Fix | Refusal:
        """A helper that wrote the weights returns them: the statement that calls it binds them."""
        self.edits.rewrite_statement(self.at, "{name} = {call}", name=self.name, call=call)
        return self._redirect(self.syntax.order[self.at], self.at)

    def _steps(self, loop: Loop) -> ast.stmt | None:
        """The loop of several inner steps around it, if the model is called there too."""
        found: ast.stmt | None = None
        for above in self.syntax.loops(loop.statement):
            if any(self.syntax.inside(call, above) for call in self._calls()):
                before = [
                    c for c in self._calls() if self.syntax.inside(c, above) and self.syntax.before(c, loop.statement)
                ]
                found = above if before and found is None else found
        return found if found is not None and self._is_inner(found) else None

    def _is_inner(self, loop: ast.stmt) -> bool:
        """Whether the model is still called after the loop: then its steps are steps of the inner optimisation."""
        return any(self.syntax.order[call] > self.syntax.end(loop) for call in self._calls())

    def _calls(self) -> Iterator[ast.Call]:
        for node in ast.walk(self.scope):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == self.key:
                yield node

    def _bound_again(self, name: ast.Name) -> bool:
        return any(self.syntax.order[b] > self.syntax.order[self.at] for b in self.syntax.bindings(name.id, self.scope))

    def _wanted_elsewhere(self) -> bool:
        """Whether the program uses the model in other functions, which may want the weights that were written."""
        for node in ast.walk(self.document.tree):
            same = ast.unparse(node) == self.key if isinstance(node, (ast.Name, ast.Attribute)) else False
            above = self.syntax.parent(node)
            if not same or not isinstance(node.ctx, ast.Load) or self.syntax.scope(node) is self.scope:  # type: ignore[attr-defined]
                continue
            if not (isinstance(above, ast.Attribute) and above.attr in ("build", "trainable")):
                return True
        return False

    def _redirect(self, start: int, skipped: ast.stmt | None = None) -> Fix | Refusal:
        """Everything after `start` that uses the model, told to use the list."""
        done: set[ast.AST] = set()
        used = False
        for node in ast.walk(self.scope):
            if self.syntax.order.get(node, -1) <= start or (skipped is not None and self.syntax.inside(node, skipped)):
                continue
            inner = Loop.at(node, self.syntax)
            if inner is not None and ast.unparse(inner.model) == self.key:
                self._rebind(inner, self.name)
                done |= set(ast.walk(inner.variables))
        for node in sorted(
            (n for n in ast.walk(self.scope) if n in self.syntax.order), key=lambda n: self.syntax.order[n]
        ):
            if (
                self.syntax.order[node] <= start
                or (skipped is not None and self.syntax.inside(node, skipped))
                or node in done
            ):
                continue
            if self._is_alias(node):
                assert isinstance(node, ast.Name)
                self.edits.replace(node, self.name)
                self._watch(node)
                continue
            if not isinstance(node, (ast.Name, ast.Attribute)) or ast.unparse(node) != self.key:
                continue
            if not isinstance(node.ctx, ast.Load):
                return Refusal(f"`{self.key}` becomes another model on line {node.lineno}; {_BY_HAND}")
            problem = self._use(node)
            if problem is None:
                return Refusal(f"line {node.lineno} uses `{self.key}` in a way that can't be redirected; {_BY_HAND}")
            used = used or problem
        if not used:
            return Refusal(f"`{self.key}` is not called where its weights are written; {_BY_HAND}")
        imports.remove_unused(self.edits)
        return Fix(Applicability.UNSAFE, MESSAGE, self.edits.edits(), ALTERNATIVES)

    def _is_alias(self, node: ast.AST) -> bool:
        """Whether the node is a name for the list of the model's variables."""
        if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
            return False
        meant = _meant(node, self.syntax)
        return isinstance(meant, ast.Attribute) and meant.attr in VARIABLES and ast.unparse(meant.value) == self.key

    def _use(self, node: ast.expr) -> bool | None:
        """One use of the model told to use the list: True for a call, False for a reading, None where it can't be."""
        above = self.syntax.parent(node)
        if isinstance(above, ast.Call) and above.func is node:
            arguments = [*above.args, *above.keywords]
            text = ", ".join(self.edits.source(a) for a in above.args) if above.args else ""
            keywords = ", ".join(self.document.source(k) for k in above.keywords)
            given = ", ".join(part for part in (text, keywords) if part)
            if not arguments:
                return None
            lists = "[], {name}" if is_frozen(self.document, self.key) else "{name}, {model}.non_trainable_variables"
            self.edits.rewrite(
                above, f"{{model}}.stateless_call({lists}, {{*given}})[0]",
                model=self.key, name=self.name, given=given,
            )  # fmt: skip
            return True
        if not isinstance(above, ast.Attribute):
            return None
        outer = self.syntax.parent(above)
        if above.attr in VARIABLES:
            self.edits.rewrite(above, "{name}", name=self.name)
            self._watch(above)
            return False
        if above.attr == "get_weights" and isinstance(outer, ast.Call):
            self.edits.rewrite(outer, "{name}", name=self.name)
            return False
        if (
            above.attr == "set_weights"
            and isinstance(outer, ast.Call)
            and isinstance(self.syntax.parent(outer), ast.Expr)
        ):
            return False  # what is put back afterwards
        return False if above.attr in ("name", "losses", "built", "build", "non_trainable_variables") else None

    def _watch(self, variables: ast.expr) -> None:
        """A tape that is asked for the gradient of the list must watch it."""
        call = self.syntax.parent(variables)
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "gradient"):
            return
        tape = ast.unparse(call.func.value)
        for node in ast.walk(self.scope):
            if isinstance(node, ast.With) and any(
                item.optional_vars is not None and ast.unparse(item.optional_vars) == tape for item in node.items
            ):
                self.edits.insert_before(node.body[0], f"{tape}.watch({self.name})")

    def _rebind(self, loop: Loop, current: str) -> None:
        """The loop of writes as a new list."""
        assert isinstance(loop.write.func, ast.Attribute)
        zipped = ", ".join([current, *(self.document.source(one) for one in loop.others)])
        parts = {"name": self.name, "target": self.document.source(loop.statement.target), "zipped": zipped}
        self.edits.rewrite_statement(
            loop.statement,
            f"{{name}} = [{WRITES[loop.write.func.attr]} for {parts['target']} in zip({{*zipped}})]",
            name=self.name, variable=loop.variable.id, value=loop.write.args[0], zipped=zipped,
        )  # fmt: skip


def is_frozen(document: Document, key: str) -> bool | None:
    """Whether the layer is made with, or set to, `trainable=False`; None where its making is not in sight."""
    if f"{key}.trainable = False" in document.text:
        return True
    for node in ast.walk(document.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and key in map(ast.unparse, node.targets):
            keywords = {k.arg: k.value for k in node.value.keywords}
            trainable = keywords.get("trainable")
            return isinstance(trainable, ast.Constant) and trainable.value is False
    return None
