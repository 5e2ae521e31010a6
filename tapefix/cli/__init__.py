"""The command line: one module a command. Nothing else imports it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

#: commands that take another command after `--`
WITH_COMMAND = ("apply", "verify")


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Always ends by SystemExit, with the status of the command."""
    from tapefix.cli.app import app
    from tapefix.errors import TapefixError

    own, command = _split(list(sys.argv[1:] if arguments is None else arguments))
    debug = "--debug" in own
    own = [word for word in own if word != "--debug"]
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(args=own, obj=command, prog_name="tapefix")
    except TapefixError as error:
        if debug:
            raise
        _fail(str(error))
    except Exception as error:
        if debug:
            raise
        _fail(f"internal error: {type(error).__name__}: {error}; run again with --debug and report it")


def _split(arguments: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words for tapefix, and the command after `--` where there may be one."""
    if "--" not in arguments or next((w for w in arguments if not w.startswith("-")), "") not in WITH_COMMAND:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], tuple(arguments[at + 1 :])


def _fail(message: str) -> None:
    print(f"tapefix: {message}", file=sys.stderr)
    raise SystemExit(2)
