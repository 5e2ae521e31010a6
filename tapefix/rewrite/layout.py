"""How a document's statements lie on its lines: blocks, `a; b` runs, indentation, comments that follow."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tapefix.documents.document import Document
from tapefix.rewrite import build

_BLOCKS = ("body", "orelse", "finalbody")


@dataclass(frozen=True)
class Run:
    """The statements of a block that share a line by `;`. `start` and `end` are those of the whole lines."""

    statements: tuple[ast.stmt, ...]
    start: int
    end: int
    own_line: bool  # nothing else of the program stands on the lines


class Layout:
    """Answers about a document's lines and blocks; built once per document."""

    def __init__(self, document: Document):
        self.document = document
        self._parents: dict[ast.AST, ast.AST] = {}
        self._blocks: dict[ast.stmt, tuple[ast.AST, list[ast.stmt]]] = {}
        for node in ast.walk(document.tree):
            for child in ast.iter_child_nodes(node):
                # operators and contexts are shared objects: they have no one parent
                if not isinstance(child, (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)):
                    self._parents[child] = node
            for name in _BLOCKS:
                block = getattr(node, name, None)
                if isinstance(block, list):
                    for statement in block:
                        if isinstance(statement, ast.stmt):
                            self._blocks[statement] = (node, block)

    @classmethod
    def of(cls, document: Document) -> Layout:
        kept = vars(document)  # with the document, so that it goes when the document goes
        if "_layout" not in kept:
            kept["_layout"] = cls(document)
        layout = kept["_layout"]
        assert isinstance(layout, Layout)
        return layout

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The node's parents, the nearest first."""
        above = self._parents.get(node)
        while above is not None:
            yield above
            above = self._parents.get(above)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that the node is or belongs to."""
        if isinstance(node, ast.stmt):
            return node
        for above in self.ancestors(node):
            if isinstance(above, ast.stmt):
                return above
        raise ValueError("the node belongs to no statement of the document")

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of the block that the statement belongs to, itself among them."""
        return self._blocks[statement][1]

    def may_be_empty(self, statement: ast.stmt) -> bool:
        """Whether the statement's block needs no statement at all: that of the module."""
        return isinstance(self._blocks[statement][0], ast.Module)

    def closes_block(self, statement: ast.stmt) -> bool:
        return self.block(statement)[-1] is statement

    @functools.cached_property
    def unit(self) -> str:
        """One level of the document's indentation, by its first indented block."""
        for statement, (owner, _) in self._blocks.items():
            if isinstance(owner, ast.stmt) and self._starts_line(self.document.span(statement)[0]):
                deeper = self.document.indent(statement).removeprefix(self.document.indent(owner))
                if deeper:
                    return deeper
        return "    "

    def indent(self, statement: ast.stmt) -> str:
        """The indentation of the statement's block, also where it stands behind the colon of `if x: y`."""
        first = self.run(statement)
        if first.own_line:
            return self.document.indent(first.statements[0])
        owner = self._blocks[statement][0]
        while not hasattr(owner, "lineno"):  # match_case: its pattern has the line, the indentation is the same
            owner = getattr(owner, "pattern", self._parents.get(owner, owner))
        return self.document.indent(owner) + self.unit

    def is_elif(self, statement: ast.stmt) -> bool:
        """Whether the statement is the `if` that an `elif` stands for: it has no line of its own among the others."""
        return isinstance(statement, ast.If) and self.document.source(statement).startswith("elif")

    def run(self, statement: ast.stmt) -> Run:
        """The statements that share the statement's line."""
        block = self.block(statement)
        low = high = block.index(statement)
        while low > 0 and self._same_line(block[low - 1], block[low]):
            low -= 1
        while high + 1 < len(block) and self._same_line(block[high], block[high + 1]):
            high += 1
        first, last = self.document.span(block[low])[0], self.document.span(block[high])[1]
        text = self.document.text
        start = self._line_start(first)
        end = self._line_end(last)
        rest = text[last:end].strip().removeprefix(";").strip()
        own = self._starts_line(first) and (not rest or rest.startswith("#"))
        return Run(tuple(block[low : high + 1]), start, end, own)

    def behind_colon(self, start: int) -> int:
        """The offset just behind the colon before a statement that stands on its header's line."""
        text = self.document.text
        return len(text[:start].rstrip(" \t\f\\\r\n"))

    def after(self, statement: ast.stmt) -> int:
        """Where a line can be inserted after the statement: behind its lines and the deeper comments that follow."""
        at = self._line_end(self.document.span(statement)[1])
        indent = self.document.indent(statement)
        text = self.document.text
        while at < len(text):
            end = self._line_end(at)
            line = text[at:end]
            deeper = line.startswith(indent) and line[len(indent) : len(indent) + 1] in (" ", "\t")
            if not (isinstance(getattr(statement, "body", None), list) and deeper and line.strip().startswith("#")):
                break
            at = end
        return at

    def fitted(self, node: ast.expr, text: str) -> str:
        """`text` as it can stand in the node's place: in parentheses where its surroundings ask for them."""
        outer: ast.expr = node
        above = self.parent(node)
        while isinstance(above, (ast.expr, ast.keyword, ast.comprehension)):
            outer = above if isinstance(above, ast.expr) else outer
            above = self.parent(above)
        wrapped = build.parenthesised(text)
        if outer is node:
            return text if self._stands_alone(above, node, text) else wrapped
        begin, end = self.document.span(outer)
        start, stop = self.document.span(node)
        before, behind = self.document.text[begin:start], self.document.text[stop:end]
        wanted = _meaning(before + wrapped + behind)
        return text if wanted and _meaning(before + text + behind) == wanted else wrapped

    def _stands_alone(self, above: ast.AST | None, node: ast.expr, text: str) -> bool:
        """Whether an expression that a statement holds directly can stand there without parentheses."""
        begin, end = self.document.span(node)
        bracketed = self.document.text[:begin].rstrip().endswith("(") and self.document.text[end:].lstrip()[:1] == ")"
        try:
            tree = ast.parse(text if not bracketed else f"({text}\n)", mode="eval").body
        except SyntaxError:
            return False
        if isinstance(above, (ast.Assign, ast.Return, ast.Expr)):
            return not isinstance(tree, (ast.NamedExpr, ast.Yield, ast.YieldFrom)) or bracketed
        return not isinstance(tree, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Tuple, ast.Starred, ast.Lambda))

    def _same_line(self, one: ast.stmt, following: ast.stmt) -> bool:
        between = self.document.text[self.document.span(one)[1] : self.document.span(following)[0]]
        return (
            between.replace("\\\r\n", "").replace("\\\n", "").strip() == ";"
            and "#" not in between
            and (between.replace("\\\r\n", "").replace("\\\n", "").count("\n") == 0)
        )

    def _starts_line(self, offset: int) -> bool:
        start = self._line_start(offset)
        before = self.document.text[:start].rstrip("\r\n")
        return not self.document.text[start:offset].strip() and not (
            before.endswith("\\") and "\n" not in self.document.text[len(before) + 2 : start]
        )

    def _line_start(self, offset: int) -> int:
        _, column = self.document.position(offset)
        return offset - column + 1

    def _line_end(self, offset: int) -> int:
        """The offset behind the line end of the line that holds `offset`."""
        text = self.document.text
        while offset < len(text) and text[offset] not in "\r\n":
            offset += 1
        return offset + (2 if text[offset : offset + 2] == "\r\n" else 1 if offset < len(text) else 0)


def _meaning(text: str) -> tuple[bool, str]:
    """An expression's syntax tree as text, and whether it needs no brackets around it; ("") where it has none."""
    for bare, frame in ((True, text), (False, f"({text}\n)")):
        try:
            return bare, ast.dump(ast.parse(frame, mode="eval"))
        except SyntaxError:
            continue
    return False, ""
