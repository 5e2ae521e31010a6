"""Comments by which a person says: I know, leave it.

`# tapefix: ignore[TAP101, TAP2]` on a line of the finding, `# tapefix: ignore` for every rule, and
`# tapefix: ignore-file` (with or without codes) anywhere for the whole file.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

from tapefix.documents.document import Document, Place

_COMMENT = re.compile(r"#\s*tapefix:\s*ignore(?P<file>-file)?\s*(?:\[(?P<codes>[^\]]*)\])?", re.IGNORECASE)


@dataclass(frozen=True)
class Suppression:
    """One comment: the row it is on, the codes (or their beginnings) it names, none meaning all."""

    row: int
    codes: tuple[str, ...]
    whole_file: bool
    text: str

    def covers(self, code: str, place: Place) -> bool:
        here = self.whole_file or place.row <= self.row <= place.end_row
        return here and (not self.codes or code.startswith(self.codes))


@dataclass
class Suppressions:
    """A document's comments, and which of them have been of use."""

    comments: tuple[Suppression, ...]
    used: set[Suppression] = field(default_factory=set)

    def cover(self, code: str, place: Place) -> bool:
        """Whether a comment silences the finding."""
        covering = [comment for comment in self.comments if comment.covers(code, place)]
        self.used.update(covering)
        return bool(covering)

    @property
    def unused(self) -> list[Suppression]:
        return [comment for comment in self.comments if comment not in self.used]


def suppressions_of(document: Document) -> Suppressions:
    """The suppression comments of a document that parses."""
    if b"tapefix" not in document.data.lower():
        return Suppressions(())
    return Suppressions(tuple(_comments(document)))


def _comments(document: Document) -> Iterator[Suppression]:
    source = re.sub(r"\r\n|\r", "\n", document.text)  # tokenize knows no lone carriage return
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if match:
                codes = tuple(code.strip().upper() for code in (match["codes"] or "").split(",") if code.strip())
                yield Suppression(token.start[0], codes, bool(match["file"]), match.group().strip())
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return  # what the parser takes and tokenize does not: no comment can be told from text there
