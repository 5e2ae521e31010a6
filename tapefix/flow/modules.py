"""Finds the modules of the same repository that a file imports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tapefix.documents.document import Document, UnreadableDocument

#: gives the document of a module, or None where it is not part of the repository
Loader = Callable[[str, int, str], "Document | None"]

_ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
MOST_LEVELS = 6
MOST_BYTES = 400_000


def no_modules(name: str, level: int, importer: str) -> Document | None:
    """A loader that knows no other file."""
    return None


def read_document(filename: str) -> Document | None:
    """The document on disk, None where there is none that can be read."""
    try:
        return Document(filename, Path(filename).read_bytes())
    except (OSError, UnreadableDocument):
        return None


class RepositoryLoader:
    """Resolves imports against the importer's folder and its parents up to the repository's root.

    `open_file` gives the document of a file name: a workspace, where files may differ from those on disk.
    """

    def __init__(self, open_file: Callable[[str], Document | None] = read_document) -> None:
        self._open_file = open_file
        self._documents: dict[Path, Document | None] = {}
        self._roots: dict[Path, bool] = {}

    def __call__(self, name: str, level: int, importer: str) -> Document | None:
        folder = Path(importer).resolve().parent
        parts = [p for p in name.split(".") if p]
        if level:
            for _ in range(level - 1):
                folder = folder.parent
            return self._open(folder, parts)
        for _ in range(MOST_LEVELS):
            found = self._open(folder, parts) if parts else None
            if found is not None:
                return found
            if self._is_root(folder):
                return None
            folder = folder.parent
        return None

    def _is_root(self, folder: Path) -> bool:
        if folder not in self._roots:
            self._roots[folder] = folder.parent == folder or any((folder / mark).exists() for mark in _ROOT_MARKS)
        return self._roots[folder]

    def _open(self, folder: Path, parts: list[str]) -> Document | None:
        if not parts:
            return self._document(folder / "__init__.py")
        base = folder.joinpath(*parts)
        return self._document(base.with_name(base.name + ".py")) or self._document(base / "__init__.py")

    def _document(self, path: Path) -> Document | None:
        if path not in self._documents:
            document = self._open_file(str(path)) if path.is_file() else None
            self._documents[path] = document if document is not None and len(document.data) <= MOST_BYTES else None
        return self._documents[path]
