"""A copy of the user's project, in which the user's program runs.

In a Git work tree the copy holds what is tracked and what is neither tracked nor ignored; elsewhere the whole
folder, short of environments and caches. Large data files are linked, and what is linked is not to be written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tapefix.errors import TapefixError

#: a file above this size (bytes) is linked instead of copied, unless it is Python
LARGE = 16 << 20
MOST_FILES = 50_000
_SKIPPED = {
    ".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".tapefix_cache", ".ipynb_checkpoints",
}  # fmt: skip
_ROOT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "tapefix.toml", ".git")


@dataclass(frozen=True)
class Project:
    """The user's folder that a run needs, and its files (relative, posix order)."""

    root: Path
    files: tuple[str, ...] = field(repr=False)


@dataclass
class Scratch:
    """One run's own folders; `project` is the copy. Use it as a context manager: it goes away with the run."""

    base: Path
    project: Path
    root: Path
    linked: tuple[str, ...]
    stamps: dict[str, tuple[int, int]] = field(repr=False, default_factory=dict)

    @property
    def temporary(self) -> Path:
        return self.base / "tmp"

    @property
    def events(self) -> Path:
        return self.base / "events"

    def inside(self, path: Path) -> Path:
        """Where a file of the user's lies in the copy; itself, if it is none of the project's."""
        try:
            return self.project / path.relative_to(self.root)
        except ValueError:
            return path

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        for folder, names, _files in os.walk(self.base):  # a run may have taken its own rights away
            for name in names:
                if not os.path.islink(os.path.join(folder, name)):
                    os.chmod(os.path.join(folder, name), 0o700)
        shutil.rmtree(self.base, ignore_errors=True)


def project_root(anchor: Path, cwd: Path) -> Path:
    """The folder that is copied for a target in folder `anchor`: its Git work tree, else its project, else `cwd`
    where that lies above it and is no home or root folder, else `anchor` itself."""
    top = _git(anchor, "rev-parse", "--show-toplevel")
    if top is not None:
        # a folder that Git ignores is no part of what Git would list: it stands for itself
        ignored = _git(anchor, "check-ignore", "--quiet", str(anchor)) is not None
        return anchor if ignored else Path(os.fsdecode(top.rstrip(b"\n"))).resolve()
    too_wide = {Path.home().resolve(), Path(anchor.anchor), Path(tempfile.gettempdir()).resolve()}
    for folder in (anchor, *anchor.parents):
        if folder in too_wide:
            break
        if any((folder / mark).exists() for mark in _ROOT_MARKS):
            return folder
    if (cwd == anchor or cwd in anchor.parents) and cwd not in too_wide:
        return cwd
    return anchor


def read_project(root: Path) -> Project:
    """The files of the project at `root`. Raises TapefixError where they are too many to copy."""
    listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    files = tuple(sorted(_tracked(listed, root) if listed else _walk(root)))
    if len(files) > MOST_FILES:
        raise TapefixError(
            f"{root}: more than {MOST_FILES} files to copy for a run; run tapefix from the project's own folder, "
            "or put the folder under Git with its data ignored"
        )
    return Project(root, files)


def copy(project: Project, overlay: Mapping[Path, bytes | None], copied: int) -> Scratch:
    """A fresh copy, with the contents of `overlay` (absolute paths of the user's; None removes) in place of the files'.

    Of other files than Python at most `copied` bytes are copied; the rest is linked.
    """
    base = Path(tempfile.mkdtemp(prefix="tapefix-")).resolve()
    scratch = Scratch(base, base / (project.root.name or "root"), project.root, ())
    for folder in (scratch.project, scratch.temporary, scratch.events):
        folder.mkdir()
    linked = []
    made = {""}
    for name in project.files:
        source, there = project.root / name, scratch.project / name
        folder_name = os.path.dirname(name)
        if folder_name not in made:
            there.parent.mkdir(parents=True, exist_ok=True)
            made.add(folder_name)
        try:
            size = source.stat().st_size
            if name.endswith(".py") or (size <= LARGE and size <= copied):
                shutil.copy2(source, there)
                os.chmod(there, there.stat().st_mode | 0o600)
                copied -= size if not name.endswith(".py") else 0
            else:
                there.symlink_to(source.resolve())
                linked.append(name)
        except OSError:  # gone meanwhile, not readable, or a dangling link: as if it were not there
            continue
    scratch.linked = tuple(linked)
    for path, content in overlay.items():
        there = scratch.inside(path)
        if there == path:
            raise TapefixError(f"{path}: lies outside the project {project.root}; run tapefix from a folder above both")
        if content is None:
            there.unlink(missing_ok=True)
        else:
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(content)
    return scratch


def _tracked(listed: bytes, root: Path) -> Iterator[str]:
    for name in listed.split(b"\0"):
        if not name:
            continue
        path = os.fsdecode(name)
        if (root / path).is_dir():  # a submodule, or a repository inside this one
            yield from (f"{path.rstrip('/')}/{inner}" for inner in _walk(root / path))
        else:
            yield path


def _walk(root: Path) -> Iterable[str]:
    found: list[str] = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(
            name
            for name in names
            if name not in _SKIPPED and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        )
        base = os.path.relpath(folder, root)
        found += [name if base == "." else os.path.join(base, name) for name in files]
        if len(found) > MOST_FILES:
            break
    return found


def _git(folder: Path, *args: str) -> bytes | None:
    """What git says in the folder; None where there is no git or no work tree."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *args], capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def revision(root: Path, name: str) -> dict[Path, bytes | None] | None:
    """The overlay that makes the work tree at `root` what it was at a Git revision; None if there is no such one."""
    changed = _git(root, "diff", "--name-only", "--no-renames", "-z", name, "--")
    if changed is None:
        return None
    overlay: dict[Path, bytes | None] = {}
    for raw in changed.split(b"\0"):
        if raw:
            path = os.fsdecode(raw)
            overlay[root / path] = _git(root, "show", f"{name}:{path}")
    return overlay
