"""Runs fixture programs in forks of one TensorFlow process and records what their gradient calls gave.

The recorder is the tests' own: it shares nothing with tapefix, so that the two can disagree.

    with ProgramRunner() as runner:
        record = runner.run(path)

A record holds
    error   "Type: message" that ended the program, or None
    calls   [{line, none, norms, loss}] in the order of the calls: the sources without a gradient by name, the
            Euclidean norm of each gradient that is there, in the order of the sources, and the sum of the target.
            A call inside a graph is recorded when it is traced, with the values of its first run.
`slope` compares a program's first gradient with a numerical derivative of its loss.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Dict  # noqa: UP035

TIMEOUT_S = 60
MOST_CALLS = 100
#: steps of the central difference: the first that agrees counts (kinks want a small one, float32 a large one)
STEPS = (1e-2, 2e-3, 5e-2)

Record = Dict[str, Any]  # noqa: UP006 (runs on Python 3.8)


def interpreter() -> str | None:
    """The interpreter whose TensorFlow runs the programs: TAPEFIX_TEST_PYTHON, else this one if it has TensorFlow."""
    chosen = os.environ.get("TAPEFIX_TEST_PYTHON")
    if chosen:
        return chosen
    return sys.executable if importlib.util.find_spec("tensorflow") else None


class ProgramRunner:
    """A warm process that imported TensorFlow; every program runs in a fork of it."""

    def __init__(self, python: str | None = None) -> None:
        self._process = subprocess.Popen(
            [python or interpreter() or sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> ProgramRunner:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(TIMEOUT_S)

    def run(self, script: pathlib.Path, **options: Any) -> Record:
        """The record of one program; see the module's docstring."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps({"script": str(script), **options}), file=self._process.stdin, flush=True)
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the runner died (exit {self._process.wait()}) at {script}")
        return json.loads(said)

    def slope(self, script: pathlib.Path) -> tuple[float, list[float]]:
        """The first gradient along itself, and central differences of the loss in the same direction.

        Every float Variable among the sources moves at once, each by its own gradient brought to length one, so the
        first number is the sum of the gradients' norms. A difference is tried for each of STEPS.
        """
        with tempfile.TemporaryDirectory() as folder:
            direction = os.path.join(folder, "direction.npz")
            seen = self.run(script, save=direction)
            at = next((k for k, call in enumerate(seen["calls"]) if call["moved"]), None)
            if at is None:
                raise LookupError(f"{script}: no gradient call with Variables as sources")
            differences = []
            for step in STEPS:
                ends = []
                for nudge in (step, -step):
                    moved = self.run(script, load=direction, nudge=nudge, stop=at)
                    if moved["error"] or len(moved["calls"]) <= at:
                        raise RuntimeError(f"{script}: {moved['error']} after a nudge of {nudge}")
                    ends.append(moved["calls"][at]["loss"])
                differences.append((ends[0] - ends[1]) / (2 * step))
                if close(seen["calls"][at]["moved"], differences[-1]):
                    break
        return seen["calls"][at]["moved"], differences


def close(slope: float, difference: float) -> bool:
    """Whether a gradient and a difference agree as well as float32 lets them."""
    return abs(slope - difference) <= 0.02 * abs(slope) + 2e-4


# The rest runs in the interpreter that has TensorFlow.


def _count_variables(tf: Any, nudge: float, direction: Any) -> None:
    """Numbers float Variables as they are made; those with a direction start a little further along it."""
    from tensorflow.python.ops import resource_variable_ops

    made = 0
    construct = resource_variable_ops.ResourceVariable.__init__

    def counted(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        construct(self, *args, **kwargs)
        if not self.dtype.is_floating:
            return
        self._fixture_number = str(made)
        made += 1
        if direction is not None and self._fixture_number in direction:
            with tf.init_scope():
                self.assign_add(tf.constant(nudge * direction[self._fixture_number], self.dtype, self.shape))

    resource_variable_ops.ResourceVariable.__init__ = counted


def _record_gradients(tf: Any, script: str, calls: list[Record], save: str | None, stop: int | None) -> None:
    """Wraps GradientTape.gradient so that calls from the program are recorded; it ends after call `stop`."""
    import numpy as np

    try:
        from tensorflow.python.eager import backprop, record

        stop_recording = record.stop_recording
    except ImportError:  # before TensorFlow 2.12
        from tensorflow.python.eager import backprop, tape

        stop_recording = tape.stop_recording

    real = backprop.GradientTape.gradient

    def line_in_script() -> int | None:
        frame: Any = sys._getframe(2)
        while frame and os.path.abspath(frame.f_code.co_filename) != script:
            frame = frame.f_back
        return frame and frame.f_lineno

    def name(source: Any, position: int) -> str:
        if not hasattr(source, "assign"):
            return f"#{position}"
        return str(getattr(source, "path", None) or source.name)

    def judge(call: Record, numbers: list[str | None], loss: Any, *gradients: Any) -> None:
        if call["loss"] is not None:
            return
        norms = [float(np.linalg.norm(np.ravel(g).astype(np.complex128))) for g in gradients]
        call.update(loss=float(loss), norms=norms)
        known = {n: (g, norm) for n, g, norm in zip(numbers, gradients, norms) if n and norm > 0}
        call["moved"] = sum(norm for _, norm in known.values())
        if save and known and not os.path.exists(save):
            np.savez(save, **{n: g / norm for n, (g, norm) in known.items()})

    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        line = line_in_script()
        flat = tf.nest.flatten(sources)
        result = real(self, target, sources, *args, **kwargs)
        if line is None or len(calls) >= MOST_CALLS:
            return result
        pairs = list(zip(flat, tf.nest.flatten(result)))
        if not pairs:
            calls.append({"line": line, "none": ["(no sources)"], "norms": [], "loss": None, "moved": 0.0})
            return result
        call: Record = {
            "line": line,
            "none": [name(s, k) for k, (s, g) in enumerate(pairs) if g is None],
            "norms": [],
            "loss": None,
            "moved": 0.0,
        }
        calls.append(call)
        there = [(getattr(s, "_value", s), g) for s, g in pairs if g is not None]
        numbers = [getattr(s, "_fixture_number", None) for s, _ in there]
        with stop_recording():
            parts = [t for t in tf.nest.flatten(target) if hasattr(t, "dtype")]
            if not parts:
                return result
            loss = tf.add_n([tf.reduce_sum(tf.cast(t, tf.float64)) for t in parts])
            values = [loss, *(tf.convert_to_tensor(g) for _, g in there)]
            if tf.executing_eagerly():
                judge(call, numbers, *(v.numpy() for v in values))
                if len(calls) - 1 == stop:
                    raise SystemExit
            else:
                tf.numpy_function(lambda *seen: judge(call, numbers, *seen), values, [])
        return result

    backprop.GradientTape.gradient = gradient
    compile_model = tf.keras.Model.compile

    def compile_without_xla(self: Any, *args: Any, **kwargs: Any) -> Any:  # XLA can't call back into Python
        kwargs["jit_compile"] = False
        return compile_model(self, *args, **kwargs)

    tf.keras.Model.compile = compile_without_xla


def _run_here(tf: Any, order: Record) -> Record:
    """Runs the program in this (forked) process."""
    import runpy
    import signal

    import numpy as np

    script = os.path.abspath(order["script"])
    calls: list[Record] = []
    error = None
    direction = dict(np.load(order["load"])) if order.get("load") else None
    _count_variables(tf, order.get("nudge", 0.0), direction)
    _record_gradients(tf, script, calls, order.get("save"), order.get("stop"))
    os.chdir(os.path.dirname(script))
    sys.argv = [script]
    sys.path.insert(0, os.path.dirname(script))

    def late(*_: object) -> None:
        raise TimeoutError(f"longer than {TIMEOUT_S} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(TIMEOUT_S)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        error = None if stop.code in (0, None) else f"SystemExit: {stop.code}"
    except BaseException as failure:
        error = f"{type(failure).__name__}: {failure}"
    return {"error": error, "calls": calls}


def _serve() -> None:
    """Reads orders (JSON, one a line) from standard input and answers each with a record."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ.setdefault("MPLBACKEND", "Agg")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    import tensorflow as tf

    tf.keras.layers.Dense  # noqa: B018 (loads Keras before the forks)
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                said = json.dumps(_run_here(tf, json.loads(line)))
                with os.fdopen(write, "w") as pipe:
                    pipe.write(said)
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        print(said or json.dumps({"error": "the process died", "calls": []}), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
