"""Loads the probe from its folder, without tapefix being installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any


def load_probe(folder: str, everything: bool = False) -> Any:
    """The start module of the probe (tapefix/probe/__main__.py), loaded and ready: call its `run(job)`.

    `everything` imports all of its modules now, so that forks need not.
    """
    spec = importlib.util.spec_from_file_location("_tapefix_probe_start", os.path.join(folder, "__main__.py"))
    if spec is None or spec.loader is None:
        raise ImportError("no probe in %s" % folder)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    package = module.load()
    if everything:
        for name in sorted(os.listdir(folder)):
            stem, end = os.path.splitext(name)
            if end == ".py" and not stem.startswith("__"):
                importlib.import_module("%s.%s" % (package.__name__, stem))
    return module
