"""What verification costs beside running the programs: ratios, measured in one run.

    python benchmarks/verify_cost.py [--cases 30] [--steps-only] [--json FILE]

1. Fixture programs (tests/fixtures/TAP*/*/before.py and fixed.py) are run as plain Python processes, and the same
   pairs are verified before and after by `prove`, turn by turn, so that other load on the machine hits both.
   Wanted: at most a fifth (importing TensorFlow into the warm process is counted).
2. A training step is timed inside one program, alone and under the probe. Wanted: recording at most 1.1 times,
   explaining at most 5 times
   (both of an eager step). The least disturbed of three rounds counts.
Needs an interpreter with TensorFlow: the one that runs this, or --python.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tapefix.verify import Evidence, Proven, Runner, VerifyOptions, prove
from tapefix.verify.interpreter import choose
from tapefix.verify.options import Limits
from tapefix.verify.verify import as_target, project_of

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"

#: a step that is neither tiny nor long; steps are timed one by one, after a warm-up, and reported by their lower
#: quartile: what else runs on the machine makes steps longer, never shorter
STEP = """
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
times = sorted(times[len(times) // 4 :])  # the first quarter warms up
print("step", times[len(times) // 4], flush=True)
tape = tf.GradientTape()
"""


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


def pairs(python: str, count: int) -> dict[str, object]:
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


def steps(python: str, graph: bool, rounds: int = 3) -> dict[str, float]:
    """How many times as long a training step takes under the probe.

    The gradients of every step are measured, where a run would measure those of the first three and end.
    """
    count = {"plain": 60, "record": 60, "explain": 20}
    seen: dict[str, list[float]] = {mode: [] for mode in count}
    options = VerifyOptions(python=python, steps=10_000, limits=Limits(wall=300))
    with Runner(choose(python, "", FIXTURES, options.environ), options) as runner:
        for _ in range(rounds):
            for mode, number in count.items():
                text = STEP.replace("DECORATE", "@tf.function" if graph else "").replace("STEPS", str(number))
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder).resolve() / "step.py"
                    path.write_text(text, encoding="utf-8")
                    if mode == "plain":
                        done = subprocess.run([python, str(path)], capture_output=True, text=True, check=True)
                        output = done.stdout
                    else:
                        target = as_target(path, options)
                        output = runner.observe(project_of(target, options), target, mode).ended.output
                found = re.search(r"^step (\S+)$", output, re.MULTILINE)
                if found is None:
                    raise SystemExit(f"the step was not timed ({mode}):\n{output[-2000:]}")
                seen[mode].append(float(found.group(1)))
    base = min(seen["plain"])
    return {"plain_ms": round(1000 * base, 3)} | {
        mode: round(min(seen[mode]) / base, 2) for mode in count if mode != "plain"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--steps-only", action="store_true")
    parser.add_argument("--pairs-only", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    result: dict[str, object] = {}
    if not given.steps_only:
        result["pairs"] = pairs(given.python, given.cases)
    if not given.pairs_only:
        result["eager step"] = steps(given.python, graph=False)
        result["graph step"] = steps(given.python, graph=True)
    text = json.dumps(result, indent=2)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
