"""Which files a run is about: paths of the command line, less what git ignores and the settings exclude."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from tapefix.errors import TapefixError

#: folders that hold other people's code, or none
NEVER = frozenset(
    {".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", "node_modules", "__pycache__", "site-packages"}
)
SUFFIXES = (".py", ".pyi")


@dataclass(frozen=True)
class Found:
    """The Python files to look at, absolute and in order, and which of them were named one by one."""

    files: tuple[str, ...]
    named: frozenset[str]


def find_files(paths: Sequence[str], exclude: Iterable[str] = (), root: Path | None = None) -> Found:
    """Every file in `paths`, and every Python file below the folders in it.

    A file that is named is taken as it is; one met in a folder must end in .py, and be neither ignored by git nor
    match `exclude` (patterns as in .gitignore, relative to `root`). Raises TapefixError for what does not exist.
    """
    excluded = _Excluded(exclude, root or Path.cwd())
    files: dict[str, None] = {}
    named = set()
    for given in paths:
        path = Path(os.path.abspath(given))
        if path.is_dir():
            files.update(dict.fromkeys(_walk(path, excluded)))
        elif path.exists():
            files[str(path)] = None
            named.add(str(path))
        else:
            raise TapefixError(f"{given}: no such file or folder")
    return Found(tuple(sorted(files)), frozenset(named))


class _Excluded:
    def __init__(self, patterns: Iterable[str], root: Path):
        self._root, self._spec = str(root), GitIgnoreSpec.from_lines(patterns)

    def __call__(self, path: str, *, folder: bool) -> bool:
        return _matches(self._spec, self._root, path, folder) is True


def is_excluded(filename: str, patterns: Iterable[str], root: Path) -> bool:
    """Whether a file matches one of the patterns."""
    return _Excluded(patterns, root)(filename, folder=False)


def _matches(spec: GitIgnoreSpec, base: str, path: str, folder: bool) -> bool | None:
    """True where ignored, False where taken back by a `!` pattern, None where the patterns say nothing."""
    relative = os.path.relpath(path, base).replace(os.sep, "/")
    if relative.startswith("../"):  # outside: only patterns that hold anywhere can match
        relative = path.replace(os.sep, "/").lstrip("/")
    return spec.check_file(relative + "/" if folder else relative).include


def _walk(top: Path, excluded: _Excluded) -> Iterator[str]:
    ignores = _ignores_above(top)
    yield from _below(str(top), ignores, excluded)


def _below(folder: str, ignores: list[tuple[str, GitIgnoreSpec]], excluded: _Excluded) -> Iterator[str]:
    ignores = ignores + _ignores_of(folder)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return  # a folder nobody may read is no Python code of this run
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not (entry.name.endswith(SUFFIXES) and entry.is_file()):
            continue
        if is_folder and entry.name in NEVER:
            continue
        if _ignored(entry.path, is_folder, ignores) or excluded(entry.path, folder=is_folder):
            continue
        if is_folder:
            yield from _below(entry.path, ignores, excluded)
        else:
            yield entry.path


def _ignored(path: str, folder: bool, ignores: list[tuple[str, GitIgnoreSpec]]) -> bool:
    """The innermost .gitignore that says something decides, as in git."""
    for base, spec in reversed(ignores):
        verdict = _matches(spec, base, path, folder)
        if verdict is not None:
            return verdict
    return False


def _ignores_above(top: Path) -> list[tuple[str, GitIgnoreSpec]]:
    """The ignore files of the folders between the repository's root and `top`; none outside a repository."""
    above: list[Path] = []
    for folder in (top, *top.parents):
        if (folder / ".git").exists():
            chain = [folder, *reversed(above)] if folder != top else []
            specs = [spec for one in chain for spec in _ignores_of(str(one))]
            return _spec(str(folder), folder / ".git" / "info" / "exclude") + specs
        if folder != top:
            above.append(folder)
    return []


def _ignores_of(folder: str) -> list[tuple[str, GitIgnoreSpec]]:
    return _spec(folder, Path(folder, ".gitignore"))


def _spec(base: str, path: Path) -> list[tuple[str, GitIgnoreSpec]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [(base, GitIgnoreSpec.from_lines(lines))]
