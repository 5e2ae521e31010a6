"""A Python file as the tool sees it: decoded text, its syntax tree, and the way from one to the other.

The text keeps every byte of the file (line ends, form feeds, byte order mark, missing last
newline); an edit replaces a span of characters and touches nothing else.
"""

from __future__ import annotations

import ast
import bisect
import codecs
import functools
import io
import re
import tokenize
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_DECLARED = re.compile(rb"coding[:=]")  # an encoding may be declared in the first two lines
_LINE_END = re.compile(r"\r\n|\r|\n")


class UnreadableDocument(ValueError):
    """The file can't be read as Python 3 source; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Place:
    """A span of a file; rows and columns count from 1, columns count characters, the end is exclusive."""

    filename: str
    row: int
    column: int
    end_row: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters [start, end) of the document's text by `content`."""

    filename: str
    start: int
    end: int
    content: str


class Document:
    """One Python source file. Immutable: `apply` returns a new document."""

    def __init__(self, filename: str | Path, data: bytes):
        self.filename = str(filename)
        self.data = data
        self.bom = data.startswith(codecs.BOM_UTF8)
        self.encoding = "utf-8"
        second = data.find(b"\n", data.find(b"\n") + 1)
        if not data.isascii() or _DECLARED.search(data, 0, second if second >= 0 else len(data)):
            self._decode()  # plain ASCII can't fail: it waits until it is asked for

    def _decode(self) -> None:
        try:
            self.encoding, _ = tokenize.detect_encoding(io.BytesIO(self.data).readline)
            self.__dict__["text"] = self.data[len(codecs.BOM_UTF8) if self.bom else 0 :].decode(
                "utf-8" if self.encoding == "utf-8-sig" else self.encoding
            )
        except (SyntaxError, UnicodeDecodeError, LookupError) as error:
            raise UnreadableDocument(f"{self.filename}: not readable as text: {error}") from error

    @functools.cached_property
    def text(self) -> str:
        return self.data.decode("ascii")

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the text. Raises UnreadableDocument where it does not parse."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python's opinion of an escape sequence is not ours to tell
                return ast.parse(self.text, self.filename)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            where = f"{self.filename}:{line}" if line else self.filename
            raise UnreadableDocument(f"{where}: does not parse as Python 3: {getattr(error, 'msg', error)}") from error

    @functools.cached_property
    def _starts(self) -> list[int]:
        """The offset of each line's first character."""
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    @functools.cached_property
    def newline(self) -> str:
        """The file's own line end: that of its first line, or a line feed."""
        first = _LINE_END.search(self.text)
        return first.group() if first else "\n"

    def line(self, row: int) -> str:
        """Line `row` (from 1) without its line end."""
        start = self._starts[row - 1]
        end = self._starts[row] if row < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def rows_from(self, first: int, last: int) -> str:
        """The text of the rows from `first` to `last`, both included, counted from 1."""
        end = self._starts[last] if last < len(self._starts) else len(self.text)
        return self.text[self._starts[first - 1] : end]

    @property
    def rows(self) -> int:
        return len(self._starts)

    def offset(self, row: int, byte_column: int) -> int:
        """The offset of the position that `ast` calls (row, byte_column): row from 1, UTF-8 bytes from 0."""
        start = self._starts[row - 1]
        line = self.line(row)
        if line.isascii():
            return start + byte_column
        return start + len(line.encode("utf-8")[:byte_column].decode("utf-8", "ignore"))

    def offset_at(self, row: int, column: int) -> int:
        """The offset of a `Place`'s position: row and column from 1, the column in characters."""
        return self._starts[row - 1] + column - 1

    def text_at(self, place: Place) -> str:
        """The text that a place of this document spans."""
        return self.text[self.offset_at(place.row, place.column) : self.offset_at(place.end_row, place.end_column)]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end offset of an expression or statement; a decorated definition begins at its first decorator."""
        row, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            row = min(row, decorators[0].lineno)
            start = self.offset(row, 0) + len(self.line(row)) - len(self.line(row).lstrip())
        else:
            start = self.offset(row, column)
        return start, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def source(self, node: ast.AST) -> str:
        """The text of an expression or statement as it is written."""
        start, end = self.span(node)
        return self.text[start:end]

    def position(self, offset: int) -> tuple[int, int]:
        """(row, column) of an offset, both from 1, the column in characters."""
        row = bisect.bisect_right(self._starts, offset)
        return row, offset - self._starts[row - 1] + 1

    def place(self, node: ast.AST) -> Place:
        start, end = self.span(node)
        return self.place_of(start, end)

    def place_of(self, start: int, end: int) -> Place:
        return Place(self.filename, *self.position(start), *self.position(end))

    def indent(self, node: ast.AST) -> str:
        """The white space before the first character of the line on which the node starts."""
        row, _ = self.position(self.span(node)[0])
        line = self.line(row)
        return line[: len(line) - len(line.lstrip(" \t\f"))].lstrip("\f")

    def apply(self, edits: Iterable[Edit]) -> Document:
        """The document after the edits; they must not overlap (two insertions at one place keep their order)."""
        pieces, done = [], 0
        for edit in sorted(edits, key=lambda e: (e.start, e.end)):
            if edit.start < done:
                raise ValueError(f"{self.filename}: edits overlap at offset {edit.start}")
            pieces += [self.text[done : edit.start], edit.content]
            done = edit.end
        return self.with_text("".join(pieces) + self.text[done:])

    def with_text(self, text: str) -> Document:
        encoded = text.encode("utf-8" if self.encoding == "utf-8-sig" else self.encoding)
        return Document(self.filename, (codecs.BOM_UTF8 if self.bom else b"") + encoded)
