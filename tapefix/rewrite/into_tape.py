"""Moves a forward pass that ran before a tape into the tape's block, from before a loop or from the caller."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.rewrite.accumulators.syntax import Syntax, names_read, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.makers import makes_variables
from tapefix.rewrite.tape_block import Block

#: calls that give something else the next time
_CONSUMING = frozenset({"next", "pop", "popleft", "get_nowait", "read", "readline", "input", "get_next"})
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def moved(model: Model, cuts: Iterable[Cut], block: Block) -> Fix | Refusal:
    """What was computed once before the loop, computed inside the tape's block in each of its steps."""
    document, syntax = block.document, syntax_of(block.document)
    starts: list[ast.stmt] = []
    for cut in cuts:
        if model.document_of(cut.spot) is not document:
            return Refusal("the forward pass is in another file; run it inside the tape's block")
        starts.append(syntax.statement(cut.spot.node))
    siblings = syntax.block(starts[0])
    loop = next((above for above in syntax.ancestors(block.statement) if above in siblings), None)
    if loop is None or any(start not in siblings for start in starts):
        return Refusal("the forward pass and the tape's block are too far apart; run it inside the tape's block")
    first, end = min(map(siblings.index, starts)), siblings.index(loop)
    chosen: list[ast.stmt] = []
    names: set[str] = set()
    for statement in siblings[first:end]:
        if statement not in starts and not names & read_at_once(statement):
            if names & bound_by(statement):
                return Refusal(f"line {statement.lineno} binds again what is computed before the tape")
            continue
        if not is_binding(statement):
            return Refusal(
                f"line {statement.lineno} uses the value before the tape is opened; run the forward pass inside it"
            )
        problem = why_not_again(model, statement)
        if problem:
            return Refusal(problem)
        chosen.append(statement)
        names |= bound_by(statement)
    early = _used_early(syntax, siblings[first:end], loop, block, chosen, names)
    if early:
        return Refusal(f"{early}; run the forward pass inside the tape's block")
    edits = EditSet(document)
    try:
        target = block.statement.body[0]
        for statement in chosen:
            edits.insert_before(target, document.source(statement))
            edits.delete_statement(statement)
        return Fix(
            Applicability.UNSAFE,
            "compute it inside the tape's block, anew in each step",
            edits.edits(),
            ("keep the Variables and compute what depends on them when it is asked for",),
            group=f"move {document.filename} {document.span(block.statement)[0]}",
        )
    except EditConflict as conflict:
        return Refusal(str(conflict))


def why_not_again(model: Model, statement: ast.stmt) -> str:
    """Why a statement can't run in every step; "" if it can."""
    maker = makes_variables(model, statement)
    if maker is not None:
        return (
            f"line {maker.lineno} makes Variables, which would be new in each step; keep them, and compute what "
            "depends on them when it is asked for: in a method or a property"
        )
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _CONSUMING:
                return f"line {node.lineno} takes something new each time it runs; run the forward pass inside the tape"
    return ""


def is_binding(statement: ast.stmt) -> bool:
    """Whether the statement only gives names to values."""
    if not isinstance(statement, ast.Assign):
        return False
    parts: list[ast.expr] = list(statement.targets)
    while parts:
        part = parts.pop()
        if isinstance(part, (ast.Tuple, ast.List)):
            parts += part.elts
        elif not isinstance(part, ast.Name):
            return False
    return not any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in ast.walk(statement))


def bound_by(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def read_at_once(node: ast.AST) -> set[str]:
    """The names that are read when the statement runs, not when a function that it makes is called."""
    found: set[str] = set()
    todo: list[ast.AST] = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            found.add(part.id)
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            defaults = [*part.args.defaults, *(d for d in part.args.kw_defaults if d is not None)]
            todo += [*defaults, *getattr(part, "decorator_list", [])]
        else:
            todo += ast.iter_child_nodes(part)
    return found


def _used_early(
    syntax: Syntax, between: list[ast.stmt], loop: ast.AST, block: Block, chosen: list[ast.stmt], names: set[str]
) -> str:
    """Where the names are wanted before the tape's block gives them their values; "" if nowhere."""
    late = _functions_that_read(syntax.tree, names, chosen)
    for statement in [*between, loop]:
        if statement in chosen or isinstance(statement, _DEFINITIONS):
            continue
        for node in ast.walk(statement):
            if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)) or not syntax.before(
                node, block.statement
            ):
                continue
            if node.id in names and syntax.function(node) is syntax.function(block.statement):
                return f"line {node.lineno} uses `{node.id}` before the tape's block"
            above = syntax.parent(node)
            if node.id in late and isinstance(above, ast.Call) and above.func is node:
                return f"line {node.lineno} calls `{node.id}`, which uses the value, before the tape's block"
    return ""


def _functions_that_read(tree: ast.Module, names: set[str], chosen: list[ast.stmt]) -> set[str]:
    """The names of functions and lambdas that read one of the names when they are called."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in chosen or not names & names_read(node):
            continue
        if isinstance(node, _DEFINITIONS):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def handed_over(model: Model, cuts: list[Cut], block: Block) -> Fix | Refusal:
    """The model's inputs handed to the function that opens the tape, in place of the outputs."""
    document, syntax = block.document, syntax_of(block.document)
    function = syntax.function(block.statement)
    if len(cuts) != 1 or not isinstance(function, ast.FunctionDef):
        return Refusal("several forward passes lie outside the tape; run them inside its block")
    (cut,) = cuts
    if model.document_of(cut.spot) is not document:
        return Refusal("the forward pass is in another file than the tape; run it inside the tape's block")
    site = _only_call(syntax, function)
    if site is None:
        return Refusal(f"`{function.name}` is not called in one place alone; run the forward pass inside its tape")
    problem = why_not_again(model, syntax.statement(cut.spot.node))
    if problem:
        return Refusal(problem)
    try:
        return _Handover(document, function, site, block).fix(syntax.statement(cut.spot.node))
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _only_call(syntax: Syntax, function: ast.FunctionDef) -> ast.Call | None:
    """The one place where the function is named, if it is called there."""
    uses = [
        node
        for node in ast.walk(syntax.tree)
        if (isinstance(node, ast.Name) and node.id == function.name and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.Attribute) and node.attr == function.name)
    ]
    above = syntax.parent(uses[0]) if len(uses) == 1 else None
    return above if isinstance(above, ast.Call) and above.func is uses[0] else None


class _Handover:
    """Moves one assignment of a caller into the function that is called with what it bound."""

    def __init__(self, document: Document, function: ast.FunctionDef, site: ast.Call, block: Block):
        self.document, self.function, self.site, self.block = document, function, site, block
        self.syntax, self.layout, self.edits = syntax_of(document), Layout.of(document), EditSet(document)
        method = isinstance(self.syntax.parent(function), ast.ClassDef)
        self.receiver = (
            site.func.value.id
            if method and isinstance(site.func, ast.Attribute) and isinstance(site.func.value, ast.Name)
            else ""
        )
        self.parameters = [a.arg for a in function.args.args]
        self.self_name = self.parameters[0] if method and self.parameters else ""

    def fix(self, forward: ast.stmt) -> Fix | Refusal:
        caller, function = self.syntax.statement(self.site), self.function
        if forward is caller:
            return Refusal(
                "the forward pass is an argument of the call; hand over its inputs and run it inside the tape"
            )
        if not isinstance(forward, ast.Assign) or not is_binding(forward) or len(forward.targets) != 1:
            return Refusal("the forward pass is no plain assignment; run it inside the tape")
        siblings = self.syntax.block(forward)
        if caller not in siblings or siblings.index(caller) < siblings.index(forward):
            return Refusal(f"`{function.name}` is not called next to the forward pass; run it inside its tape")
        between = siblings[siblings.index(forward) + 1 : siblings.index(caller)]
        bound, needed = bound_by(forward), names_read(forward.value)
        if any(bound_by(statement) & (needed | bound) for statement in between):
            return Refusal("what the forward pass needs is bound again before the call; run it inside the tape")
        if any("input_signature" in ast.unparse(d) for d in function.decorator_list):
            return Refusal(f"`{function.name}` has a fixed input signature; run the forward pass inside it")
        if function.args.vararg or function.args.kwarg or function.args.posonlyargs or function.args.defaults:
            return Refusal(
                f"the parameters of `{function.name}` can't be told apart; run the forward pass inside its tape"
            )
        passed = self._passed()
        if passed is None:
            return Refusal(f"which argument is which can't be told in the call of `{function.name}`")
        renamed = {arg.id: name for name, arg in passed.items() if isinstance(arg, ast.Name)}
        outputs = {name: renamed[name] for name in bound if name in renamed}
        if not outputs:
            return Refusal(
                f"what the forward pass gives does not go to `{function.name}` as it is; run it inside the tape"
            )
        if any(self._reads_before(parameter) for parameter in outputs.values()):
            return Refusal("the function uses the value before its tape is opened; open the tape earlier")
        elsewhere = self._read_elsewhere(forward, caller, set(outputs))
        new = [
            name
            for name in _in_order(forward.value)
            if self._must_be_handed(name, forward) and name not in renamed and name != self.receiver
        ]
        taken = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | set(self.parameters)
        if taken & set(new):
            return Refusal(
                f"`{min(taken & set(new))}` means something else in `{function.name}`; run the forward pass there"
            )
        self._change_signature(passed, outputs, new)
        self._change_call(passed, outputs, new)
        self._write_inside(forward, {**renamed, **({self.receiver: self.self_name} if self.receiver else {})})
        if not elsewhere:
            self.edits.delete_statement(forward)
        message = f"hand the inputs to `{function.name}` and run the forward pass inside its tape"
        choices = (f"open the tape around the forward pass and the call of `{function.name}`",)
        return Fix(Applicability.UNSAFE, message, self.edits.edits(), choices)

    def _passed(self) -> dict[str, ast.expr] | None:
        """The argument expression of each parameter."""
        names = self.parameters[1:] if self.self_name else self.parameters
        if any(isinstance(a, ast.Starred) for a in self.site.args) or any(k.arg is None for k in self.site.keywords):
            return None
        if len(self.site.args) > len(names):
            return None
        return {
            **dict(zip(names, self.site.args, strict=False)),
            **{k.arg: k.value for k in self.site.keywords if k.arg},
        }

    def _reads_before(self, parameter: str) -> bool:
        return any(
            isinstance(n, ast.Name) and n.id == parameter and self.syntax.before(n, self.block.statement)
            for n in ast.walk(self.function)
        )

    def _read_elsewhere(self, forward: ast.stmt, caller: ast.stmt, names: set[str]) -> bool:
        """Whether the caller also uses what the forward pass gives for something else."""
        scope = self.syntax.scope(forward)
        inside = {id(n) for n in ast.walk(self.site)}
        return any(
            isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load) and id(n) not in inside
            for n in ast.walk(scope)
            if self.syntax.scope(n) is scope
        )

    def _must_be_handed(self, name: str, forward: ast.stmt) -> bool:
        """Whether a name of the caller means something else, or nothing, in the function."""
        scope, bindings = self.syntax.visible(name, forward)
        if scope is None:
            return False
        if scope is not self.syntax.tree:
            return True
        fixed = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias)
        if all(isinstance(b, fixed) for b in bindings):
            return False
        return (
            len(bindings) != 1
            or bool(self.syntax.loops(bindings[0]))
            or isinstance(self.syntax.parent(bindings[0]), ast.For)
        )

    def _change_signature(self, passed: dict[str, ast.expr], outputs: dict[str, str], new: list[str]) -> None:
        arguments = [a for a in self.function.args.args if a.arg in outputs.values()]
        self._spread([self.document.span(a) for a in arguments], ", ".join(new))

    def _change_call(self, passed: dict[str, ast.expr], outputs: dict[str, str], new: list[str]) -> None:
        gone = [passed[name] for name in outputs.values()]
        spans = [self.document.span(a) for a in self.site.args if a in gone]
        keyed = [self.document.span(k) for k in self.site.keywords if k.value in gone]
        text = ", ".join(new) if spans else ", ".join(f"{name}={name}" for name in new)
        self._spread([*spans, *keyed], text)

    def _spread(self, spans: list[tuple[int, int]], text: str) -> None:
        """Puts the text in the first span's place and takes the others out, each with a comma."""
        source = self.document.text
        for index, (start, end) in enumerate(spans):
            if index == 0 and text:
                self.edits.replace_span(start, end, text)
                continue
            rest = source[end:]
            if rest.lstrip().startswith(","):
                end += len(rest) - len(rest.lstrip()) + 1
                end += len(source[end:]) - len(source[end:].lstrip(" "))
            else:
                start = source[:start].rstrip().rindex(",") if source[:start].rstrip().endswith(",") else start
            self.edits.replace_span(start, end, "")

    def _write_inside(self, forward: ast.Assign, renamed: dict[str, str]) -> None:
        start = self.document.span(forward)[0]
        text = self.document.source(forward)
        names = [n for n in ast.walk(forward) if isinstance(n, ast.Name) and n.id in renamed and renamed[n.id] != n.id]
        for node in sorted(names, key=lambda n: self.document.span(n)[0], reverse=True):
            low, high = self.document.span(node)
            text = text[: low - start] + renamed[node.id] + text[high - start :]
        self.edits.insert_before(self.block.statement.body[0], text)


def _in_order(node: ast.expr) -> Iterator[str]:
    """The names that an expression reads, each once, in the order of the text."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    yield from dict.fromkeys(n.id for n in sorted(names, key=lambda n: (n.lineno, n.col_offset)))
