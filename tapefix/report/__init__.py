"""What people and machines read: one module a format, each `render(run, folder) -> str`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tapefix.runner import Run

#: output format -> the module that renders it
FORMATS = {
    "text": "text",
    "concise": "concise",
    "json": "findings_json",
    "sarif": "sarif",
    "github": "github",
    "gitlab": "gitlab",
    "markdown": "markdown",
}


def render(run: Run, output_format: str, folder: Path) -> str:
    """A run's findings; file names relative to `folder` where the format wants them so."""
    module = importlib.import_module(f"tapefix.report.{FORMATS[output_format]}")
    return cast("Callable[[Run, Path], str]", module.render)(run, folder)
