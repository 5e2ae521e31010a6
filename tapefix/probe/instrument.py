"""Instruments the user's modules as they are imported: calls and operators go through `Values`.

Only the compiled code changes. No file is written, lines and names stay, `inspect.getsource` shows the original.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import operator
import os
import sys
from types import ModuleType
from typing import Any, Callable, List, Optional, Sequence, TypeVar

from .frames import UserCode

NAME = "__tapefix__"  # found among the builtins, so that no module's namespace changes
_PLAIN_CALLS = frozenset("super locals globals vars eval exec dir print isinstance len type id".split())
_VIEWS = frozenset(["T", "real", "imag", "flat"])
_Function = TypeVar("_Function", ast.FunctionDef, ast.AsyncFunctionDef)


def compile_instrumented(source: bytes, path: str) -> Any:
    """Code like `compile`'s, with calls and operators going through the helper."""
    tree = ast.parse(source, path)
    return compile(ast.fix_missing_locations(_Instrument().visit(tree)), path, "exec", dont_inherit=True)


class _Instrument(ast.NodeTransformer):
    """Replaces expressions; statements, decorators, defaults, annotations and patterns stay as they are."""

    def _helper(self, node: ast.AST, name: str, *args: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.Call:
        owner = ast.Name(NAME, ast.Load())
        function = ast.Attribute(owner, name, ast.Load())
        if not hasattr(node, "lineno"):  # a slice in Python 3.8 has no place: it gets that of what it stands in
            return ast.Call(function, list(args), list(keywords))
        # the line that a traceback shows: where the expression begins, of a chained call where its name stands
        called = getattr(node, "func", None)
        line = called.end_lineno if isinstance(called, ast.Attribute) else getattr(node, "lineno", 1)
        column = 0 if isinstance(called, ast.Attribute) else getattr(node, "col_offset", 0)
        for part in (owner, function):
            part.lineno, part.end_lineno = line or 1, line or 1
            part.col_offset, part.end_col_offset = column, column
        call = ast.copy_location(ast.Call(function, list(args), list(keywords)), node)
        if line is not None and line > call.lineno:
            call.lineno, call.col_offset = line, column
        return call

    def _operator(self, op: ast.AST, prefix: str = "") -> Optional[ast.expr]:
        name = {
            "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod",
            "Pow": "pow", "MatMult": "matmul", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Eq": "eq",
            "NotEq": "ne", "USub": "neg",
        }.get(type(op).__name__)  # fmt: skip
        if name is None:
            return None
        owner = ast.Attribute(ast.Name(NAME, ast.Load()), "operator", ast.Load())
        return ast.Attribute(owner, prefix + name, ast.Load())

    def _index(self, node: Any) -> Any:
        """The expression for what stands between the brackets."""
        if isinstance(node, ast.Slice):
            parts: List[ast.expr] = [part or ast.Constant(None) for part in (node.lower, node.upper, node.step)]
            return self._helper(node, "slice", *parts)
        if type(node).__name__ == "Index":  # Python 3.8
            return self._index(node.value)
        if type(node).__name__ == "ExtSlice":  # Python 3.8
            return ast.Tuple([self._index(part) for part in node.dims], ast.Load())
        if isinstance(node, ast.Tuple):
            return ast.copy_location(ast.Tuple([self._index(part) for part in node.elts], ast.Load()), node)
        return node

    # ------------------------------------------------------------------ expressions
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _PLAIN_CALLS:
            return node
        return self._helper(node, "call", node.func, *node.args, keywords=node.keywords)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        function = self._operator(node.op)
        if function is None or (isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)):
            return node
        return self._helper(node, "op", function, node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        function = self._operator(node.op)
        return self._helper(node, "unary", function, node.operand) if function and not _constant(node.operand) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        function = self._operator(node.ops[0])
        if function is None or len(node.ops) != 1:
            return node
        return self._helper(node, "compare", function, node.left, node.comparators[0])

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return self._helper(node, "load", node.value, self._index(node.slice)) if _loads(node) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if _loads(node) and node.attr in _VIEWS:
            return self._helper(node, "attribute", node.value, ast.Constant(node.attr))
        if _loads(node) and node.attr in ("trainable_variables", "trainable_weights", "variables", "weights"):
            return self._helper(node, "listed", node.value, ast.Constant(node.attr))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        node.test = self._helper(node.test, "decide", node.test)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if not node.is_async:
            node.iter = self._helper(node.iter, "iterate", node.iter)
        return node

    # ------------------------------------------------------------------ statements
    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Subscript):
            return self.generic_visit(node)
        value, owner, index = self.visit(node.value), self.visit(target.value), self._index(self.visit(target.slice))
        return ast.copy_location(ast.Expr(self._helper(node, "store", value, owner, index)), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        target, function = node.target, self._operator(node.op, "i")
        if function is None:
            return node
        if isinstance(target, ast.Subscript):
            helper = self._helper(node, "augment", function, target.value, self._index(target.slice), node.value)
            return ast.copy_location(ast.Expr(helper), node)
        if isinstance(target, ast.Name):
            load: ast.expr = ast.Name(target.id, ast.Load())
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            load = ast.Attribute(ast.Name(target.value.id, ast.Load()), target.attr, ast.Load())
        else:
            return node
        value = self._helper(node, "op", function, ast.copy_location(load, node), node.value)
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._helper(node.iter, "iterate", node.iter)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        node.test = self._helper(node.test, "decide", node.test)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value is not None else None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._body(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._body(node)

    def _body(self, node: _Function) -> _Function:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        return node

    def visit_match_case(self, node: Any) -> Any:
        node.guard = self.visit(node.guard) if node.guard is not None else None
        node.body = [self.visit(statement) for statement in node.body]
        return node


def _constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _loads(node: Any) -> bool:
    return isinstance(node.ctx, ast.Load)


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the user's with instrumented code; neither reads nor writes cached bytecode."""

    note: Callable[[str], None] = staticmethod(lambda message: None)

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        try:
            return compile_instrumented(source, path)
        except (SyntaxError, ValueError, RecursionError) as failure:
            type(self).note(f"{os.path.basename(path)} is not instrumented: {failure}")
            return compile(source, path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Gives the user's modules to the instrumenting loader."""

    def __init__(self, code: UserCode, note: Callable[[str], None]) -> None:
        self.code = code
        self._loader = type("_NotingLoader", (_Loader,), {"note": staticmethod(note)})

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The ordinary spec, with another loader, for a module that lies in a file of the user's."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        if not spec.origin or not self.code.owns(spec.origin):
            return None
        spec.loader = self._loader(fullname, spec.origin)
        return spec


class Helper:
    """The name that instrumented code sees until TensorFlow is there: everything as without it."""

    operator = operator
    slice = slice

    @staticmethod
    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    @staticmethod
    def op(function: Any, left: Any, right: Any) -> Any:
        return function(left, right)

    @staticmethod
    def unary(function: Any, value: Any) -> Any:
        return function(value)

    compare = op
    attribute = listed = staticmethod(getattr)

    @staticmethod
    def load(thing: Any, index: Any) -> Any:
        return thing[index]

    @staticmethod
    def store(value: Any, thing: Any, index: Any) -> None:
        thing[index] = value

    @staticmethod
    def augment(function: Any, thing: Any, index: Any, value: Any) -> None:
        thing[index] = function(thing[index], value)

    @staticmethod
    def iterate(things: Any) -> Any:
        return things

    decide = iterate


def install(code: UserCode, note: Callable[[str], None]) -> None:
    """From now on the user's modules are instrumented as they are imported."""
    setattr(builtins, NAME, Helper)
    sys.meta_path.insert(0, Finder(code, note))


def use(values: Any) -> None:
    """Instrumented code calls `values` from now on."""
    values.operator, values.slice = operator, slice
    setattr(builtins, NAME, values)
