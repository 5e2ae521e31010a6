"""Instrumented code does what the original does, and looks like it from outside."""

from __future__ import annotations

import ast
import inspect
import sys
import traceback

import pytest

from tapefix.probe import instrument
from tapefix.probe.frames import UserCode


@pytest.fixture
def instrumented(tmp_path, monkeypatch):
    """Modules in tmp_path are instrumented; everything is put back afterwards."""
    notes = []
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr("builtins.__tapefix__", None, raising=False)
    instrument.install(UserCode(str(tmp_path)), notes.append)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path, notes
    for name in set(sys.modules) - before:
        del sys.modules[name]


def lines_in(error, name):
    return [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(name)]


def both(source):
    """The namespaces that a source leaves, plain and instrumented."""
    plain, changed = {"__name__": "m"}, {"__name__": "m"}
    exec(compile(source, "m.py", "exec", dont_inherit=True), plain)
    exec(instrument.compile_instrumented(source.encode(), "m.py"), changed)
    drop = {"__builtins__"}
    return {k: v for k, v in plain.items() if k not in drop}, {k: v for k, v in changed.items() if k not in drop}


SOURCES = {
    "operators": """
a = 7 // 2 + 7 % 4 - 2 ** 3 * -1
b = 'x' * 3 + 'y'
c = not a
d = ~5 | 3 & 6 ^ 1 << 2
""",
    "comparisons": """
a = [1 < 2, 3 != 3, 1 < 2 < 3, 1 in [1], None is None]
""",
    "subscripts": """
a = list(range(10))
b = a[2:8:2], a[-1], {'k': 1}['k'], [[1, 2], [3, 4]][1][0]
""",
    "stores": """
a = [0] * 4
a[1] = 5
a[2:] = [7, 8]
d = {}
d['x'] = d['y'] = 3
a[0] += 2
d['x'] -= 1
""",
    "in place": """
class C: pass
c = C()
c.x = [1]
same = c.x
c.x += [2]
r = (c.x is same, same)
del c, C, same
""",
    "calls": """
def f(*a, k=1, **kw):
    return a, k, kw
r = f(1, *[2, 3], k=4, **{'z': 5})
del f
""",
    "closures": """
def make():
    n = 0
    def add(k):
        nonlocal n
        n += k
        return n
    return add
g = make()
r = [g(i) for i in range(4)]
del g, make
""",
    "generators": """
def g(n):
    for i in range(n):
        yield i * i
r = sum(x for x in g(5) if x % 2 == 0)
del g
""",
    "super": """
class A:
    def f(self):
        return 1
class B(A):
    def f(self):
        return super().f() + 1
r = B().f()
del A, B
""",
    "private names": """
class A:
    __x = 3
    def f(self):
        return self.__x * 2
r = A().f()
del A
""",
    "decorators": """
import functools
@functools.lru_cache(maxsize=None)
def f(x, y=2 * 3):
    return x + y
r = f(1)
del f, functools
""",
    "walrus and ternary": """
r = [y if (y := x * 2) > 3 else -y for x in range(4)]
""",
    "exceptions": """
try:
    [][1]
except IndexError as e:
    r = str(e)
finally:
    s = 1
""",
    "with and star": """
a, *b = [1, 2, 3]
(c, d), e = (4, 5), 6
r = {**{'a': 1}, 'b': 2}
""",
    "annotations": """
x: int = 3 * 2
y: 'list[int]'
class P:
    a: float = 1 + 1
r = P.a
del P
""",
    "format": """
v = 3.14159
r = f'{v * 2:.2f} {v!r:>10}'
""",
    "lambda": """
f = lambda x, y=1 + 1: x * y
r = f(3)
del f
""",
    "locals": """
def f():
    a = 1 + 1
    return sorted(locals())
r = f()
del f
""",
}


@pytest.mark.parametrize("name", SOURCES)
def test_same_results(name, instrumented):
    plain, changed = both(SOURCES[name])
    assert changed == plain


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match is new in 3.10")
def test_patterns_stay_patterns(instrumented):
    source = "def f(x):\n    match x:\n        case [1, *rest] if len(rest) + 1 > 1:\n            return rest\n"
    source += "        case {'k': -1}:\n            return 'minus'\n        case _:\n            return None\n"
    plain, changed = both(source + "r = f([1, 2]), f({'k': -1}), f(5)\ndel f")
    assert changed == plain


def test_source_and_names_stay_the_originals(instrumented):
    folder, _ = instrumented
    text = 'def area(r):\n    """Of a circle."""\n    return 3 * r[0] ** 2\n'
    (folder / "shapes.py").write_text(text)
    import shapes

    assert inspect.getsource(shapes.area) == text
    assert shapes.area.__code__.co_filename == str(folder / "shapes.py")
    assert shapes.area.__code__.co_firstlineno == 1
    assert shapes.area([2]) == 12
    assert not list(folder.glob("**/*.pyc"))
    assert "__tapefix__" not in vars(shapes)


def test_a_traceback_names_the_line_that_failed(instrumented):
    folder, _ = instrumented
    (folder / "broken.py").write_text("def f(x):\n    y = x + 1\n    return (\n        y /\n        0\n    )\n")
    import broken

    with pytest.raises(ZeroDivisionError) as caught:
        broken.f(1)
    assert lines_in(caught.value, "broken.py") == [4]


def test_a_chained_call_is_on_the_line_of_its_name(instrumented):
    folder, _ = instrumented
    (folder / "chained.py").write_text(
        "def f(x):\n    return (\n        x.strip()\n        .upper()\n        .index('q')\n    )\n"
    )
    import chained

    with pytest.raises(ValueError, match="substring") as caught:
        chained.f(" abc ")
    assert lines_in(caught.value, "chained.py") == [5]


def test_a_module_outside_the_project_is_left_alone(instrumented, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("other")
    (other / "foreign.py").write_text("def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(other)
    import foreign

    assert "__tapefix__" not in foreign.f.__code__.co_names


def test_a_syntax_error_is_the_plain_compilers(instrumented):
    folder, notes = instrumented
    (folder / "wrong.py").write_text("def f(:\n")
    with pytest.raises(SyntaxError) as caught:
        import wrong  # noqa: F401
    assert caught.value.lineno == 1
    assert notes


def test_slices_without_a_place_get_that_of_their_expression():
    """Python 3.8 gives a slice no line, and wraps it."""
    tree = ast.parse("\n\na = rows[1:3]\nrows[1:2] = [7]\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.Slice):
            for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                if hasattr(node, name):
                    delattr(node, name)
    changed = ast.fix_missing_locations(instrument._Instrument().visit(tree))
    slices = [n for n in ast.walk(changed) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "slice"]
    assert [node.lineno for node in slices] == [3, 4]
    compile(changed, "m.py", "exec")
