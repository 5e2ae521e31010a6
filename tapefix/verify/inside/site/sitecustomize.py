"""First thing a Python process of a verified command runs: hooks up the probe, then goes on as before.

The folder of this file is put in front of PYTHONPATH. A `sitecustomize` that the interpreter has of its own is
run afterwards. Python 3.8 and newer, standard library only; where anything fails the program runs unobserved.
"""

import json
import os
import sys


def _observe() -> None:
    path = os.environ.get("TAPEFIX_RUN")
    if not path:
        return
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    sys.path.insert(0, run["inside"])
    try:
        import guard  # type: ignore[import-not-found]
        import load  # type: ignore[import-not-found]
    finally:
        sys.path.remove(run["inside"])
        for name in ("guard", "load"):  # the user may have modules of these names
            sys.modules.pop(name, None)
    guard.install(run)
    if os.environ.pop("TAPEFIX_FIRST", None) is None:  # the first process starts the probe itself
        load.load_probe(run["probe"]).run(run["child"])


def _go_on() -> None:
    """Runs the interpreter's own sitecustomize, if it has one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    _observe()
except Exception as error:
    print("tapefix: this process is not observed: %s: %s" % (type(error).__name__, error), file=sys.stderr)
_go_on()
