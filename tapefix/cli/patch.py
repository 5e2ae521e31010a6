"""`tapefix patch`: applies a diff that `tapefix apply --patch` made, or undoes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def patch(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The diff; `-` is standard input.")],
    reverse: Annotated[bool, typer.Option("--reverse", help="Undo it.")] = False,
) -> None:
    """Apply a diff to the files it names, hunk by hunk; paths are relative to the current folder."""
    from tapefix.documents.workspace import read_file
    from tapefix.errors import TapefixError
    from tapefix.patches import apply_patch, write_files

    diff = sys.stdin.buffer.read() if file == "-" else read_file(file)
    if diff is None:
        raise TapefixError(f"{file}: cannot be read; give the file that `tapefix apply --patch` wrote")
    try:
        patched = apply_patch(diff, read_file, reverse=reverse)
    except TapefixError as error:
        raise TapefixError(f"{file}: {error}") from error
    write_files({str(Path(name)): data for name, data in patched.files.items()})
    for name in patched.files:
        typer.echo(f"{name}  {'undone' if reverse else 'patched'}")
    for reject in patched.rejects:
        typer.echo(f"{reject.filename}: hunk {reject.hunk} (line {reject.line}) rejected: {reject.reason}", err=True)
    if patched.rejects:
        raise typer.Exit(1)
