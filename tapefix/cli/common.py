"""Options and manners that several commands share."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tapefix.documents.document import UnreadableDocument

if TYPE_CHECKING:
    from tapefix.config import Config
    from tapefix.documents.discovery import Found
    from tapefix.documents.workspace import Workspace
    from tapefix.engine import Failed
    from tapefix.runner import Run

Paths = Annotated[
    list[str] | None,
    typer.Argument(help="Files and folders; `-` is standard input. Default: the current folder.", show_default=False),
]
Select = Annotated[
    list[str] | None, typer.Option("--select", metavar="CODES", help="Only these rules, e.g. TAP101,TAP2.")
]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", metavar="CODES", help="Not these rules.")]
ExtendSelect = Annotated[list[str] | None, typer.Option("--extend-select", metavar="CODES", help="Also these rules.")]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", metavar="PATTERN", help="Not these files, as in .gitignore.")
]
StdinFilename = Annotated[str, typer.Option("--stdin-filename", metavar="FILE", help="What `-` is to be called.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0 is one a core.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write .tapefix_cache.")]


def settings(
    paths: list[str],
    select: list[str] | None,
    ignore: list[str] | None,
    extend_select: list[str] | None,
    exclude: list[str] | None,
) -> Config:
    """The project's settings under those of the command line."""
    from tapefix.config import load_config

    first = Path(os.path.abspath(paths[0])) if paths[0] != "-" else Path.cwd()
    config = load_config(first if first.is_dir() else first.parent)
    return dataclasses.replace(
        config,
        select=_codes(select) or config.select,
        ignore=config.ignore + _codes(ignore),
        extend_select=config.extend_select + _codes(extend_select),
        exclude=config.exclude + tuple(exclude or ()),
    )


def _codes(given: list[str] | None) -> tuple[str, ...]:
    return tuple(code.strip() for item in given or () for code in item.split(",") if code.strip())


def inputs(paths: list[str], config: Config, stdin_filename: str) -> tuple[Found, Workspace]:
    """The files to look at, and the workspace that holds them; `-` is read here."""
    from tapefix.documents.discovery import Found, find_files
    from tapefix.documents.workspace import Workspace
    from tapefix.errors import TapefixError

    if "-" not in paths:
        found = find_files(paths, config.exclude, config.root)
        if not found.files:
            say("warning: no Python file found; give tapefix a .py file or a folder that has some")
        return found, Workspace()
    if paths != ["-"]:
        raise TapefixError("`-` (standard input) cannot be mixed with other paths; run tapefix twice")
    from tapefix.documents.document import Document

    name = os.path.abspath(stdin_filename or "<stdin>")
    document = Document(name, sys.stdin.buffer.read())
    return Found((name,), frozenset({name})), Workspace(documents={name: document})


def say(message: str) -> None:
    """A line for the person, never among the results."""
    print(f"tapefix: {message}", file=sys.stderr)


def tell_the_rest(run: Run, named: frozenset[str]) -> bool:
    """Says on stderr what was not looked at, and why; whether something failed for which the status is 2."""
    from tapefix.report.words import shown

    folder = Path.cwd()
    for skipped in run.skipped:
        say(f"{shown(skipped.filename, folder)}: skipped: {skipped.reason}")
    broken = [*run.failed, *_named_that_do_not_parse(run, named)]
    for failed in broken:
        say(failed.error.replace(failed.filename, shown(failed.filename, folder)))
    for filename, comment in run.unused:
        say(f"{shown(filename, folder)}:{comment.row}: unused `{comment.text}`; remove it")
    for crash in run.crashes:
        say(crash)
    return bool(run.crashes) or any(failed.filename in named for failed in broken)


def _named_that_do_not_parse(run: Run, named: frozenset[str]) -> Iterator[Failed]:
    """A named file that does not parse is an error, also where nothing in it made the engine parse it."""
    from tapefix.engine import Failed

    known = {failed.filename for failed in run.failed}
    for filename in sorted(named - known):
        try:
            _ = run.workspace.open(filename).tree
        except UnreadableDocument as error:
            yield Failed(filename, str(error))
        except FileNotFoundError:
            continue
