"""A position that was picked by size chooses what runs: `match`, or an entry of a list or dictionary that is called."""

from __future__ import annotations

import ast

from tapefix.rewrite.accumulators.syntax import dotted
from tapefix.rewrite.routing.branches import Branches, Outcome
from tapefix.rewrite.routing.site import Site, Unclear, joined


def match_statement(branches: Branches, node: ast.Match) -> tuple[Outcome, list[ast.stmt]]:
    """Every case runs, weighed by the probability of its number; and the statements that are used up."""
    site = branches.site
    block = site.syntax.block(node)
    rest = block[block.index(node) + 1 :]
    site.captured = [node, *rest]
    choice = choice_of(branches, node.subject)
    leaves = any(isinstance(n, (ast.Return, ast.Continue)) for n in ast.walk(node))
    rest = rest if leaves else []
    site.captured = [node, *rest]
    branches.trained = True
    outcomes: list[tuple[str, Outcome]] = []
    default: Outcome | None = None
    for case in node.cases:
        if case.guard is not None:
            raise Unclear("a case has a guard")
        ends = case.body and isinstance(case.body[-1], (ast.Return, ast.Continue))
        outcome = branches.run(case.body if ends else [*case.body, *rest], Outcome())
        match case.pattern:
            case ast.MatchValue(value=ast.Constant(value=int() as number)) if default is None:
                outcomes.append((f"{choice}[{number}]", outcome))
            case ast.MatchAs(pattern=None, name=None):
                default = outcome
            case _:
                raise Unclear("a case is no whole number")
    if default is None:
        _, default = outcomes.pop()
    for gate, outcome in reversed(outcomes):
        default = branches.merged(gate, node.subject, True, outcome, default, Outcome())
    return default, rest


def choice_of(branches: Branches, index: ast.expr) -> str:
    """A name for the one-hot weights of a position, with the gradient of the probabilities."""
    site = branches.site
    spread = branches.soften.distribution(index)
    if spread is None:
        raise Unclear(f"`{site.brief(index)}` is no position that was picked by size")
    name, depth = spread
    if site.soft:
        return name
    picked = picked_position(site, index)
    hard = joined("tf.one_hot({i}, {n}, dtype={p}.dtype)", i=site.text(picked), n=depth, p=name)
    text = joined("{p} + tf.stop_gradient({h} - {p})", p=name, h=hard)
    return site.name_for(text, index, "choice")


def picked_position(site: Site, index: ast.expr) -> ast.expr:
    """The position as a tensor: what `int()` is around."""
    node = site.definition(index)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
        return node.args[0]
    return index


def called_entry(branches: Branches, node: ast.Subscript) -> None:
    """`entries[position](...)`: all entries are called, weighed by the one-hot choice."""
    site = branches.site
    entries, index = node.value, node.slice
    keyed = _key_of(site, entries, index)
    everything = f"{site.text(entries)}.values()" if keyed is not None else site.text(entries)
    position = keyed if keyed is not None else index
    parent = site.syntax.parent(node)
    calls: list[ast.Call] = []
    statement: ast.stmt | None = None
    if isinstance(parent, ast.Call) and parent.func is node:
        calls = [parent]
    elif isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        statement = parent
        for use in site.uses(parent, parent.value, parent.targets[0].id):
            call = site.syntax.parent(use)
            if not (isinstance(call, ast.Call) and call.func is use):
                raise Unclear(f"`{use.id}` is not only called")
            calls.append(call)
    if not calls:
        raise Unclear("what is chosen is not called")
    choice = choice_of(branches, position)
    branches.trained = True
    for call in calls:
        arguments = ", ".join(site.text(a) for a in [*call.args, *call.keywords])
        text = f"tf.add_n([{choice}[i] * entry({arguments}) for i, entry in enumerate({everything})])"
        site.edits.replace(call, site.local(text, call))
    if statement is not None:
        site.edits.delete_statement(statement)


def _key_of(site: Site, entries: ast.expr, index: ast.expr) -> ast.expr | None:
    """The position behind a key: that of `list(entries)[position]`."""
    node = site.definition(index)
    if not isinstance(node, ast.Subscript):
        return None
    names = site.definition(node.value)
    if isinstance(names, ast.Call) and dotted(names.func) in ("list", "sorted", "tuple") and names.args:
        source = names.args[0]
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "keys":
            source = source.func.value
        if ast.unparse(source) == ast.unparse(entries) and dotted(names.func) != "sorted":
            return node.slice
    raise Unclear(f"the order of the keys of `{site.brief(entries)}` is not in sight")
