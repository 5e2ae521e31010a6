"""`tapefix verify`: runs a target and reports each gradient."""

from __future__ import annotations

import typer


def verify(context: typer.Context) -> None:
    """Run a program and report each of its gradients."""
    raise typer.Exit(2)
