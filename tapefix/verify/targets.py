"""What is to be run: a script, a callable, a model class, a module, or any command."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tapefix.errors import TapefixError, nearest

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
#: bases that a layer or model class has, by their last name
_MODEL_BASES = {"Model", "Layer", "Module", "Sequential", "Functional"}


@dataclass(frozen=True)
class Script:
    """A Python file, run as `python FILE ARGS`."""

    path: Path
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Function:
    """A function without required arguments that trains, or returns a loss: `package.module:name`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@dataclass(frozen=True)
class ModelClass:
    """A model or layer that is called on made-up input: `package.module:Name`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@dataclass(frozen=True)
class Command:
    """Any command, such as `pytest tests` or `python -m package.train`; its Python processes are observed."""

    argv: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.argv)


Target = Script | Function | ModelClass | Command


def parse_target(
    text: str | Sequence[str] | Path, cwd: Path, args: tuple[str, ...] = (), model: bool = False
) -> Target:
    """The target that a person names: a path, `module:name`, or (a sequence of words) a command.

    `model` says that an input shape was given, so that the name is a class even where its source is not found.
    Raises TapefixError for what is neither.
    """
    if isinstance(text, Path):
        text = str(text)
    if not isinstance(text, str):
        if not text:
            raise TapefixError("no command after `--`; give one, such as `-- pytest tests/test_model.py`")
        return Command(tuple(text))
    path = cwd / text
    if path.is_file():
        if path.suffix == ".ipynb":
            raise TapefixError(f"{text}: notebooks can be checked, not yet verified; export it as a script first")
        return Script(path.resolve(), args)
    if path.is_dir():
        raise TapefixError(f"{text}: is a folder; name a script, `module:callable`, or a command after `--`")
    if _DOTTED.fullmatch(text):
        module, name = text.split(":")
        return _member(module, name, cwd, model)
    if text.endswith((".py", ".ipynb")) or os.sep in text:
        raise TapefixError(f"{text}: no such file")
    raise TapefixError(
        f"{text!r} is no target: give a script, `package.module:callable`, `module:ModelClass --input-shape 4,10`, "
        "or a command after `--`"
    )


def module_file(module: str, folders: Iterable[Path]) -> Path | None:
    """The file of a module below one of the folders (or their `src`), as an import from there would find it."""
    parts = module.split(".")
    for folder in folders:
        for base in (folder, folder / "src"):
            for candidate in (base.joinpath(*parts).with_suffix(".py"), base.joinpath(*parts, "__init__.py")):
                if candidate.is_file():
                    return candidate
    return None


def _member(module: str, name: str, cwd: Path, model: bool) -> Target:
    file = module_file(module, (cwd, *cwd.parents[:3]))
    if file is None:
        return ModelClass(module, name) if model or name[:1].isupper() else Function(module, name)
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise TapefixError(f"{file}: does not parse as Python 3: {error}") from error
    known = _names(tree)
    first, last = name.split(".")[0], name.split(".")[-1]
    if first not in known and not any(isinstance(n, ast.alias) and n.name == "*" for n in ast.walk(tree)):
        raise TapefixError(f"{module} ({file}) defines no {first!r}{nearest(first, known)}")
    found = known.get(name)
    if isinstance(found, ast.ClassDef):
        is_model = model or _looks_like_a_model(found)  # calling an ordinary class is what its name asks for
    else:
        is_model = isinstance(found, ast.Call) or (found is None and (model or last[:1].isupper()))
    return ModelClass(module, name) if is_model else Function(module, name)


def _names(tree: ast.Module) -> dict[str, ast.AST | None]:
    """The names that a module defines: functions, classes, and what is assigned (by its value); None if unknown."""
    known: dict[str, ast.AST | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            known.setdefault(node.name, node)
        elif isinstance(node, ast.Assign):
            known.update({t.id: node.value for t in node.targets if isinstance(t, ast.Name)})
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.setdefault(node.id, None)
        elif isinstance(node, ast.alias):
            known.setdefault(node.asname or node.name.split(".")[0], None)
    return known


def _looks_like_a_model(node: ast.ClassDef) -> bool:
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    bases = {ast.unparse(base).split(".")[-1] for base in node.bases}
    return bool(methods & {"call", "__call__"}) or bool(bases & _MODEL_BASES) or bool(bases)
