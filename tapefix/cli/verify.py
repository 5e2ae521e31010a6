"""`tapefix verify`: runs a target and reports each gradient."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tapefix.config import Config
    from tapefix.reading import Tools
    from tapefix.verify import Report
    from tapefix.verify.options import Finder, StaticFinding, VerifyOptions

FORMATS = ("text", "json")


def verify(
    context: typer.Context,
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET [ARGS]...",
            help="script.py and its arguments, package.module:callable, module:ModelClass; or `-- COMMAND`.",
            show_default=False,
        ),
    ] = None,
    output_format: Annotated[str, typer.Option("--output-format", metavar="FORMAT", help="text or json.")] = "text",
    against: Annotated[
        str, typer.Option("--against", metavar="FILE|REV", help="Also run that version, compare forward values.")
    ] = "",
    python: Annotated[str, typer.Option("--python", metavar="PATH", help="The interpreter to run it with.")] = "",
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Stop after so many gradient calls at each place.")
    ] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds until the run is ended.")] = None,
    input_shape: Annotated[
        list[str] | None, typer.Option("--input-shape", metavar="4,10,49", help="For a model class; once an input.")
    ] = None,
    input_dtype: Annotated[
        list[str] | None, typer.Option("--input-dtype", metavar="DTYPE", help="For a model class; once an input.")
    ] = None,
    numeric: Annotated[
        bool, typer.Option("--numeric", help="Also compare a directional derivative with differences.")
    ] = False,
    html: Annotated[
        str, typer.Option("--html", metavar="FILE", help="Also write a page: each path to the loss, each cut.")
    ] = "",
) -> None:
    """Run a program and report each of its gradients: there, None, zero, not finite, and why."""
    import dataclasses

    from tapefix.config import load_config
    from tapefix.errors import TapefixError, nearest
    from tapefix.report import verify_json, verify_text
    from tapefix.runner import load_tools
    from tapefix.verify import verify as run

    if output_format not in FORMATS:
        raise TapefixError(f"unknown output format {output_format!r}{nearest(output_format, FORMATS)}: text or json")
    if html and not Path(html).absolute().parent.is_dir():  # told before the run, which may be long
        raise TapefixError(f"--html {html}: there is no such folder")
    config = load_config(Path.cwd())
    options = dataclasses.replace(
        options_of(config, load_tools(config)),
        against=against,
        numeric=numeric,
        explain_against=bool(html),
        input_shapes=tuple(_shape(text) for text in input_shape) if input_shape else None,
        input_dtypes=tuple(input_dtype) if input_dtype else None,
        args=tuple((target or [])[1:]),
    )
    options = with_limits(options, python, steps, timeout)
    report = run(_target(target, context.obj, config), options)
    if html:
        _write_page(html, report)
    shown = verify_json.to_json(report) if output_format == "json" else verify_text.render(report, Path.cwd())
    sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")
    raise typer.Exit(report.exit_status)


def _write_page(file: str, report: Report) -> None:
    from tapefix.patches.writing import write_files
    from tapefix.report import verify_html

    write_files({file: verify_html.render(report, Path.cwd()).encode()})


def options_of(config: Config, tools: Tools) -> VerifyOptions:
    """The verifier's options as the project's settings want them."""
    from tapefix.verify import VerifyOptions

    options = VerifyOptions(
        configured_python=_python(config),
        find=_finder(tools),
        forward_may_change=config.gates.threshold == "soft",
    )
    return with_limits(options, "", config.verify.steps, config.verify.timeout)


def with_limits(options: VerifyOptions, python: str, steps: int | None, timeout: float | None) -> VerifyOptions:
    """The options, less what the command line says otherwise."""
    import dataclasses

    from tapefix.errors import TapefixError

    if timeout is not None and timeout <= 0:
        raise TapefixError("--timeout wants a number of seconds above 0")
    limits = options.limits if timeout is None else dataclasses.replace(options.limits, wall=timeout)
    return dataclasses.replace(
        options, python=python or options.python, steps=options.steps if steps is None else steps, limits=limits
    )


def _python(config: Config) -> str:
    """The configured interpreter; a path is relative to the file that names it."""
    python = config.verify.python
    return str(config.root / python) if "/" in python and not python.startswith(("/", "~")) else python


def _finder(tools: Tools) -> Finder:
    def find(
        files: Sequence[Path], changed: Mapping[Path, bytes | None] = MappingProxyType({})
    ) -> Iterable[StaticFinding]:
        from tapefix.documents.workspace import Workspace, read_file
        from tapefix.engine import Checked, check_document
        from tapefix.verify import StaticFinding

        texts = {str(path): data for path, data in changed.items()}
        workspace = Workspace(lambda name: texts[name] if name in texts else read_file(name))
        for path in files:
            result = check_document(workspace, str(path), tools)
            for finding in result.findings if isinstance(result, Checked) else ():
                place = finding.place
                repair = finding.fix.applicability.value if finding.fix else ""
                yield StaticFinding(
                    finding.code, place.filename, place.row, place.end_row, message=finding.message, repair=repair
                )

    return find


def _target(target: list[str] | None, command: tuple[str, ...], config: Config) -> str | tuple[str, ...]:
    from tapefix.errors import TapefixError

    if target and command:
        raise TapefixError("give a target or a command after `--`, not both")
    if target:
        return target[0]
    chosen = command or config.verify.command or config.verify.targets[:1]
    if not chosen:
        raise TapefixError("nothing to run: name a script, a module:callable, or a command after `--`")
    return chosen if command or config.verify.command else chosen[0]


def _shape(text: str) -> tuple[int | None, ...]:
    from tapefix.errors import TapefixError

    words = [word for word in re.split(r"[,\s()]+", text) if word]
    if not words or not all(word.isdigit() or word == "None" for word in words):
        raise TapefixError(f"--input-shape wants numbers such as 4,10,49, not {text!r}")
    return tuple(None if word == "None" else int(word) for word in words)
