"""Starts the probe: `python .../tapefix/probe JOB.json`, with an interpreter that need not have tapefix installed.

In a warm process that has imported TensorFlow, load this file and call `run(job)` after the fork.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from types import ModuleType
from typing import Any, Mapping

_PACKAGE = "_tapefix_probe"  # a name of its own: the user's project may have modules named like ours


def load() -> ModuleType:
    """The probe as a package under a private name, from the folder of this file."""
    if _PACKAGE not in sys.modules:
        folder = os.path.dirname(os.path.abspath(__file__))
        spec = importlib.util.spec_from_file_location(
            _PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"no probe in {folder}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = module
        spec.loader.exec_module(module)
    return sys.modules[_PACKAGE]


def run(job: Mapping[str, Any]) -> int:
    """Runs one job in this process; returns the exit status of the program."""
    load()
    from importlib import import_module

    return int(import_module(f"{_PACKAGE}.session").run(job))


def main() -> int:
    """Reads the job named on the command line and runs it."""
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]
    return run(job)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
