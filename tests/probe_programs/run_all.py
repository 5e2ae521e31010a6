"""Runs programs under the probe, each in a fork of one process that has imported TensorFlow.

    python run_all.py MODE PROGRAM...     one JSON object a line: {"program", "status", "events"}

Standard library only, Python 3.8: it runs in any interpreter that has TensorFlow.
"""

import importlib.util
import json
import os
import pathlib
import signal
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
PROBE = pathlib.Path(__file__).resolve().parents[2] / "tapefix" / "probe" / "__main__.py"
TIMEOUT_S = 120


def probe():
    spec = importlib.util.spec_from_file_location("probe_main", PROBE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(mode, program, **more):
    """Exit status and events of one program."""
    program = os.path.abspath(program)
    handle, out = tempfile.mkstemp()
    os.close(handle)
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            signal.alarm(TIMEOUT_S)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.chdir(os.path.dirname(program))
            job = {"mode": mode, "target": {"kind": "script", "path": program, "args": []}, "out": out, "steps": 3}
            status = probe().run({**job, "seed": 0, "root": os.path.dirname(program), **more})
        finally:
            os._exit(status)
    _, ended = os.waitpid(pid, 0)
    with open(out, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    os.unlink(out)
    return {"program": program, "status": ended, "events": events}


if __name__ == "__main__":
    import tensorflow as tf

    tf.keras.layers.Dense  # noqa: B018 (Keras is loaded before the fork)
    for path in sys.argv[2:]:
        print(json.dumps(run(sys.argv[1], path)), flush=True)
