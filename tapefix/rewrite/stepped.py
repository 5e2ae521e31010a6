"""Variables that a step is written into and that are read again under an outer tape: the stepped values as tensors.

`for v, g in zip(params, grads): v.assign_sub(rate * g)` becomes a list of new values, and what reads `params` after it
in the function reads the list. Several steps in a loop carry the list along.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.rewrite import imports
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.functional_weights import WRITES
from tapefix.rewrite.names import fresh

_ALTERNATIVES = (
    "first-order: take the gradient at the written values and apply it to the original ones",
    "tf.stop_gradient around the step, where its gradient is not wanted",
)


@dataclass(frozen=True)
class Step:
    """A write of new values into one Variable, a list of them or a dictionary of them."""

    statement: ast.stmt
    holder: ast.expr  # `params` in `zip(params, grads)` and `params.items()`, or the Variable itself
    write: ast.Call
    kind: str  # "one", "list", "dict"
    others: tuple[ast.expr, ...] = ()  # the further arguments of zip

    @classmethod
    def at(cls, statement: ast.AST | None) -> Step | None:
        """The step that the statement is, if it is one."""
        if isinstance(statement, ast.Expr):
            write = _write(statement)
            if write is not None and isinstance(write.func, ast.Attribute) and isinstance(write.func.value, ast.Name):
                return cls(statement, write.func.value, write, "one")
            return None
        if not isinstance(statement, ast.For) or len(statement.body) != 1 or statement.orelse:
            return None
        write, targets = _write(statement.body[0]), getattr(statement.target, "elts", [])
        call = statement.iter
        if write is None or not isinstance(call, ast.Call) or not isinstance(write.func, ast.Attribute):
            return None
        written = write.func.value.id if isinstance(write.func.value, ast.Name) else ""
        if isinstance(call.func, ast.Name) and call.func.id == "zip" and call.args and _named(targets[:1], written):
            if isinstance(call.args[0], ast.Name):
                return cls(statement, call.args[0], write, "list", tuple(call.args[1:]))
        if isinstance(call.func, ast.Attribute) and call.func.attr == "items" and _named(targets[1:2], written):
            if isinstance(call.func.value, ast.Name):
                return cls(statement, call.func.value, write, "dict")
        return None

    def written(self, document: Document, holder: str) -> str:
        """The new values, made of those in `holder`."""
        assert isinstance(self.write.func, ast.Attribute)
        value = document.source(self.write.args[0])
        if self.write.func.attr != "assign" and not _binds_tightly(self.write.args[0]):
            value = f"({value})"
        name = document.source(self.write.func.value) if self.kind != "one" else holder
        made = WRITES[self.write.func.attr].format(variable=name, value=value)
        if self.kind == "one":
            return made
        assert isinstance(self.statement, ast.For)
        assert isinstance(self.statement.target, ast.Tuple)
        target = document.source(self.statement.target)
        if self.kind == "dict":
            key = document.source(self.statement.target.elts[0])
            return f"{{{key}: {made} for {target} in {holder}.items()}}"
        zipped = ", ".join([holder, *map(document.source, self.others)])
        return f"[{made} for {target} in zip({zipped})]"

    def start(self) -> str:
        """The values before the first step, as tensors."""
        name = ast.unparse(self.holder)
        if self.kind == "dict":
            return f"{{key: tf.convert_to_tensor(value) for key, value in {name}.items()}}"
        return (
            f"[tf.convert_to_tensor(value) for value in {name}]"
            if self.kind == "list"
            else f"tf.convert_to_tensor({name})"
        )


def _write(statement: ast.stmt) -> ast.Call | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return call if call.func.attr in WRITES and len(call.args) == 1 and not call.keywords else None


def _binds_tightly(node: ast.expr) -> bool:
    """Whether the expression needs no brackets behind a plus or minus."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Mult, ast.Div, ast.MatMult, ast.Pow))
    return isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant))


def _named(targets: list[ast.expr], name: str) -> bool:
    return bool(targets) and isinstance(targets[0], ast.Name) and targets[0].id == name and bool(name)


def stepped(model: Model, cut: Cut) -> Fix | Refusal:
    """The stepped values read in place of the Variables that they were written into."""
    document = model.document_of(cut.spot)
    syntax = syntax_of(document)
    statement = syntax.statement(cut.spot.node)
    step = Step.at(syntax.parent(statement)) or Step.at(statement)
    if step is None or not isinstance(syntax.scope(step.statement), (ast.FunctionDef, ast.AsyncFunctionDef)):
        return Refusal("the write is no plain step of Variables in a function")
    try:
        return _Rewrite(document, syntax, step).fix()
    except EditConflict as conflict:
        return Refusal(str(conflict))


class _Rewrite:
    def __init__(self, document: Document, syntax: Syntax, step: Step):
        self.document, self.syntax, self.step = document, syntax, step
        self.scope = syntax.scope(step.statement)
        self.key = ast.unparse(step.holder)
        self.edits = EditSet(document)
        self.name = fresh(self.edits, step.statement, f"stepped_{self.key}")

    def fix(self) -> Fix | Refusal:
        step, syntax = self.step, self.syntax
        if any(syntax.order[b] > syntax.order[step.statement] for b in syntax.bindings(self.key, self.scope)):
            return Refusal(f"`{self.key}` is bound again after the write")
        around = next((loop for loop in syntax.loops(step.statement) if any(self._reads(loop))), None)
        restored = self._restored(around or step.statement)
        last = syntax.order[restored] if restored is not None else len(syntax.order)
        begin = syntax.order[around] if around is not None else syntax.end(step.statement)
        reads = [n for n in self._reads(self.scope) if begin < syntax.order[n] < last]
        if not any(syntax.order[n] > syntax.end(step.statement) for n in reads):
            return Refusal(f"`{self.key}` is not read after the write in the same function")
        text = f"{self.name} = " + step.written(self.document, self.name if around is not None else self.key)
        if around is not None:
            first = imports.with_local_names(self.edits, f"{self.name} = {step.start()}", around, statement=True)
            self.edits.insert_before(around, first)
        if restored is not None:
            self.edits.replace_statement(step.statement, text)
        else:
            self.edits.insert_before(step.statement, text)
        for node in reads:
            self.edits.replace(node, self.name)
            self._watch(node)
        imports.remove_unused(self.edits)
        message = f"compute with the stepped values; `{self.key}` itself does not carry them"
        return Fix(Applicability.UNSAFE, message, self.edits.edits(), _ALTERNATIVES)

    def _reads(self, within: ast.AST) -> Iterator[ast.Name]:
        """The uses of the Variables as values, outside the step."""
        for node in ast.walk(within):
            if not (isinstance(node, ast.Name) and node.id == self.key and isinstance(node.ctx, ast.Load)):
                continue
            if self.syntax.scope(node) is not self.scope or self.syntax.inside(node, self.step.statement):
                continue
            above = self.syntax.parent(node)
            if not (isinstance(above, ast.Attribute) and above.attr in WRITES):
                yield node

    def _restored(self, after: ast.stmt) -> ast.stmt | None:
        """The statement after the step that puts the original values back."""
        found = [
            node
            for node in ast.walk(self.scope)
            if isinstance(node, ast.stmt)
            and self.syntax.order[node] > self.syntax.end(after)
            and (other := Step.at(node)) is not None
            and ast.unparse(other.holder) == self.key
            and other.write.func.attr == "assign"  # type: ignore[attr-defined]
        ]
        return min(found, key=lambda node: self.syntax.order[node], default=None)

    def _watch(self, node: ast.Name) -> None:
        """A tape that is asked for the gradient of the stepped values must watch them."""
        call = self.syntax.parent(node)
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "gradient"):
            return
        tape = ast.unparse(call.func.value)
        for block in ast.walk(self.scope):
            names = [item.optional_vars for item in block.items] if isinstance(block, ast.With) else []
            if isinstance(block, ast.With) and any(n is not None and ast.unparse(n) == tape for n in names):
                self.edits.insert_before(block.body[0], f"{tape}.watch({self.name})")
