"""The commands in one application. Imports nothing heavy: `tapefix --help` must come at once."""

from __future__ import annotations

from typing import Annotated

import typer

from tapefix.cli.apply import apply
from tapefix.cli.check import check
from tapefix.cli.patch import patch
from tapefix.cli.rule import rule
from tapefix.cli.verify import verify

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,  # rich is slow to import
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tapefix {version('tapefix')}")
        raise typer.Exit


@app.callback()
def tapefix(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    """Finds the line where your TensorFlow gradient is cut, rewrites it, and proves the repair by running it."""


app.command()(check)
app.command()(apply)
app.command()(patch)
app.command()(verify)
app.command()(rule)
