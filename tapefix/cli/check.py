"""`tapefix check`: findings; nothing is written, nothing of the user's code is run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tapefix.cli import common

if TYPE_CHECKING:
    from tapefix.config import Config
    from tapefix.runner import Run


def check(
    paths: common.Paths = None,
    output_format: Annotated[
        str,
        typer.Option(
            "--output-format", metavar="FORMAT", help="text, concise, json, sarif, github, gitlab or markdown."
        ),
    ] = "text",
    select: common.Select = None,
    ignore: common.Ignore = None,
    extend_select: common.ExtendSelect = None,
    exclude: common.Exclude = None,
    statistics: Annotated[bool, typer.Option("--statistics", help="How often each rule speaks, no findings.")] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Status 0 even where there are findings.")] = False,
    jobs: common.Jobs = 0,
    no_cache: common.NoCache = False,
    stdin_filename: common.StdinFilename = "",
    explain: Annotated[
        str, typer.Option("--explain", metavar="FILE:LINE", help="What the model believes there, and nothing else.")
    ] = "",
) -> None:
    """Find the lines where gradients are cut."""
    from tapefix.errors import TapefixError, nearest
    from tapefix.report import FORMATS, render
    from tapefix.report.text import statistics as counted

    if output_format not in FORMATS:
        raise TapefixError(
            f"unknown output format {output_format!r}{nearest(output_format, FORMATS)}; there are {', '.join(FORMATS)}"
        )
    config = common.settings(paths or ["."], select, ignore, extend_select, exclude)
    if explain:
        sys.stdout.write(_explained(explain))
        return
    run, failed = _run(paths or ["."], config, stdin_filename, jobs, cached=not no_cache)
    sys.stdout.write(counted(run) if statistics else render(run, output_format, Path.cwd()))
    if failed:
        raise typer.Exit(2)
    raise typer.Exit(1 if run.findings and not exit_zero else 0)


def _run(paths: list[str], config: Config, stdin_filename: str, jobs: int, *, cached: bool) -> tuple[Run, bool]:
    from tapefix.engine import check_document
    from tapefix.runner import check_files, gather, load_tools, open_cache

    tools = load_tools(config)  # first, so that a wrong rule code is told before anything else
    found, workspace = common.inputs(paths, config, stdin_filename)
    if paths == ["-"]:
        run = gather([check_document(workspace, name, tools) for name in found.files], workspace)
    else:
        cache = open_cache(config) if cached else None
        run = gather(check_files(found.files, config, jobs=jobs, cache=cache), workspace)
    return run, common.tell_the_rest(run, found.named)


def _explained(where: str) -> str:
    """What the model believes about a line."""
    import os

    from tapefix import flow
    from tapefix.documents.workspace import Workspace
    from tapefix.errors import TapefixError

    filename, _, row = where.rpartition(":")
    if not filename or not row.isdigit() or int(row) < 1:
        raise TapefixError(f"--explain wants FILE:LINE, such as train.py:33, not {where!r}")
    workspace = Workspace()
    try:
        document = workspace.open(os.path.abspath(filename))
    except FileNotFoundError:
        raise TapefixError(f"{filename}: no such file") from None
    if int(row) > document.rows:
        raise TapefixError(f"{filename} has {document.rows} lines, no line {row}")
    model = flow.understand(document, flow.RepositoryLoader(workspace), thorough=True)
    lines = model.explain(int(row)) or ["nothing is known of this line"]
    return "".join(f"{line}\n" for line in [f"{int(row)} | {document.line(int(row)).strip()}", *lines])
