"""Edits of one document, collected and composed: what is not edited stays byte for byte.

Replacements may nest: an outer one names the nodes it takes over as parts, and these are rendered with
whatever was replaced inside them. Statements are deleted, replaced and inserted with care for `a; b`,
`if x: y`, decorators, comments and the file's own line ends.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from tapefix.documents.document import Document, Edit
from tapefix.rewrite import build
from tapefix.rewrite.layout import Layout, Run


class EditConflict(ValueError):
    """Two edits want the same text, or a place can't be edited; the message says which."""


@dataclass(frozen=True)
class _Replacement:
    """The text from `start` to `end` gives way to what `make` returns; `order` tells the outer of two equal spans."""

    start: int
    end: int
    make: Callable[[], str]
    order: int
    owner: tuple[int, int] = (-1, -1)  # of what edits of statements come to: the span of the statements
    behind: bool = False  # inserted after the statement

    def holds(self, other: _Replacement) -> bool:
        """Whether `other` lies inside and is therefore rendered, if at all, by this one."""
        if other.owner != (-1, -1):
            # whole lines go beyond the end of the block that the statement closes: what counts is the statement
            own = other.owner in (self.owner, (self.start, self.end))
            return self.start != self.end and not own and self.encloses(other.owner)
        if other.start == other.end:
            return self.start < other.start < self.end
        if self is other or not self.encloses((other.start, other.end)):
            return False
        return (self.start, self.end) != (other.start, other.end) or self.order > other.order

    def encloses(self, span: tuple[int, int]) -> bool:
        return self.start <= span[0] and span[1] <= self.end

    @property
    def place(self) -> tuple[int, int, int, int, int]:
        """The order in the text: at one place what comes after a statement, the innermost first, comes first."""
        return self.start, self.end, not self.behind, -self.owner[0] if self.behind else 0, self.order


#: start, end, text, owner, behind: see _Replacement
_Piece = tuple[int, int, Callable[[], str], tuple[int, int], bool]


class EditSet:
    """The edits that together make up one fix in one document."""

    def __init__(self, document: Document):
        self.document = document
        self.layout = Layout.of(document)
        self.names_taken: set[str] = set()  # fresh names handed out, see tapefix.rewrite.names
        self.imports_added: dict[tuple[str, str], str] = {}  # see tapefix.rewrite.imports
        self._replacements: list[_Replacement] = []
        self._deleted: list[ast.stmt] = []
        self._before: dict[ast.stmt, list[Callable[[], str]]] = {}
        self._after: dict[ast.stmt, list[Callable[[], str]]] = {}
        self._rewritten: dict[ast.stmt, Callable[[], str]] = {}
        self._known: tuple[int, list[_Replacement]] = (-1, [])

    # expressions

    def replace(self, node: ast.expr, text: str) -> None:
        """Put `text`, an expression, in the node's place, in parentheses where its surroundings ask for them."""
        self._replace_expression(node, lambda: text)

    def rewrite(self, node: ast.expr, template: str, **parts: str | ast.AST) -> None:
        """Put the template's expression in the node's place. Parts that are nodes come with their own replacements,
        also those made later; the node itself may be one of its parts."""
        order = len(self._replacements)
        self._replace_expression(node, lambda: build.expression(template, **self._texts(parts, order, node)))

    def _replace_expression(self, node: ast.expr, make: Callable[[], str]) -> None:
        parent = self.layout.parent(node)
        while parent is not None and isinstance(parent, ast.expr):
            if isinstance(parent, ast.JoinedStr):
                raise EditConflict(f"{self._where(node)}: inside an f-string")
            parent = self.layout.parent(parent)
        start, end = self.document.span(node)
        self._add(start, end, lambda: self.layout.fitted(node, make()))

    def replace_span(self, start: int, end: int, text: str) -> None:
        """Replace the characters [start, end) of the document as they are; an empty span inserts."""
        self._add(start, end, lambda: text)

    def _add(self, start: int, end: int, make: Callable[[], str]) -> None:
        for other in self._replacements:
            if start < other.end and other.start < end:
                nested = (start <= other.start and other.end <= end) or (other.start <= start and end <= other.end)
                if not nested:
                    row, _ = self.document.position(start)
                    raise EditConflict(f"{self.document.filename}:{row}: edits overlap")
        self._replacements.append(_Replacement(start, end, make, len(self._replacements)))

    # statements

    def delete_statement(self, statement: ast.stmt) -> None:
        """Take the statement out with its line and the comment behind it; a block left empty gets `pass`."""
        self._refuse_elif(statement)
        if statement not in self._deleted:
            self._deleted.append(statement)

    def replace_statement(self, statement: ast.stmt, text: str) -> None:
        """Put statements in the statement's place. `text` is as `build.statements` returns it, or from column 0."""
        self._put(statement, lambda: text)

    def rewrite_statement(self, statement: ast.stmt, template: str, **parts: str | ast.AST) -> None:
        """Put the template's statements in the statement's place, parts as in `rewrite`."""
        self._put(statement, lambda: self._statements(template, parts))

    def insert_before(self, statement: ast.stmt, text: str, **parts: str | ast.AST) -> None:
        """Insert statements before the statement (and its decorators), at its indentation.

        With parts, `text` is a template as in `rewrite`.
        """
        self._refuse_elif(statement)
        self._before.setdefault(statement, []).append(self._inserted(text, parts))

    def insert_after(self, statement: ast.stmt, text: str, **parts: str | ast.AST) -> None:
        """Insert statements after the statement and all that is indented under it, at its indentation.

        With parts, `text` is a template as in `rewrite`.
        """
        self._refuse_elif(statement)
        self._after.setdefault(statement, []).append(self._inserted(text, parts))

    def _inserted(self, text: str, parts: dict[str, str | ast.AST]) -> Callable[[], str]:
        return (lambda: self._statements(text, parts)) if parts else (lambda: text)

    def _put(self, statement: ast.stmt, make: Callable[[], str]) -> None:
        self._refuse_elif(statement)
        if statement in self._rewritten:
            raise EditConflict(f"{self._where(statement)}: the statement is replaced twice")
        self._rewritten[statement] = make

    def _refuse_elif(self, statement: ast.stmt) -> None:
        if self.layout.is_elif(statement):
            raise EditConflict(f"{self._where(statement)}: an `elif` is no statement of its own")

    def _statements(self, template: str, parts: dict[str, str | ast.AST]) -> str:
        return build.statements(template, unit=self.layout.unit, **self._texts(parts, -1, None))

    def _texts(self, parts: dict[str, str | ast.AST], order: int, node: ast.AST | None) -> dict[str, str]:
        return {
            name: part
            if isinstance(part, str)
            else self._render(*self.document.span(part), order if part is node else -1)
            for name, part in parts.items()
        }

    # results

    def source(self, node: ast.AST) -> str:
        """The node's text with all replacements inside it, and of itself, applied."""
        return self._render(*self.document.span(node), -1)

    def edits(self) -> tuple[Edit, ...]:
        """The edits, in order, not overlapping. Raises EditConflict where two can't both be had."""
        pieces = self._outermost(self._all(), 0, len(self.document.text))
        return tuple(
            Edit(self.document.filename, one.start, one.end, text)
            for one in pieces
            if (text := one.make()) != self.document.text[one.start : one.end]
        )

    def apply(self) -> Document:
        """The document after the edits."""
        return self.document.apply(self.edits())

    def __bool__(self) -> bool:
        return bool(self._replacements or self._deleted or self._before or self._after or self._rewritten)

    def _where(self, node: ast.AST) -> str:
        return f"{self.document.filename}:{getattr(node, 'lineno', '?')}"

    def _all(self) -> list[_Replacement]:
        """Expression replacements and those that the edits of statements come to."""
        # nothing is ever taken back, so the number of edits tells whether there are new ones
        inserted = sum(map(len, self._before.values())) + sum(map(len, self._after.values()))
        count = len(self._replacements) + len(self._deleted) + len(self._rewritten) + inserted
        if self._known[0] != count:
            self._known = count, self._collected()
        return self._known[1]

    def _collected(self) -> list[_Replacement]:
        result = list(self._replacements)
        touched = {*self._deleted, *self._before, *self._after, *self._rewritten}
        runs: dict[int, Run] = {}
        for statement in touched:
            run = self.layout.run(statement)
            runs[self.document.span(run.statements[0])[0]] = run
        gone = {id(statement) for statement in self._deleted}
        for _, run in sorted(runs.items()):
            for start, end, make, owner, behind in self._of_run(run, gone):
                result.append(_Replacement(start, end, make, len(result), owner, behind))
        return result

    def _of_run(self, run: Run, gone: set[int]) -> list[_Piece]:
        """The replacements for the statements that share one line (most often a single one)."""
        touched_here = [s for s in run.statements if s in self._before or s in self._after or s in self._rewritten]
        kept = [s for s in run.statements if id(s) not in gone]
        empties = not self.layout.may_be_empty(run.statements[0]) and all(
            id(s) in gone and s not in self._before and s not in self._after
            for s in self.layout.block(run.statements[0])
        )
        if len(run.statements) == 1 and run.own_line:
            return self._of_line(run, bool(gone & {id(run.statements[0])}), empties)
        first, last = run.statements[0], run.statements[-1]
        start, end = self.document.span(first)[0], self.document.span(last)[1]
        owned = (start, end), False
        if touched_here:
            return [(*self._exploded(run, kept), *owned)]
        if not kept:
            if run.own_line and not (empties and self.layout.closes_block(last)):
                return [(run.start, run.end, lambda: "", *owned)]
            return [(start, end, lambda: "pass", *owned)]
        result: list[_Piece] = []
        last_kept = run.statements.index(kept[-1])
        for statement, following in zip(run.statements[:last_kept], run.statements[1:], strict=False):
            if id(statement) in gone:
                result.append((self.document.span(statement)[0], self.document.span(following)[0], lambda: "", *owned))
        tail = self.document.span(kept[-1])[1]
        if tail < end:
            result.append((tail, end, lambda: "", *owned))
        return result

    def _of_line(self, run: Run, deleted: bool, empties: bool) -> list[_Piece]:
        """A statement that has its lines for itself: whole lines go and come around it."""
        (statement,) = run.statements
        start, end = self.document.span(statement)
        indent, newline = self.layout.indent(statement), self.document.newline
        result: list[_Piece] = []
        owner, at = (start, end), self.layout.after(statement)
        for make in self._before.get(statement, ()):
            result.append((run.start, run.start, self._lines(make, indent), owner, False))
        if statement in self._rewritten:
            make_text = self._lines(self._rewritten[statement], indent)
            result.append((start, end, lambda: make_text().removeprefix(indent).removesuffix(newline), owner, False))
        elif deleted and empties and self.layout.closes_block(statement):
            result.append((start, end, lambda: "pass", owner, False))
        elif deleted:
            # the comments that end its block belong to it
            result.append((run.start, at, lambda: "", owner, False))
        unfinished = at == len(self.document.text) and not self.document.text.endswith(("\n", "\r"))
        for make in self._after.get(statement, ()):
            made = self._lines(make, indent)
            result.append((at, at, self._on_new_line(made) if unfinished and not deleted else made, owner, True))
        return result

    def _on_new_line(self, made: Callable[[], str]) -> Callable[[], str]:
        """For the end of a file that ends without a line end, and goes on doing so."""
        return lambda: self.document.newline + made().removesuffix(self.document.newline)

    def _exploded(self, run: Run, kept: list[ast.stmt]) -> tuple[int, int, Callable[[], str]]:
        """`a; b` or `if x: y` spread over lines of their own, because something comes between."""
        first, last = run.statements[0], run.statements[-1]
        indent = self.layout.indent(first)
        newline = self.document.newline
        start, end = self.document.span(first)[0], self.document.span(last)[1]
        lead = start if run.own_line else self.layout.behind_colon(start)

        def make() -> str:
            pieces: list[str] = []
            for statement in run.statements:
                pieces += [self._lines(one, indent)() for one in self._before.get(statement, ())]
                if statement in self._rewritten:
                    pieces.append(self._lines(self._rewritten[statement], indent)())
                elif statement in kept:
                    pieces.append(indent + self.source(statement) + newline)
                pieces += [self._lines(one, indent)() for one in self._after.get(statement, ())]
            text = "".join(pieces).removesuffix(newline) or indent + "pass"
            return text.removeprefix(indent) if run.own_line else newline + text

        return lead, end, make

    def _lines(self, make: Callable[[], str], indent: str) -> Callable[[], str]:
        """Statements at that indentation with the document's line ends, ending in one."""

        def made() -> str:
            text = make()
            own = text[: len(text) - len(text.lstrip(" \t"))]
            text = build.reindent(text, own, indent, self.document.newline)
            return text if text.endswith(("\n", "\r")) or not text else text + self.document.newline

        return made

    def _render(self, start: int, end: int, below: int) -> str:
        """The text of a span with the replacements inside it; of those on the very span only the orders < `below`."""
        inside = [
            one
            for one in self._all()
            if (
                (start <= one.owner[0] and one.owner[1] <= end and one.owner != (start, end))
                if one.owner != (-1, -1)
                else start <= one.start and one.end <= end and not one.start == one.end in (start, end)
            )
            and (below < 0 or (one.start, one.end) != (start, end) or one.order < below)
        ]
        text, done = [], start
        for one in self._outermost(inside, start, end):
            text.append(self.document.text[done : min(one.start, end)])
            # a line after the last statement begins behind the span's end, where the line end is not part of it
            beyond = one.start > end
            text.append(self._on_new_line(one.make)() if beyond else one.make())
            done = min(one.end, end)
        return "".join([*text, self.document.text[done:end]])

    def _outermost(self, replacements: list[_Replacement], start: int, end: int) -> list[_Replacement]:
        outer = [one for one in replacements if not any(other.holds(one) for other in replacements)]
        outer.sort(key=lambda one: one.place)
        done = start
        for one in outer:
            if one.start < done:
                row, _ = self.document.position(one.start)
                raise EditConflict(f"{self.document.filename}:{row}: edits overlap")
            done = one.end
        return outer
