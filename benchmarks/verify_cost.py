"""What verification costs beside running the programs: ratios, measured in one run.

    python benchmarks/verify_cost.py [--cases 30] [--rounds 5] [--steps-only | --pairs-only] [--json FILE]

1. Fixture programs (tests/fixtures/TAP*/*/before.py and fixed.py) are run as plain Python processes, and the same
   pairs are verified before and after by `prove`, turn by turn, so that other load on the machine hits both.
   Wanted: at most a fifth (importing TensorFlow into the warm process is counted).
2. A training step is timed inside one program, eager and in a `tf.function`: alone, recorded, and explained, turn by
   turn; the least disturbed of the rounds counts. `measured`: the gradients of every step are measured, which a run
   does at the first `--steps` (3) calls of a place only; `later`: only the first three are. Wanted of recording: at
   most 1.1 times, of explaining an eager step: at most 5 times.
Needs an interpreter with TensorFlow: the one that runs this, or --python.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tapefix.verify import Evidence, Proven, Runner, VerifyOptions, prove
from tapefix.verify.interpreter import choose
from tapefix.verify.options import Limits
from tapefix.verify.verify import as_target, project_of

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"

STEPS = 50
EXPLAINED_STEPS = 20

#: a step that is neither tiny nor long, timed call by call; the gradient call that is never reached keeps the run going
PROGRAM = """
import json
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


times = []
for _ in range(STEPS):
    begun = time.perf_counter()
    float(step())
    times.append(time.perf_counter() - begun)
print("steps", json.dumps(times), flush=True)
if not times:
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

    Of a mode counts the lower quartile of its steps (the first quarter warms up), least over the rounds: what else
    runs on the machine makes steps longer, never shorter. `run of 50` is the sum over all steps, the first among them.
    """
    typical: dict[str, float] = {}
    whole: dict[str, float] = {}
    for _ in range(rounds):
        for name, mode in MODES.items():
            seconds = timed(python, mode, graph)
            warm = sorted(seconds[len(seconds) // 4 :])
            typical[name] = min(typical.get(name, math.inf), warm[len(warm) // 4])
            whole[name] = min(whole.get(name, math.inf), sum(seconds))
    base = typical.pop("plain")
    result = {"plain_ms": round(1000 * base, 3)}
    result |= {name: round(value / base, 3) for name, value in typical.items()}
    return result | {
        f"recorded, run of {STEPS}": round(whole["recorded, later steps"] / whole["plain"], 3),
    }


def timed(python: str, mode: Mode, graph: bool) -> list[float]:
    """Seconds of each step of one run."""
    text = PROGRAM.replace("DECORATE", "@tf.function" if graph else "").replace("STEPS", str(mode.steps))
    options = VerifyOptions(python=python, steps=max(1, mode.measured), limits=Limits(wall=300), warm=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "step.py"
        path.write_text(text, encoding="utf-8")
        if mode.probe:
            with Runner(choose(python, "", FIXTURES, options.environ), options) as runner:
                target = as_target(path, options)
                output = runner.observe(project_of(target, options), target, mode.probe).ended.output
        else:
            output = subprocess.run([python, str(path)], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^steps (\[.*\])$", output, re.MULTILINE)
    if found is None:
        raise SystemExit(f"the steps were not timed ({mode}):\n{output[-2000:]}")
    return [float(second) for second in json.loads(found.group(1))]


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
    parser.add_argument("--rounds", type=int, default=5)
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
