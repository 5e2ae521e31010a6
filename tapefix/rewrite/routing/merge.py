"""A Python `if` on a tensor as one straight line: both branches run, weighed by a gate or mask."""

from __future__ import annotations

import ast
from dataclasses import replace

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document, Edit
from tapefix.flow import Cut, Model, understand
from tapefix.rewrite import imports
from tapefix.rewrite.build import BadTemplate
from tapefix.rewrite.edits import EditConflict
from tapefix.rewrite.routing.batch import Batch, comments_in
from tapefix.rewrite.routing.branches import Branches, Outcome
from tapefix.rewrite.routing.cond_call import ALTERNATIVES
from tapefix.rewrite.routing.dispatch import called_entry, match_statement
from tapefix.rewrite.routing.freeze import freeze_break
from tapefix.rewrite.routing.repair import attempt, message
from tapefix.rewrite.routing.site import Site, Unclear, joined


def repair_if(model: Model, cut: Cut, threshold: str) -> Fix | Refusal:
    site = Site(model, model.document_of(cut.spot), threshold)

    def rewrite() -> tuple[str, tuple[str, ...]]:
        test = cut.spot.node
        if not isinstance(test, ast.expr):
            raise Unclear("the test can't be told")
        parent = site.syntax.parent(test)
        branches = Branches(site)
        if isinstance(parent, ast.IfExp) and parent.test is test:
            ternary(branches, parent)
        elif isinstance(parent, ast.If) and parent.test is test and any(isinstance(s, ast.Break) for s in parent.body):
            freeze_break(site, parent)
            branches.trained = True
        elif isinstance(parent, ast.If) and parent.test is test:
            straighten(branches, parent)
        elif isinstance(parent, ast.Match) and parent.subject is test:
            match(branches, parent)
        elif isinstance(test, ast.Subscript):
            called_entry(branches, test)
        else:
            raise Unclear("the branches can't be told")
        if not branches.trained:
            return "run both branches and select between their values", ("weigh both by a mask of 0 and 1",)
        return message(site, "a sigmoid of the test, as a gate between the branches", ALTERNATIVES)

    outcome = attempt(site, rewrite)
    return whole_batch(site, cut, outcome) if isinstance(outcome, Fix) else outcome


def whole_batch(site: Site, cut: Cut, fix: Fix) -> Fix:
    """The fix with the loop over samples around the `if` said for the whole batch at once, where that is sure."""
    loops = [loop for loop in site.syntax.loops(cut.spot.node) if isinstance(loop, ast.For)]
    if not loops:
        return fix
    order = [n for n in ast.walk(site.document.tree) if isinstance(n, ast.For)]
    order.sort(key=lambda n: (n.lineno, n.col_offset))
    straight = site.document.apply(fix.edits)
    again = sorted(
        (n for n in ast.walk(straight.tree) if isinstance(n, ast.For)), key=lambda n: (n.lineno, n.col_offset)
    )
    if len(again) != len(order):
        return fix
    model = understand(straight)
    second = Site(model, straight, site.threshold)
    try:
        Batch(model, second, again[order.index(loops[-1])]).rewrite()
        imports.remove_unused(second.edits)
        done = second.edits.apply()
    except (Unclear, EditConflict, BadTemplate) as reason:
        return replace(fix, message=f"{fix.message}; sample by sample ({reason})")
    return replace(
        fix,
        edits=(_difference(site.document, done.text),),
        message=f"{fix.message}; for the whole batch at once",
        alternatives=(*fix.alternatives, "the same in the loop over the samples"),
    )


def _difference(document: Document, new: str) -> Edit:
    old, head, tail = document.text, 0, 0
    shortest = min(len(old), len(new))
    while head < shortest and old[head] == new[head]:
        head += 1
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return Edit(document.filename, head, len(old) - tail, new[head : len(new) - tail])


def ternary(branches: Branches, node: ast.IfExp) -> None:
    """`a if test else b`, between values or between things that are called."""
    site = branches.site
    called = _calls_of_choice(site, node)
    branches.trained = site.trained(node.test)
    if called is None:
        branches.refuse_no_number(node.body, "it")
        branches.refuse_no_number(node.orelse, "it")
        gate = branches.gate(node.test)
        one = branches.gates.guarded(node.body, node.test, True)
        other = branches.gates.guarded(node.orelse, node.test, False)
        site.edits.replace(node, site.local(branches.blend(gate, one, other, node.test), node))
        return
    statement, calls = called
    gate = branches.gate(node.test)
    for call in calls:
        arguments = ", ".join(site.text(a) for a in [*call.args, *call.keywords])
        one, other = (joined("{f}", f=site.text(side)) for side in (node.body, node.orelse))
        text = branches.blend(gate, f"{_callee(one)}({arguments})", f"{_callee(other)}({arguments})", node.test)
        site.edits.replace(call, site.local(text, call))
    if statement is not None:
        site.edits.delete_statement(statement)


def _callee(text: str) -> str:
    return text if text.replace(".", "").replace("_", "").isalnum() else f"({text})"


def _calls_of_choice(site: Site, node: ast.IfExp) -> tuple[ast.stmt | None, list[ast.Call]] | None:
    """The calls of a layer or function that the ternary picks, and the statement that names it."""
    parent = site.syntax.parent(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return None, [parent]
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return None
    name = parent.targets[0].id
    uses = site.uses(parent, parent.value, name)
    calls = []
    for use in uses:
        call = site.syntax.parent(use)
        if not (isinstance(call, ast.Call) and call.func is use):
            return None
        calls.append(call)
    return (parent, calls) if calls else None


def straighten(branches: Branches, node: ast.If) -> None:
    """The statement, with what follows it in its block where a branch leaves the block, as straight lines."""
    site = branches.site
    top = node
    while site.edits.layout.is_elif(top):
        above = site.syntax.parent(top)
        if not isinstance(above, ast.If) or (not site.trained(above.test) and site.is_number(above.test)):
            raise Unclear("the `elif` belongs to an `if` on a Python value")
        top = above
    block = site.syntax.block(top)
    rest = block[block.index(top) + 1 :]
    leaves = any(isinstance(n, (ast.Return, ast.Continue)) for n in _inner(top))
    if any(isinstance(n, (ast.Break, ast.Raise)) for n in _inner(top)):
        raise Unclear("a branch leaves the loop or raises")
    used = rest if leaves else []
    site.captured = [top, *used]
    if leaves:
        outcome = early(branches, top, rest)
    else:
        outcome = branches.choose(top, [], Outcome())
    if leaves and outcome.ended == "" and any(isinstance(n, ast.Return) for n in _inner(top)):
        raise Unclear("only one branch returns")
    put(site, top, used, outcome)


def match(branches: Branches, node: ast.Match) -> None:
    outcome, used = match_statement(branches, node)
    put(branches.site, node, used, outcome)


def put(site: Site, top: ast.stmt, used: list[ast.stmt], outcome: Outcome) -> None:
    """What the statements come to, in their place."""
    text = "".join([*comments_in(site.document, top), *site.prelude, *written(outcome)]) or "pass\n"
    site.captured = []
    site.edits.replace_statement(top, site.local(text, top, statement=True))
    for statement in used:
        site.edits.delete_statement(statement)


def early(branches: Branches, top: ast.If, rest: list[ast.stmt]) -> Outcome:
    return branches.choose(top, rest, Outcome())


def written(outcome: Outcome) -> list[str]:
    lines = []
    for kind, target, value in outcome.effects:
        lines.append(f"{target}.append({value})\n" if kind == "append" else f"{target} = {value}\n")
    bound = {name: value for name, value in outcome.bound.items() if name != value}
    # a value may read a name that is bound here as well: those go first that nobody else reads
    pending = dict(bound)
    while pending:
        ready = next(
            (
                name
                for name in pending
                if not any(name in _names(value) for other, value in pending.items() if other != name)
            ),
            None,
        )
        if ready is None:
            raise Unclear("the branches exchange names")
        lines.append(f"{ready} = {pending.pop(ready)}\n")
    if outcome.returned is not None:
        lines.append(f"return {outcome.returned}\n")
    return lines


def _names(text: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(f"({text}\n)")) if isinstance(n, ast.Name)}


def _inner(node: ast.AST) -> list[ast.AST]:
    """The nodes of a statement without those of functions defined in it and loops' own jumps."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = [node]
    while todo:
        here = todo.pop()
        found.append(here)
        if here is not node and isinstance(here, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        todo += ast.iter_child_nodes(here)
    return found
