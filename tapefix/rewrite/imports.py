"""TensorFlow's name in a document, the import that is missing, and the imports that an edit leaves unused."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tapefix.documents.document import Document
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.names import Scope, Scopes

#: module paths that hold the same TensorFlow 2 functions
_SAME_AS_TENSORFLOW = ("tensorflow.compat.v2", "tensorflow._api.v2.compat.v2", "tensorflow.compat.v1")
_NOQA = re.compile(r"#\s*(noqa|type:\s*ignore|pylint:\s*disable|isort:\s*skip)", re.IGNORECASE)


@dataclass(frozen=True)
class Binding:
    """One name that an import statement binds: `np` for numpy, `stack` for tensorflow.stack."""

    name: str
    target: str  # the dotted path it stands for
    alias: ast.alias
    statement: ast.Import | ast.ImportFrom
    scope: Scope


def bindings(document: Document) -> list[Binding]:
    """All imports of the document, also those inside functions, in the order of the text."""
    kept = vars(document)
    if "_imports" not in kept:
        kept["_imports"] = _read(document)
    result: list[Binding] = kept["_imports"]
    return result


def _read(document: Document) -> list[Binding]:
    scopes, result = Scopes.of(document), []
    for node in ast.walk(document.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.split(".")[0]
                scope = scopes.around(document, node)
                result.append(Binding(alias.asname or target, target, alias, node, scope))
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                target = f"{base}.{alias.name}" if node.module else base + alias.name
                result.append(Binding(alias.asname or alias.name, target, alias, node, scopes.around(document, node)))
    return sorted(result, key=lambda one: (one.statement.lineno, one.statement.col_offset))


def spelling(document: Document, dotted: str, at: ast.AST) -> str | None:
    """How `dotted` ("tensorflow.math.log") is written at that place with the imports there are, or None.

    "tf.math.log" after `import tensorflow as tf`, "log" after `from tensorflow.math import log`, and so on;
    an import in another function or one hidden by a local name does not count.
    """
    scope = Scopes.of(document).around(document, at)
    found: list[tuple[int, str]] = []
    for one in bindings(document):
        target = _canonical(one.target)
        if isinstance(one.statement, ast.Import) and not one.alias.asname:
            target = one.name  # `import a.b` binds a
        if dotted != target and not dotted.startswith(target + "."):
            continue
        if scope.resolve(one.name) is not one.scope or not _only_imported(document, one):
            continue
        if one.scope is scope and one.statement.lineno > getattr(at, "lineno", sys.maxsize):
            continue
        found.append((-len(target), one.name + dotted[len(target) :]))
    # a whole-module name is what people read best: the shortest import path wins over a deeper one
    return max(found)[1] if found else None


def tensorflow_name(document: Document, at: ast.AST) -> str | None:
    """The name of the module TensorFlow at that place ("tf"), or None where it is not imported as a whole."""
    return spelling(document, "tensorflow", at)


def with_local_names(edits: EditSet, text: str, at: ast.AST, *, statement: bool = False) -> str:
    """Code that says `tf.` for TensorFlow, said as the document says it at that place; adds the import if need be.

    `text` is an expression, or statements from column 0 with `statement=True`.
    """
    if not re.search(r"\btf\b", text):
        return text
    tree = ast.parse(text if statement else f"({text}\n)")
    fragment = Document(edits.document.filename, (text if statement else f"({text}\n)").encode())
    spans: list[tuple[int, int, str]] = []
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        path = _dotted(node)
        if path is None or node in inner or not (path == "tf" or path.startswith("tf.")):
            continue
        inner.update(ast.walk(node))
        dotted = "tensorflow" + path[2:]
        name = spelling(edits.document, dotted, at) or add_import(edits, "tensorflow", "tf", at) + path[2:]
        if name != path:
            spans.append((*fragment.span(node), name))
    out = fragment.text
    for start, end, name in sorted(spans, reverse=True):
        out = out[:start] + name + out[end:]
    return out if statement else out[1:-2]


def add_import(edits: EditSet, module: str, alias: str, at: ast.AST) -> str:
    """Make `module` available at that place and return its name there.

    Nothing is added where an import is visible already, or was added before through the same EditSet.
    Otherwise `import module as alias` goes among the module's imports, behind the docstring and
    `from __future__`; the alias is another one where the name is taken.
    """
    document = edits.document
    known = spelling(document, module, at)
    if known is not None:
        return known
    if (module, alias) in edits.imports_added:
        return edits.imports_added[module, alias]
    scopes = Scopes.of(document)
    taken = {name for scope in scopes.module.walk() for name in scope.bound} | edits.names_taken
    own = [one for one in bindings(document) if one.scope is scopes.module and _canonical(one.target) == module]
    name = alias
    if alias in taken and not own:
        name = next(candidate for number in range(1, 1000) if (candidate := alias + "_" * number) not in taken)
    elif own:
        name = next(candidate for number in range(0, 1000) if (candidate := alias + "_" * number) not in taken)
    edits.names_taken.add(name)
    edits.imports_added[module, alias] = name
    _insert(edits, module, f"import {module} as {name}" if name != module else f"import {module}")
    return name


def remove_unused(edits: EditSet) -> tuple[str, ...]:
    """Remove the imported names that these edits left without a use; call it last. Returns the names.

    What was unused before stays, and so does what `__all__`, a re-export (`import a as a`, `__init__.py`),
    a comment such as `# noqa`, a string annotation or a type comment keeps; and imports in `try` or `if`.
    """
    document = edits.document
    if not edits or Path(document.filename).name == "__init__.py":
        return ()
    after = edits.apply()
    used_before, used_after = _uses(document), _uses(after)
    scopes_after = {scope.path for scope in Scopes.of(after).module.walk()}
    gone: dict[ast.stmt, list[Binding]] = {}
    for one in bindings(document):
        key = (one.scope.path, one.name)
        newly_unused = key in used_before and key not in used_after and one.scope.path in scopes_after
        if newly_unused and _removable(document, one):
            gone.setdefault(one.statement, []).append(one)
    for statement, unused in gone.items():
        assert isinstance(statement, (ast.Import, ast.ImportFrom))
        if len(unused) == len(statement.names):
            edits.delete_statement(statement)
        else:
            _drop_names(edits, statement, {one.alias for one in unused})
    return tuple(one.name for group in gone.values() for one in group)


def _canonical(target: str) -> str:
    for path in _SAME_AS_TENSORFLOW:
        if target == path or target.startswith(path + "."):
            return "tensorflow" + target[len(path) :]
    return target


def _only_imported(document: Document, one: Binding) -> bool:
    """Whether the name is nothing else in its scope than what this import (or its twin) makes it."""
    for node in ast.walk(one.scope.node):
        if isinstance(node, ast.Name) and node.id == one.name and not isinstance(node.ctx, ast.Load):
            holder = Scopes.of(document).around(document, node).resolve(one.name)
            # `tf = None` in `except ImportError` is the usual way to make an import optional
            if holder is one.scope and not _in_handler(document, node):
                return False
    return True


def _in_handler(document: Document, node: ast.AST) -> bool:
    return any(isinstance(above, ast.ExceptHandler) for above in Layout.of(document).ancestors(node))


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None


def _insert(edits: EditSet, module: str, line: str) -> None:
    """Put the import line among the top-level imports where a person would."""
    document, body = edits.document, edits.document.tree.body
    imports = [s for s in body if isinstance(s, (ast.Import, ast.ImportFrom)) and not _is_future(s)]
    others = [s.lineno for s in body if not isinstance(s, (ast.Import, ast.ImportFrom)) and not _is_docstring(s)]
    leading = [s for s in imports if not others or s.lineno < others[0]] or imports[:1]
    foreign = [s for s in leading if not _is_standard(s) and not getattr(s, "level", 0)]
    plain = [s for s in foreign if isinstance(s, ast.Import)]
    smaller = [s for s in plain if s.names[0].name.lower() < module.lower()]
    if smaller:
        edits.insert_after(smaller[-1], line)
    elif foreign:
        edits.insert_before(foreign[0], line)
    elif leading and not all(getattr(s, "level", 0) for s in leading):
        edits.insert_after([s for s in leading if not getattr(s, "level", 0)][-1], line)
    elif leading:
        edits.insert_before(leading[0], line)
    else:
        head = [s for s in body if _is_docstring(s) or _is_future(s)]
        if head:
            edits.insert_after(head[-1], f"\n{line}" if not _is_docstring(head[-1]) else line)
        else:
            start = _behind_comments(document)
            edits.replace_span(start, start, line + document.newline + (document.newline if body else ""))


def _behind_comments(document: Document) -> int:
    """The offset behind a hash-bang, coding line and the comments that open the file."""
    at = 0
    for row in range(1, document.rows + 1):
        if not document.line(row).startswith("#"):
            break
        at = document.offset(row, 0) + len(document.line(row))
        at += len(document.newline) if document.text.startswith(document.newline, at) else 0
    return at


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_standard(statement: ast.Import | ast.ImportFrom) -> bool:
    name = statement.names[0].name if isinstance(statement, ast.Import) else statement.module or ""
    return name.split(".")[0] in sys.stdlib_module_names


def _removable(document: Document, one: Binding) -> bool:
    layout, statement = Layout.of(document), one.statement
    if one.alias.name == "*" or one.alias.asname == one.alias.name or _is_future(statement):
        return False
    if not isinstance(layout.parent(statement), (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if not _only_imported(document, one):
        return False
    end = statement.end_lineno or statement.lineno
    return not any(_NOQA.search(document.line(row)) for row in range(statement.lineno, end + 1))


def _drop_names(edits: EditSet, statement: ast.Import | ast.ImportFrom, unused: set[ast.alias]) -> None:
    """Take some of a statement's names out, with one comma each and the line of a name that has one for itself."""
    document, text = edits.document, edits.document.text
    for position, alias in enumerate(statement.names):
        if alias not in unused:
            continue
        start, end = document.span(alias)
        later = statement.names[position + 1 :]
        if later:
            end = document.span(later[0])[0]
            line = text.rfind("\n", 0, start) + 1
            if not text[line:start].strip() and "\n" in text[start:end]:
                # a name on its own line goes with its comment, up to the next name's line
                end = text.index("\n", start) + 1
                start = line
            edits.replace_span(start, end, "")
            continue
        kept = [other for other in statement.names[:position] if other not in unused]
        edits.replace_span(document.span(kept[-1])[1], end, "")


def _uses(document: Document) -> set[tuple[str, str]]:
    """(scope path, name) for each name that is read somewhere, told by the scope that binds it."""
    module = Scopes.of(document).module
    result: set[tuple[str, str]] = set()
    for scope in module.walk():
        for name in scope.read:
            holder = scope.resolve(name)
            if holder is not None:
                result.add((holder.path, name))
    for name in _names_in_text(document):
        result.update((scope.path, name) for scope in module.walk() if name in scope.bound)
    return result


def _names_in_text(document: Document) -> Iterator[str]:
    """Names that `__all__`, string annotations and type comments mention."""
    for node in ast.walk(document.tree):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets) and node.value:
                yield from _strings(node.value)
        if isinstance(node, ast.Call) and _dotted(node.func) in ("__all__.extend", "__all__.append"):
            yield from _strings(node)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for text in _strings(annotation) if isinstance(annotation, ast.AST) else ():
                yield from re.findall(r"[A-Za-z_]\w*", text)
    if "# type:" in document.text:
        for token in tokenize.generate_tokens(io.StringIO(document.text).readline):
            if token.type == tokenize.COMMENT and re.match(r"#\s*type:", token.string):
                yield from re.findall(r"[A-Za-z_]\w*", token.string)


def _strings(node: ast.AST) -> Iterator[str]:
    """The string constants in an expression."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value
