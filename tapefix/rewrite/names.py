"""Which names a program binds and uses where, and new names that clash with none of them."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tapefix.documents.document import Document
from tapefix.rewrite.edits import EditSet
from tapefix.rewrite.layout import Layout

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension: what it binds itself and what it reads."""

    node: ast.AST
    path: str  # "Model.call", with "#2" where a name is defined a second time
    outer: Scope | None
    bound: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    elsewhere: dict[str, str] = field(default_factory=dict)  # name -> "global" | "nonlocal"
    inner: list[Scope] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    def resolve(self, name: str) -> Scope | None:
        """The scope whose `name` is meant when it is read here; None for a built-in or an unknown one."""
        scope: Scope | None = self
        if self.elsewhere.get(name) == "global":
            scope = self.root
        while scope is not None:
            if name in scope.bound and not (scope.is_class and scope is not self):
                return scope
            scope = scope.outer
        return None

    @property
    def root(self) -> Scope:
        return self.outer.root if self.outer else self

    def walk(self) -> Iterator[Scope]:
        yield self
        for scope in self.inner:
            yield from scope.walk()


class Scopes:
    """The scopes of a document."""

    def __init__(self, tree: ast.Module):
        self.of_node: dict[ast.AST, Scope] = {}
        self.module = Scope(tree, "", None)
        self.of_node[tree] = self.module
        self._paths: dict[str, int] = {}
        for statement in tree.body:
            self._visit(statement, self.module)

    @classmethod
    def of(cls, document: Document) -> Scopes:
        kept = vars(document)
        if "_scopes" not in kept:
            kept["_scopes"] = cls(document.tree)
        scopes = kept["_scopes"]
        assert isinstance(scopes, Scopes)
        return scopes

    def _open(self, node: ast.AST, name: str, outer: Scope) -> Scope:
        path = f"{outer.path}.{name}".lstrip(".")
        self._paths[path] = count = self._paths.get(path, 0) + 1
        scope = Scope(node, path if count == 1 else f"{path}#{count}", outer)
        outer.inner.append(scope)
        self.of_node[node] = scope
        return scope

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                name = getattr(node, "name", "<lambda>")
                if not isinstance(node, ast.Lambda):
                    self._bind(name, scope)
                    self._visit_all((*node.decorator_list, *([node.returns] if node.returns else [])), scope)
                arguments = node.args
                self._visit_all(
                    (*arguments.defaults, *(default for default in arguments.kw_defaults if default)), scope
                )
                inner = self._open(node, name, scope)
                every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                for argument in (*every, arguments.vararg, arguments.kwarg):
                    if argument is not None:
                        inner.bound.add(argument.arg)
                        if argument.annotation:
                            self._visit(argument.annotation, scope)
                self._visit_all(node.body if isinstance(node.body, list) else [node.body], inner)
            case ast.ClassDef():
                self._bind(node.name, scope)
                self._visit_all((*node.decorator_list, *node.bases, *node.keywords), scope)
                self._visit_all(node.body, self._open(node, node.name, scope))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._visit(node.generators[0].iter, scope)
                inner = self._open(node, "<comprehension>", scope)
                for position, generator in enumerate(node.generators):
                    self._visit(generator.target, inner)
                    self._visit_all((*([generator.iter] if position else []), *generator.ifs), inner)
                self._visit_all((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,), inner)
            case ast.NamedExpr():
                holder = scope
                while isinstance(holder.node, _COMPREHENSIONS) and holder.outer:
                    holder = holder.outer
                self._bind(node.target.id, holder)
                self._visit(node.value, scope)
            case ast.Name():
                if isinstance(node.ctx, ast.Load):
                    scope.read.add(node.id)
                else:
                    self._bind(node.id, scope)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    self._bind(alias.asname or alias.name.split(".")[0], scope)
            case ast.Global() | ast.Nonlocal():
                kind = "global" if isinstance(node, ast.Global) else "nonlocal"
                for name in node.names:
                    scope.elsewhere[name] = kind
                    scope.bound.discard(name)
                    if kind == "global":
                        scope.root.bound.add(name)
            case _:
                for name in ("name", "rest"):  # except ... as name, match captures
                    value = getattr(node, name, None)
                    if isinstance(value, str) and not isinstance(node, ast.alias):
                        self._bind(value, scope)
                self._visit_all(ast.iter_child_nodes(node), scope)

    def _visit_all(self, nodes: Iterable[ast.AST], scope: Scope) -> None:
        for node in nodes:
            self._visit(node, scope)

    def _bind(self, name: str, scope: Scope) -> None:
        if name not in scope.elsewhere:
            scope.bound.add(name)

    def around(self, document: Document, node: ast.AST) -> Scope:
        """The scope in which the node stands (a function's decorators and defaults count as inside it)."""
        for above in (node, *Layout.of(document).ancestors(node)):
            if above in self.of_node and above is not node:
                return self.of_node[above]
        return self.module


def fresh(edits: EditSet, at: ast.AST, base: str) -> str:
    """A name like `base` that can be bound in the function (or module) around `at` without changing
    what any other name there means; a second call with the same EditSet gives a second name."""
    document = edits.document
    scope = Scopes.of(document).around(document, at)
    while isinstance(scope.node, (*_COMPREHENSIONS, ast.Lambda)) and scope.outer:
        scope = scope.outer
    taken = set(edits.names_taken) | set(keyword.kwlist) | set(dir(builtins))
    for inner in scope.walk():
        taken |= inner.bound | inner.read | set(inner.elsewhere)
    outer = scope.outer
    while outer is not None:
        taken |= outer.bound
        outer = outer.outer
    candidates = (base, *(f"{base}_{number}" for number in range(2, 10_000)))
    name = next(candidate for candidate in candidates if candidate not in taken)
    edits.names_taken.add(name)
    return name
