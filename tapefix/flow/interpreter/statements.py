"""Statements that neither bind nor branch: blocks, jumps, imports, definitions."""

from __future__ import annotations

import ast
from typing import Any

from tapefix.flow.interpreter.core import Frame
from tapefix.flow.interpreter.loops import Loops
from tapefix.flow.objects import Api, ClassObject, Function, Imported, Instance, Layer, api_value
from tapefix.flow.scope import Scope, canonical
from tapefix.flow.values import NONE, UNKNOWN, Kind, Value
from tapefix.flow.waiting import ANY


class Statements(Loops):
    """Runs statements."""

    def run(self, statements: list[ast.stmt]) -> str | None:
        """Runs a block; tells how it ends: None, "return", "raise", "break" or "continue"."""
        for statement in statements:
            self.spend()
            saved = self.statement
            self.statement = statement
            self.frames[-1].statement = statement
            method = self.runners[type(statement)]
            ended = method(statement) if method else None
            self.statement = saved
            if ended:
                return ended  # type: ignore[no-any-return]
        return None

    def run_Expr(self, node: ast.Expr) -> None:
        value = self.eval(node.value)
        called = self.seen.get(node.value.func) if isinstance(node.value, ast.Call) and value.live else None
        if called is not None and called.refs and all(isinstance(ref, (Layer, Instance)) for ref in called.refs):
            self.drop(value, node)

    def run_Return(self, node: ast.Return) -> str:
        self.frame.returns.append(self.eval(node.value) if node.value else NONE)
        self.frame.return_guards.append(self.frame.guards)
        return "return"

    def run_Raise(self, node: ast.Raise) -> str:
        return "raise"

    def run_Break(self, node: ast.Break) -> str:
        self.frame.exits.append(dict(self.scope.vars))
        return "break"

    def run_Continue(self, node: ast.Continue) -> str:
        self.frame.exits.append(dict(self.scope.vars))
        return "continue"

    def run_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope.vars.pop(target.id, None)

    def run_Global(self, node: ast.Global) -> None:
        self.scope.outer_names.update(node.names)

    def run_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.outer_names.update(node.names)

    def run_Assert(self, node: ast.Assert) -> None:
        self.eval(node.test)

    def run_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            found = self.find_module(alias.name, 0)
            loaded = Value(Kind.OBJECT, ref=Imported(found, alias.name, 0, "")) if found is not None else None
            if alias.asname:
                self.scope.bind(alias.asname, loaded or self.api(alias.name))
            elif loaded is not None and "." not in alias.name:
                self.scope.bind(alias.name, loaded)
            else:
                self.scope.bind(alias.name.split(".")[0], self.api(alias.name.split(".")[0]))

    def run_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        found = self.find_module(module, node.level)
        for alias in node.names:
            if alias.name == "*":
                whole = self.imported(Imported(found, module, node.level, "")) if found is not None else UNKNOWN
                if isinstance(whole.ref, Scope):
                    if whole.ref.module.demand is not None:
                        whole.ref.module.demand(ANY)
                    self.scope.vars.update(whole.ref.vars)
                continue
            if found is not None or node.level:
                value = Value(Kind.OBJECT, ref=Imported(found, module, node.level, alias.name))
            else:
                value = self.api(f"{module}.{alias.name}")
            self.scope.bind(alias.asname or alias.name, value)

    @staticmethod
    def api(name: str) -> Value:
        return api_value(canonical(name))

    def run_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = Function(node, self.scope)
        self.bind_defaults(function, node.args)
        value = Value(Kind.OBJECT, ref=function, node=node)
        for decorator in reversed(node.decorator_list):
            value = self.decorate(decorator, value, function)
        self.scope.bind(node.name, value)

    run_AsyncFunctionDef = run_FunctionDef

    def bind_defaults(self, function: Function, args: ast.arguments) -> None:
        positional = [*args.posonlyargs, *args.args]
        for arg, default in zip(positional[len(positional) - len(args.defaults) :], args.defaults):
            function.defaults[arg.arg] = self.eval(default)
        for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults):
            if kw_default is not None:
                function.defaults[arg.arg] = self.eval(kw_default)

    def run_ClassDef(self, node: ast.ClassDef) -> None:
        bases: list[Any] = []
        for base in node.bases:
            for ref in self.eval(base).refs:
                if isinstance(ref, (ClassObject, Api)):
                    bases.append(ref)
        scope = Scope(self.module, self.scope, "class")
        cls = ClassObject(node, scope, bases)
        frame = Frame(self.frame.function, scope, self.frame.graph)
        self.frames.append(frame)
        try:
            self.run(node.body)
        finally:
            self.frames.pop()
        cls.members = scope.vars
        for value in cls.members.values():
            for ref in value.refs:
                if isinstance(ref, Function) and ref.owner is None:
                    ref.owner = cls
        cls.fields = [s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
        self.scope.bind(node.name, Value(Kind.OBJECT, ref=cls, node=node))
