"""Random edits of generated programs: the result is the program that the same edits of the syntax tree give."""

from __future__ import annotations

import ast
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tapefix.documents.document import Document
from tapefix.rewrite.edits import EditSet

NEWLINES = ("\n", "\r\n")


def program(seed: int) -> str:
    """A program with all the ways in which statements can lie on lines."""
    choose = random.Random(seed)
    unit, newline = choose.choice(["    ", "\t", "  "]), choose.choice(NEWLINES)

    def simple() -> str:
        return choose.choice(
            ["a = f(x, g(y))", "b += -h(x)", "print(u, f(v)[0])", "c = [f(k) for k in z]", "pass", "del q[g(0)]",
             "d = f(x) if g(y) else h(z)", 's = """é\n  raw\n"""', "é = 'ü' + f(x)", "e = (1,\n        f(2))",
             "x.y = lambda: f(1)",
             "assert f(x), 'm'", "t = f(x) ** 2 % g(y)"]
        )  # fmt: skip

    def line(depth: int) -> str:
        several = "; ".join(simple() for _ in range(choose.choice([1, 1, 1, 2, 3])))
        return unit * depth + several + choose.choice(["", "", ";", "  # note", " "])

    def block(depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(choose.randint(1, 4)):
            kind = choose.random()
            pad = unit * depth
            if kind < 0.5 or depth > 3:
                lines.append(line(depth))
            elif kind < 0.6:
                lines.append(pad + choose.choice(["if f(x): ", "for i in f(x): ", "while g(y): "]) + line(0).strip())
            elif kind < 0.7:
                lines += [pad + "@deco", pad + "@g(1)", pad + "def fn(p=f(1)):", *block(depth + 1)]
            elif kind < 0.8:
                lines += [pad + "try:", *block(depth + 1), pad + "except E:  # why", *block(depth + 1)]
            elif kind < 0.9:
                lines += [pad + "if f(x):", *block(depth + 1), pad + "elif g(y):", *block(depth + 1), pad + "else:"]
                lines += [*block(depth + 1), pad + unit + "# the end"]
            else:
                lines += [pad + "with g(x) as w:", *block(depth + 1), ""]
        return lines

    text = "\n".join(block(0)) + choose.choice(["\n", ""])
    return text.replace("\n", newline)


def statements(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


class _Edited(ast.NodeTransformer):
    """The same edits on the tree."""

    def __init__(self, gone: set[int], before: set[int], after: set[int], called: set[int]):
        self.gone, self.before, self.after, self.called = gone, before, after, called

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST] | None:
        number = getattr(node, "number", -1)
        new = self.generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(new, name, None)
            had = getattr(node, f"had_{name}", False)
            if isinstance(block, list) and not block and had and not isinstance(new, ast.Module):
                block.append(ast.Pass())
        if isinstance(node, ast.stmt):
            around = [ast.parse(text).body[0] for text in ("new_before(1)", "new_after(2)")]
            return [
                *(around[:1] if number in self.before else []),
                *([] if number in self.gone else [new]),
                *(around[1:] if number in self.after else []),
            ]
        if isinstance(node, ast.Call) and number in self.called:
            return _wrapped(new)
        return new


def _wrapped(call: ast.AST) -> ast.AST:
    addition = ast.parse("1 + 0", mode="eval").body
    assert isinstance(addition, ast.BinOp)
    addition.right = call  # type: ignore[assignment]
    return addition


def _numbered(tree: ast.Module) -> ast.Module:
    for number, node in enumerate(ast.walk(tree)):
        node.number = number  # type: ignore[attr-defined]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            setattr(node, f"had_{name}", isinstance(block, list) and bool(block))
    return tree


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**9))
def test_edits_of_the_text_are_edits_of_the_tree(seed: int) -> None:
    text = program(seed)
    doc = Document("m.py", text.encode())
    tree = _numbered(doc.tree)
    choose = random.Random(seed + 1)
    every = [node for node in statements(tree) if not doc.source(node).startswith("elif")]
    gone = {s.number for s in every if choose.random() < 0.2}  # type: ignore[attr-defined]
    before = {s.number for s in every if choose.random() < 0.15}  # type: ignore[attr-defined]
    after = {s.number for s in every if choose.random() < 0.15}  # type: ignore[attr-defined]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {node.number for node in calls if choose.random() < 0.3}  # type: ignore[attr-defined]

    edits = EditSet(doc)
    for node in sorted(calls, key=lambda _: choose.random()):
        if node.number in called:  # type: ignore[attr-defined]
            edits.rewrite(node, "1 + {call}", call=node)
    for statement in every:
        number = statement.number  # type: ignore[attr-defined]
        if number in gone:
            edits.delete_statement(statement)
        if number in before:
            edits.insert_before(statement, "new_before(1)")
        if number in after:
            edits.insert_after(statement, "new_after(2)\n")
    result = edits.apply().text

    expected = _Edited(gone, before, after, called).visit(_numbered(ast.parse(text)))
    assert ast.dump(ast.parse(result)) == ast.dump(expected), result  # type: ignore[arg-type]
    if "\r\n" in text and text.count("\n") > 1:
        assert "\n" not in result.replace("\r\n", "")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**9))
def test_what_is_rewritten_to_itself_keeps_every_byte(seed: int) -> None:
    text = program(seed)
    doc = Document("m.py", text.encode())
    edits = EditSet(doc)
    for node in ast.walk(doc.tree):
        if isinstance(node, ast.Call):
            edits.rewrite(node, "{call}", call=node)
    assert edits.apply().data == doc.data
