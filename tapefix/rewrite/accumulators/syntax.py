"""Where a node stands in its file: parents, enclosing loops and functions, order, and bindings of names."""

from __future__ import annotations

import ast
import functools
import weakref
from collections.abc import Iterator

from tapefix.documents.document import Document

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Loop = ast.For | ast.AsyncFor | ast.While
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef

#: nodes that the parser makes once and uses everywhere, so that they have no place of their own
_SHARED = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)


class Syntax:
    """Questions about one document's tree that need the way upwards; made once per document (see `syntax_of`)."""

    def __init__(self, tree: ast.Module):
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.order: dict[ast.AST, int] = {}
        self._number(tree)

    def _number(self, tree: ast.Module) -> None:
        stack: list[ast.AST] = [tree]
        while stack:
            node = stack.pop()
            self.order[node] = len(self.order)
            children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, _SHARED)]
            for child in children:
                self.parents[child] = node
            stack += reversed(children)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, innermost first."""
        while (above := self.parents.get(node)) is not None:
            yield above
            node = above

    def inside(self, node: ast.AST, container: ast.AST) -> bool:
        return node is container or any(above is container for above in self.ancestors(node))

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node` (itself, if it is one)."""
        if isinstance(node, ast.stmt):
            return node
        return next(above for above in self.ancestors(node) if isinstance(above, ast.stmt))

    def scope(self, node: ast.AST) -> Scope:
        """The function, lambda, class body or module whose names `node` sees first."""
        for above in self.ancestors(node):
            if isinstance(above, Scope):
                return above
        return self.tree

    def function(self, node: ast.AST) -> Function | None:
        for above in self.ancestors(node):
            if isinstance(above, Function):
                return above
        return None

    def loops(self, node: ast.AST, within: ast.AST | None = None) -> list[Loop]:
        """The loops around `node`, outermost first, up to the function around it (or up to `within`).

        A node in a loop's header (its iterable, its target) is not in that loop; one in its `else` isn't either.
        """
        found: list[Loop] = []
        child: ast.AST = node
        for above in self.ancestors(node):
            if above is within or isinstance(above, Scope):
                break
            if isinstance(above, Loop) and (
                child in above.body or (isinstance(above, ast.While) and child is above.test)
            ):
                found.append(above)
            child = above
        return found[::-1]

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that `statement` is an element of."""
        above = self.parents[statement]
        for name in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(above, name, None)
            if isinstance(block, list) and statement in block:
                return block
        for case in getattr(above, "cases", []):
            if statement in case.body:
                return list(case.body)
        return [statement]

    def end(self, node: ast.AST) -> int:
        """The number (see `order`) of the last node inside `node`."""
        return max(self.order[inner] for inner in ast.walk(node) if inner in self.order)

    def before(self, a: ast.AST, b: ast.AST) -> bool:
        """Whether `a` starts before `b` in the text."""
        return self.order[a] < self.order[b]

    @functools.cached_property
    def _bindings(self) -> dict[tuple[Scope, str], list[ast.AST]]:
        found: dict[tuple[Scope, str], list[ast.AST]] = {}
        for node in self.order:
            for name in _binds(node):
                scope = self.scope(node)
                if isinstance(node, ast.arg):
                    scope = next(a for a in self.ancestors(node) if isinstance(a, Scope))
                found.setdefault((scope, name), []).append(node)
        return found

    def bindings(self, name: str, scope: Scope) -> list[ast.AST]:
        """The nodes that bind `name` in `scope`: stored names, arguments, definitions, imports, `except` names."""
        return self._bindings.get((scope, name), [])

    def visible(self, name: str, at: ast.AST) -> tuple[Scope | None, list[ast.AST]]:
        """The scope in which a name used at `at` is bound, and its bindings there; (None, []) for a builtin."""
        scope: Scope | None = self.scope(at)
        first = True
        while scope is not None:
            if (first or not isinstance(scope, ast.ClassDef)) and (found := self.bindings(name, scope)):
                return scope, found
            first = False
            scope = self.scope(scope) if scope is not self.tree else None
        return None, []

    @functools.cached_property
    def _functions(self) -> dict[str, list[ast.FunctionDef]]:
        found: dict[str, list[ast.FunctionDef]] = {}
        for node in self.order:
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, []).append(node)
        return found

    def functions_named(self, name: str) -> list[ast.FunctionDef]:
        """The functions and methods of that name."""
        return self._functions.get(name, [])

    @functools.cached_property
    def _loads(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for node in self.order:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(node)
        return found

    def uses_named(self, name: str) -> list[ast.expr]:
        """Every read of a name or attribute so called."""
        return self._loads.get(name, [])

    @functools.cached_property
    def _attributes_stored(self) -> dict[str, list[ast.Attribute]]:
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.order:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                found.setdefault(node.attr, []).append(node)
        return found

    def values_of_attribute(self, attr: str, at: ast.AST) -> list[ast.expr | None]:
        """What is stored into an attribute, in the class around `at` if it stores it, else in the whole document;
        None for a store that is no plain assignment."""
        stores = self._attributes_stored.get(attr, [])
        around = next((a for a in self.ancestors(at) if isinstance(a, ast.ClassDef)), None)
        own = [s for s in stores if around is not None and self.inside(s, around)]
        found: list[ast.expr | None] = []
        for store in own or stores:
            above = self.parent(store)
            plain = isinstance(above, ast.Assign) and store in above.targets
            annotated = isinstance(above, ast.AnnAssign) and above.target is store
            found.append(above.value if plain or annotated else None)  # type: ignore[union-attr]
        return found


def _binds(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=alias):
            yield alias or name.split(".")[0]
        case ast.ExceptHandler(name=str() as name):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
            yield name


_known: weakref.WeakKeyDictionary[Document, Syntax] = weakref.WeakKeyDictionary()


def syntax_of(document: Document) -> Syntax:
    """The `Syntax` of a document, made once."""
    if document not in _known:
        _known[document] = Syntax(document.tree)
    return _known[document]


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` of a chain of names and attributes, else None."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            base = dotted(value)
            return f"{base}.{attr}" if base else None
    return None


def names_read(node: ast.AST) -> set[str]:
    """The names that an expression or statement reads."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def same_expression(a: ast.AST, b: ast.AST) -> bool:
    """Whether two expressions are written alike, apart from blanks and the context of names."""
    return ast.unparse(a) == ast.unparse(b)
