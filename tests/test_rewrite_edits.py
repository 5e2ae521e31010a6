"""Edits compose, keep every byte outside, and leave programs that compile."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tapefix.documents.document import Document
from tapefix.rewrite.edits import EditConflict, EditSet


def document(text: str) -> Document:
    return Document("m.py", text.encode())


def find(doc: Document, source: str) -> ast.AST:
    """The outermost node that is written like this."""
    for node in ast.walk(doc.tree):
        if hasattr(node, "lineno") and doc.source(node).strip() == source:
            if isinstance(node, ast.Expr):
                continue
            return node
    raise AssertionError(source)


def statement(doc: Document, source: str) -> ast.stmt:
    for node in ast.walk(doc.tree):
        if isinstance(node, ast.stmt) and doc.source(node).startswith(source):
            return node
    raise AssertionError(source)


def after(doc: Document, edit: Callable[[EditSet], None]) -> str:
    edits = EditSet(doc)
    edit(edits)
    result = edits.apply()
    ast.parse(result.text)
    return result.text


@pytest.mark.parametrize(
    ("before", "node", "new", "expected"),
    [
        ("y = 2 * f(x)\n", "f(x)", "a + b", "y = 2 * (a + b)\n"),
        ("y = 2 * f(x)\n", "f(x)", "a ** b", "y = 2 * a ** b\n"),
        ("y = f(x)\n", "f(x)", "a + b", "y = a + b\n"),
        ("y = f(x).mean()\n", "f(x)", "a + b", "y = (a + b).mean()\n"),
        ("y = g(f(x), 1)\n", "f(x)", "a, b", "y = g((a, b), 1)\n"),
        ("y = g[f(x)]\n", "f(x)", "a if b else c", "y = g[a if b else c]\n"),
        ("y = [f(x) for x in z]\n", "f(x)", "a if b else c", "y = [a if b else c for x in z]\n"),
        ("y = [x for x in f(z)]\n", "f(z)", "a if b else c", "y = [x for x in (a if b else c)]\n"),
        ("assert f(x), 'm'\n", "f(x)", "a, b", "assert (a, b), 'm'\n"),
        ("y = f(x)\n", "f(x)", "a +\n b", "y = (a +\n b)\n"),
        ("y = g(f(x))\n", "f(x)", "a +\n b", "y = g(a +\n b)\n"),
        ("y = g(\n  k=-f(x),  # c\n)\n", "f(x)", "a - b", "y = g(\n  k=-(a - b),  # c\n)\n"),
        ("é = '日本' + f(x)\r\n", "f(x)", "a", "é = '日本' + a\r\n"),
        ("with f(x) as y: pass\n", "f(x)", "a.b", "with a.b as y: pass\n"),
    ],
)
def test_a_replaced_expression_keeps_its_place_in_the_whole(before: str, node: str, new: str, expected: str) -> None:
    doc = document(before)
    target = find(doc, node)
    assert isinstance(target, ast.expr)
    assert after(doc, lambda edits: edits.replace(target, new)) == expected


def test_inner_replacements_are_rendered_by_the_outer_one_in_either_order() -> None:
    doc = document("y = np.mean(np.log(x), axis=0)\n")
    outer, inner = find(doc, "np.mean(np.log(x), axis=0)"), find(doc, "np.log(x)")
    assert isinstance(outer, ast.expr)
    assert isinstance(inner, ast.expr)
    expected = "y = tf.reduce_mean(tf.math.log(x), axis=0)\n"

    def outer_first(edits: EditSet) -> None:
        edits.rewrite(outer, "tf.reduce_mean({x}, axis=0)", x=inner)
        edits.rewrite(inner, "tf.math.log({x})", x="x")

    def inner_first(edits: EditSet) -> None:
        edits.rewrite(inner, "tf.math.log({x})", x="x")
        edits.rewrite(outer, "tf.reduce_mean({x}, axis=0)", x=inner)

    assert after(doc, outer_first) == expected
    assert after(doc, inner_first) == expected


def test_a_node_can_be_part_of_its_own_replacement_twice() -> None:
    doc = document("y = -f(x)\n")
    node = find(doc, "f(x)")
    assert isinstance(node, ast.expr)

    def edit(edits: EditSet) -> None:
        edits.rewrite(node, "g({x})", x=node)
        edits.rewrite(node, "{x} + 1", x=node)
        assert edits.source(node) == "(g(f(x)) + 1)"

    assert after(doc, edit) == "y = -(g(f(x)) + 1)\n"


def test_a_replacement_inside_a_deleted_statement_goes_with_it() -> None:
    doc = document("a = f(x)\nb = 1\n")
    node = find(doc, "f(x)")
    assert isinstance(node, ast.expr)

    def edit(edits: EditSet) -> None:
        edits.replace(node, "g")
        edits.delete_statement(statement(doc, "a = "))

    assert after(doc, edit) == "b = 1\n"


def test_crossing_edits_are_refused() -> None:
    edits = EditSet(document("a + b + c\n"))
    edits.replace_span(0, 5, "x")
    with pytest.raises(EditConflict, match=r"m\.py:1: edits overlap"):
        edits.replace_span(4, 9, "y")


@pytest.mark.parametrize(
    ("before", "gone", "expected"),
    [
        ("a = 1\nb = 2\n", ["a"], "b = 2\n"),
        ("a = 1  # about a\n# about b\nb = 2\n", ["a"], "# about b\nb = 2\n"),
        ("b = 2\r\na = 1", ["a"], "b = 2\r\n"),
        ("a = 1; b = 2; c = 3\n", ["a"], "b = 2; c = 3\n"),
        ("a = 1; b = 2; c = 3  # all\n", ["b"], "a = 1; c = 3  # all\n"),
        ("a = 1; b = 2; c = 3\n", ["c"], "a = 1; b = 2\n"),
        ("a = 1; b = 2; c = 3;\n", ["b", "c"], "a = 1;\n"),
        ("a = 1; b = 2; c = 3\n", ["a", "c"], "b = 2\n"),
        ("a = 1; b = 2\nc = 3\n", ["a", "b"], "c = 3\n"),
        ("a = 1;\nc = 3\n", ["a"], "c = 3\n"),
        ("if x: a = 1\n", ["a"], "if x: pass\n"),
        ("if x: a = 1; b = 2\n", ["a"], "if x: b = 2\n"),
        ("if x: a = 1; b = 2\n", ["a", "b"], "if x: pass\n"),
        ("def f():\n\ta = 1\n\tb = 2\n", ["a", "b"], "def f():\n\tpass\n"),
        ("def f():\n  a = 1  # c\n", ["a"], "def f():\n  pass  # c\n"),
        ("try:\n  b = 1\nexcept E:\n  a = [\n   1,\n  ]\n", ["a"], "try:\n  b = 1\nexcept E:\n  pass\n"),
        ("match x:\n  case 1: a = 2\n", ["a"], "match x:\n  case 1: pass\n"),
        ("c = 0\n@d\n@e(1)\ndef a(): pass\nb = 1\n", ["@d"], "c = 0\nb = 1\n"),
        ("a = 1 + \\\n  2\nb = 2\n", ["a"], "b = 2\n"),
        ("@d\ndef a():\n  x\n  # its end\n# about b\nb = 2\n", ["@d"], "# about b\nb = 2\n"),
        ("a = '''\n x\n'''\nb = 2\n", ["a"], "b = 2\n"),
    ],
)
def test_deleting_statements(before: str, gone: list[str], expected: str) -> None:
    doc = document(before)

    def edit(edits: EditSet) -> None:
        for name in gone:
            edits.delete_statement(statement(doc, name if name.startswith("@") else f"{name} ="))

    assert after(doc, edit) == expected


@pytest.mark.parametrize(
    ("before", "at", "expected"),
    [
        ("a = 1\n", "a", "b = 0\na = 1\nc = 2\n"),
        ("a = 1", "a", "b = 0\na = 1\nc = 2"),
        ("a = 1\r\n", "a", "b = 0\r\na = 1\r\nc = 2\r\n"),
        ("x; a = 1; y\n", "a", "x\nb = 0\na = 1\nc = 2\ny\n"),
        ("if x: a = 1\n", "a", "if x:\n    b = 0\n    a = 1\n    c = 2\n"),
        ("if x:\n  if y: a = 1; d = 2\n", "a", "if x:\n  if y:\n    b = 0\n    a = 1\n    c = 2\n    d = 2\n"),
        ("def f():\n\ta = 1\n\n\treturn a\n", "a", "def f():\n\tb = 0\n\ta = 1\n\tc = 2\n\n\treturn a\n"),
        ("@d\ndef a(): pass\n", "@d", "b = 0\n@d\ndef a(): pass\nc = 2\n"),
        ("for a in x:\n  pass\n  # end\ny\n", "for", "b = 0\nfor a in x:\n  pass\n  # end\nc = 2\ny\n"),
    ],
)
def test_inserting_around_a_statement(before: str, at: str, expected: str) -> None:
    doc = document(before)
    node = statement(doc, at)

    def edit(edits: EditSet) -> None:
        edits.insert_before(node, "b = 0\n")
        edits.insert_after(node, "c = 2\n")

    assert after(doc, edit) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("def f():\n  a[0] = v  # c\n", "def f():\n  if t:\n    a.append(v)  # c\n"),
        ("if x: a[0] = v\n", "if x:\n    if t:\n        a.append(v)\n"),
        ("a[0] = v; z\n", "if t:\n    a.append(v)\nz\n"),
        ("class C:\r\n\ta[0] = v\r\n", "class C:\r\n\tif t:\r\n\t\ta.append(v)\r\n"),
    ],
)
def test_replacing_a_statement_by_a_block(before: str, expected: str) -> None:
    doc = document(before)
    node = statement(doc, "a[0]")
    assert isinstance(node, ast.Assign)
    value = node.value

    def edit(edits: EditSet) -> None:
        edits.rewrite_statement(node, "if t:\n    {a}.append({v})", a="a", v=value)

    assert after(doc, edit) == expected


def test_insertions_replacements_and_deletions_of_neighbours_keep_their_order() -> None:
    doc = document("a = 1\nb = 2\nc = 3\n")
    a, b, c = doc.tree.body

    def edit(edits: EditSet) -> None:
        edits.insert_before(b, "before_b = 0")
        edits.insert_after(a, "after_a = 0")
        edits.delete_statement(b)
        edits.insert_after(b, "after_b = 0")
        edits.replace_statement(c, "d = 4")

    assert after(doc, edit) == "a = 1\nafter_a = 0\nbefore_b = 0\nafter_b = 0\nd = 4\n"


def test_multi_line_strings_are_not_indented() -> None:
    doc = document("def f():\n    x = 1\n")
    node = statement(doc, "x")
    new = 'if t:\n    s = """\nraw\n"""\n'
    assert after(doc, lambda edits: edits.replace_statement(node, new)) == (
        'def f():\n    if t:\n        s = """\nraw\n"""\n'
    )


def test_an_elif_is_no_statement_to_edit() -> None:
    doc = document("if a: b\nelif c: d\n")
    with pytest.raises(EditConflict, match=r"m\.py:2: an `elif`"):
        EditSet(doc).insert_before(statement(doc, "elif"), "x")


def test_inside_an_f_string_nothing_is_replaced() -> None:
    doc = document("y = f'{x}'\n")
    node = next(n for n in ast.walk(doc.tree) if isinstance(n, ast.Name) and n.id == "x")
    with pytest.raises(EditConflict, match="f-string"):
        EditSet(doc).replace(node, "z")
