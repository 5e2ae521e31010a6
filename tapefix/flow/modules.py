"""Finds the modules of the same repository that a file imports."""

from __future__ import annotations

import ast
import functools
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from tapefix.documents.document import Document, UnreadableDocument

#: gives the document of a module, or None where it is not part of the repository
Loader = Callable[[str, int, str], "Document | None"]

#: known by what they do, not by their source, even in their own repositories
_FRAMEWORKS = frozenset({"keras", "tf_keras", "tensorflow", "numpy"})
_ROOT_MARKS = frozenset({".git", "pyproject.toml", "setup.py", "setup.cfg"})
MOST_LEVELS = 6
MOST_BYTES = 400_000
KEPT_FOLDERS = 4_000


def no_modules(name: str, level: int, importer: str) -> Document | None:
    """A loader that knows no other file."""
    return None


def read_document(filename: str) -> Document | None:
    """The document on disk, None where there is none that can be read."""
    try:
        return Document(filename, Path(filename).read_bytes())
    except (OSError, UnreadableDocument):
        return None


@functools.lru_cache(maxsize=KEPT_FOLDERS)
def _listing(folder: str, changed: int) -> frozenset[str]:
    """The names in a folder, as of its last change (nanoseconds)."""
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


class _Trees:
    """The syntax trees of imported modules, kept for the process: many files import the same ones."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._kept: OrderedDict[tuple[str, bytes], ast.Module] = OrderedDict()

    def share(self, document: Document) -> None:
        """Gives a document the tree of its equal, if one was parsed before. Raises UnreadableDocument."""
        key = (document.filename, document.data)
        tree = self._kept.get(key)
        if tree is not None:
            self._kept.move_to_end(key)
            document.__dict__.setdefault("tree", tree)
            return
        self._kept[key] = document.tree
        self._bytes += len(document.data)
        while self._bytes > self._most:
            (_, data), _ = self._kept.popitem(last=False)
            self._bytes -= len(data)


#: a tree takes up some thirty times the room of its source
TREES = _Trees(most_bytes=2_000_000)


class RepositoryLoader:
    """Resolves imports against the importer's folder and its parents up to the repository's root.

    `open_file` gives the document of a file name: a workspace, where files may differ from those on disk.
    """

    def __init__(self, open_file: Callable[[str], Document | None] = read_document) -> None:
        self._open_file = open_file
        self._documents: dict[str, Document | None] = {}
        self._folders: dict[str, frozenset[str]] = {}
        self._homes: dict[str, str] = {}
        self._found: dict[tuple[str, int, str], str] = {}

    def __call__(self, name: str, level: int, importer: str) -> Document | None:
        home = self._homes.get(importer)
        if home is None:
            home = self._homes[importer] = os.path.dirname(os.path.realpath(importer))
        key = (name, level, home)
        filename = self._found.get(key)
        if filename is None:
            filename = self._found[key] = self._resolve(name, level, home)
        return self._document(filename) if filename else None

    def _resolve(self, name: str, level: int, folder: str) -> str:
        """The file of a module, "" where there is none."""
        parts = [p for p in name.split(".") if p]
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self._file(folder, parts)
        if parts and parts[0] in _FRAMEWORKS:
            return ""
        for _ in range(MOST_LEVELS):
            found = self._file(folder, parts) if parts else ""
            if found:
                return found
            if not self._names(folder).isdisjoint(_ROOT_MARKS) or os.path.dirname(folder) == folder:
                return ""
            folder = os.path.dirname(folder)
        return ""

    def _names(self, folder: str) -> frozenset[str]:
        names = self._folders.get(folder)
        if names is None:
            try:
                names = _listing(folder, os.stat(folder).st_mtime_ns)
            except OSError:
                names = frozenset()
            self._folders[folder] = names
        return names

    def _file(self, folder: str, parts: list[str]) -> str:
        if not parts:
            return os.path.join(folder, "__init__.py") if "__init__.py" in self._names(folder) else ""
        for part in parts[:-1]:
            if part not in self._names(folder):
                return ""
            folder = os.path.join(folder, part)
        last, names = parts[-1], self._names(folder)
        if last + ".py" in names:
            return os.path.join(folder, last + ".py")
        if last in names and "__init__.py" in self._names(os.path.join(folder, last)):
            return os.path.join(folder, last, "__init__.py")
        return ""

    def _document(self, filename: str) -> Document | None:
        if filename not in self._documents:
            document = self._open_file(filename)
            self._documents[filename] = document if document is not None and len(document.data) <= MOST_BYTES else None
        return self._documents[filename]
