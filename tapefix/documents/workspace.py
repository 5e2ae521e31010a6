"""The files of a run as they would be: what is on disk, under the edits made so far."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tapefix.documents.document import Document, Edit, UnreadableDocument

Read = Callable[[str], "bytes | None"]


def read_file(filename: str) -> bytes | None:
    """The bytes of a file, None where there is none (or none that can be read)."""
    try:
        return Path(filename).read_bytes()
    except (OSError, ValueError):  # ValueError: a name with a null character
        return None


class Workspace:
    """Gives documents by absolute file name. Immutable but for its memory: `edited` returns another workspace.

    Calling it is the loader that the flow model asks for imported modules: a document, or None where there is no
    such file or it is no Python. `consulted` remembers every name that was asked for, with the digest of what was
    there: what a result depends on.
    """

    def __init__(self, read: Read = read_file, documents: Mapping[str, Document] | None = None):
        self._read = read
        self._overlay = dict(documents or {})
        self._disk: dict[str, Document | UnreadableDocument | None] = {}
        self.consulted: dict[str, str | None] = {}

    def __call__(self, filename: str | Path) -> Document | None:
        try:
            return self.open(str(filename))
        except (UnreadableDocument, FileNotFoundError):
            return None

    def open(self, filename: str) -> Document:
        """The document. Raises FileNotFoundError, or UnreadableDocument where it cannot be decoded."""
        filename = os.path.abspath(filename)
        document = self._overlay.get(filename) or self._from_disk(filename)
        if isinstance(document, UnreadableDocument):
            raise document
        if document is None:
            raise FileNotFoundError(filename)
        return document

    def _from_disk(self, filename: str) -> Document | UnreadableDocument | None:
        if filename not in self._disk:
            data = self._read(filename)
            self.consulted[filename] = None if data is None else hashlib.sha256(data).hexdigest()
            try:
                self._disk[filename] = None if data is None else Document(filename, data)
            except UnreadableDocument as error:
                self._disk[filename] = error
        return self._disk[filename]

    def edited(self, edits: Iterable[Edit]) -> Workspace:
        """The workspace after edits in any number of files. Raises ValueError where two of them overlap."""
        by_file: dict[str, list[Edit]] = {}
        for edit in edits:
            by_file.setdefault(os.path.abspath(edit.filename), []).append(edit)
        changed = {name: self.open(name).apply(part) for name, part in by_file.items()}
        other = Workspace(self._read, {**self._overlay, **changed})
        other._disk, other.consulted = self._disk, self.consulted  # one disk, read once
        return other

    @property
    def changed(self) -> dict[str, Document]:
        """The documents that differ from those on disk, by file name."""
        return {
            name: document
            for name, document in self._overlay.items()
            if (original := self.original(name)) is None or original.data != document.data
        }

    def original(self, filename: str) -> Document | None:
        """The document as it is on disk."""
        found = self._from_disk(os.path.abspath(filename))
        return found if isinstance(found, Document) else None
