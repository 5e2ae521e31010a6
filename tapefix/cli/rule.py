"""`tapefix rule`: the catalogue, or one rule's page."""

from __future__ import annotations

from typing import Annotated

import typer


def rule(
    code: Annotated[str | None, typer.Argument(help="A rule's code, such as TAP101.", show_default=False)] = None,
) -> None:
    """Show all rules, or what one of them is about."""
    from tapefix.errors import TapefixError, nearest
    from tapefix.registry import load_codemods, page

    codemods = {codemod.code: codemod for codemod in load_codemods()}
    if code is None:
        for one in codemods.values():
            typer.echo(f"{one.code}  {one.name}: {page(one).split(chr(10))[0]}")
        return
    chosen = codemods.get(code.upper())
    if chosen is None:
        raise TapefixError(f"no rule {code!r}{nearest(code.upper(), codemods)}; `tapefix rule` lists them all")
    typer.echo(f"{chosen.code} {chosen.name}\n\n{page(chosen)}")
