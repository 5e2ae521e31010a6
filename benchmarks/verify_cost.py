"""What verification costs beside running the programs: ratios, measured in one run.

    python benchmarks/verify_cost.py [--cases 30] [--rounds 3] [--steps-only | --pairs-only] [--json FILE]

1. Fixture programs (tests/fixtures/TAP*/*/before.py and fixed.py) are run as plain Python processes, and the same
   pairs are verified before and after by `prove`, turn by turn, so that other load on the machine hits both.
   Wanted: at most a fifth (importing TensorFlow into the warm process is counted).
2. A training step, eager and in a `tf.function`, is timed in processes that run side by side, alone, recorded and
   explained: one step of each in turn, so that other load on the machine hits all alike. "Every step measured": the
   gradients of all steps are measured, which a run does at the first `--steps` (3) calls of a place only; of the
   "later steps" only the first three were. Wanted of recording: at most 1.1 times, of explaining an eager step: at
   most 5 times.
Needs an interpreter with TensorFlow: the one that runs this, or --python.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import tapefix.probe
from tapefix.verify import Evidence, Proven, Runner, VerifyOptions, prove
from tapefix.verify.interpreter import choose
from tapefix.verify.options import Limits
from tapefix.verify.verify import as_target, project_of

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"

STEPS, EXPLAINED_STEPS = 150, 20
RUN = 50  # steps of a run as people make it
PROBE = Path(tapefix.probe.__file__).parent

#: a step that is neither tiny nor long, for each line of input; the gradient call that is never reached keeps the run
#: from ending
PROGRAM = """
import sys
import time

import tensorflow as tf

tf.keras.utils.set_random_seed(0)
hidden = [tf.keras.layers.Dense(256, activation="relu") for _ in range(6)]
model = tf.keras.Sequential([*hidden, tf.keras.layers.Dense(1)])
x, y = tf.random.normal([128, 64]), tf.random.normal([128, 1])
model(x)
optimizer = tf.keras.optimizers.Adam(1e-3)
DECORATE
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for _ in sys.stdin:
    begun = time.perf_counter()
    float(step())
    print("step", time.perf_counter() - begun, flush=True)
if model is None:
    tf.GradientTape().gradient(y, x)
"""


@dataclass(frozen=True)
class Mode:
    """A way to run the program: the probe's mode ("" without it), `--steps`, and how many steps are timed."""

    probe: str = ""
    measured: int = 0
    steps: int = STEPS


MODES = {
    "plain": Mode(),
    "recorded, every step measured": Mode("record", 10_000),
    "recorded, later steps": Mode("record", 3),
    "explained": Mode("explain", 10_000, EXPLAINED_STEPS),
}


def chosen(count: int) -> list[Path]:
    """So many cases, the same number of each rule as far as they go."""
    by_rule = [sorted(path.parent for path in rule.glob("*/fixed.py")) for rule in sorted(FIXTURES.glob("TAP*"))]
    turns = [cases[turn] for turn in range(max(map(len, by_rule))) for cases in by_rule if turn < len(cases)]
    return turns[:count]


def plain(python: str, path: Path) -> float:
    """Seconds of one program as a process of its own, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        subprocess.run([python, str(path)], cwd=folder, capture_output=True, check=False, timeout=300)
        return time.perf_counter() - begun


def pairs(python: str, count: int) -> dict[str, float]:
    """Plain and verified seconds over all cases."""
    options = VerifyOptions(python=python, cwd=FIXTURES, limits=Limits(wall=120))
    alone = verified = 0.0
    proven = 0
    cases = chosen(count)
    begun = time.perf_counter()
    with Runner(choose(python, "", FIXTURES, options.environ), options) as runner:
        _first(runner, options, cases[0])
        warm_up = time.perf_counter() - begun
        verified += warm_up
        for case in cases:
            alone += plain(python, case / "before.py") + plain(python, case / "fixed.py")
            begun = time.perf_counter()
            evidence = _proven(runner, options, case)
            verified += time.perf_counter() - begun
            proven += isinstance(evidence, Proven)
            print(f"{case.parent.name}/{case.name}: {type(evidence).__name__} "
                  f"plain {alone:.1f} s, verified {verified:.1f} s", file=sys.stderr)  # fmt: skip
    return {
        "programs": 2 * len(cases),
        "plain_s": round(alone, 2),
        "verified_s": round(verified, 2),
        "of_that_import_s": round(warm_up, 2),
        "ratio": round(verified / alone, 3),
        "proven": proven,
    }


def _first(runner: Runner, options: VerifyOptions, case: Path) -> None:
    """Starts the warm process by a run that does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.py"
        path.write_text("", encoding="utf-8")
        target = as_target(path, options)
        runner.observe(project_of(target, options), target, "record")


def _proven(runner: Runner, options: VerifyOptions, case: Path) -> Evidence:
    """The evidence on one pair, in a folder that holds nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "program.py"
        before, after = (case / "before.py").read_bytes(), (case / "fixed.py").read_bytes()
        path.write_bytes(before)
        return prove({path: before}, {path: after}, (), options, runner).files[str(path)]


def steps(python: str, graph: bool, rounds: int) -> dict[str, float]:
    """Milliseconds of a step by itself, and the other modes as multiples of it.

    Of a mode counts the lower quartile of its steps (the first tenth warms up): what else runs on the machine makes
    steps longer, never shorter. The run is the least sum over the steps of a round but the first, which traces.
    """
    seen: dict[str, list[float]] = {name: [] for name in MODES}
    whole: dict[str, float] = dict.fromkeys(MODES, math.inf)
    for _ in range(rounds):
        for name, seconds in timed(python, graph).items():
            seen[name] += seconds[len(seconds) // 10 :]
            whole[name] = min(whole[name], sum(seconds[1:RUN]))
    typical = {name: sorted(seconds)[len(seconds) // 4] for name, seconds in seen.items()}
    base = typical.pop("plain")
    result = {"plain_ms": round(1000 * base, 3)}
    result |= {name: round(value / base, 3) for name, value in typical.items()}
    return result | {f"recorded, run of {RUN}": round(whole["recorded, later steps"] / whole["plain"], 3)}


def timed(python: str, graph: bool) -> dict[str, list[float]]:
    """Seconds of each step of each mode: one of each in turn, in an order that changes."""
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(started(python, mode, graph)) for name, mode in MODES.items()}
        seconds: dict[str, list[float]] = {name: [] for name in MODES}
        for turn in range(STEPS):
            names = [name for name, mode in MODES.items() if turn < mode.steps]
            random.shuffle(names)
            for name in names:
                seconds[name].append(one_step(running[name]))
        return seconds


@contextlib.contextmanager
def started(python: str, mode: Mode, graph: bool) -> Iterator[subprocess.Popen[str]]:
    """A process that makes a step whenever it is told to."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "step.py"
        path.write_text(PROGRAM.replace("DECORATE", "@tf.function" if graph else ""), encoding="utf-8")
        job = path.with_name("job.json")
        target = {"kind": "script", "path": str(path)}
        about = {"mode": mode.probe, "steps": mode.measured, "seed": 0, "patience": math.inf, "root": str(path.parent)}
        job.write_text(json.dumps({"target": target, "out": str(path.with_name("events")), **about}), encoding="utf-8")
        command = [python, str(PROBE / "__main__.py"), str(job)] if mode.probe else [python, str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, text=True, bufsize=1, **pipes)  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def one_step(process: subprocess.Popen[str]) -> float:
    """Seconds of the process's next step."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    for line in process.stdout:
        if line.startswith("step "):
            return float(line.split()[1])
    raise SystemExit(f"a process ended before its step: {process.args}")


#: what is wanted of a figure; an explained run is eager, so of a graph's step nothing is
WANTED = {
    ("pairs", "ratio"): 0.2,
    ("eager step", "recorded, every step measured"): 1.1,
    ("eager step", "recorded, later steps"): 1.1,
    ("eager step", "recorded, run of 50"): 1.1,
    ("eager step", "explained"): 5.0,
    ("graph step", "recorded, every step measured"): 1.1,
    ("graph step", "recorded, later steps"): 1.1,
    ("graph step", "recorded, run of 50"): 1.1,
}


def table(result: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """All figures, a line each, with what is wanted of them."""
    for group, figures in result.items():
        for name, value in figures.items():
            wanted = WANTED.get((group, name))
            verdict = "" if wanted is None else f"  wanted {wanted:g}" + ("" if value <= wanted else ", MISSED")
            yield f"{group:11} {name:32} {value:10g}{verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps-only", action="store_true")
    parser.add_argument("--pairs-only", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    result: dict[str, dict[str, float]] = {}
    if not given.steps_only:
        result["pairs"] = pairs(given.python, given.cases)
    if not given.pairs_only:
        result["eager step"] = steps(given.python, False, given.rounds)
        result["graph step"] = steps(given.python, True, given.rounds)
    text = json.dumps(result, indent=2)
    print("\n".join(table(result)))
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
