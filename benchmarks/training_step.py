"""What a repaired training step costs beside the original: ratios, measured turn by turn in one run.

    python benchmarks/training_step.py [--rounds 30] [--json FILE]

Each program trains on values that are written in place. It is repaired as `apply` repairs it, and for the last one
(samples times positions, a layer run for each) also as `apply --unsafe-fixes` does, which batches the samples.
A step is the forward pass and `tape.gradient`. The original has less to do there: it computes no gradient beyond the
cut. What the rewrite itself costs is seen in the forward pass. Wanted: that is not slower than the original's.
Needs an interpreter with TensorFlow: the one that runs this.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tapefix.config import Config
from tapefix.documents.workspace import Workspace
from tapefix.engine import fix_documents, is_safe
from tapefix.runner import load_tools

HEAD = """import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

tf.keras.utils.set_random_seed(0)

"""

#: a program defines `forward()`, which gives the loss, and `weights`
PROGRAMS = {
    "recurrent decoder, slices of a Variable": """
BATCH, STEPS, WIDTH = 16, 24, 8


class Decoder(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.cell = layers.GRUCell(32)
        self.out = layers.Dense(WIDTH)

    def call(self, code):
        state = code
        decoded = tf.Variable(tf.zeros([BATCH, STEPS, WIDTH]), trainable=False)
        for t in range(STEPS):
            hidden, _ = self.cell(code, [state])
            state = hidden
            decoded = decoded[:, t, :].assign(self.out(hidden))
        return decoded


encode, decode = layers.Dense(32), Decoder()
series = tf.random.normal([BATCH, STEPS, WIDTH])


def forward():
    code = encode(tf.reshape(series, [BATCH, STEPS * WIDTH]))
    return tf.reduce_mean(tf.square(decode(code) - series)) + 1e-3 * tf.reduce_mean(tf.square(code))


forward()
weights = [*encode.trainable_variables, *decode.trainable_variables]
with tf.GradientTape() as tape:
    loss = forward()
gradients = tape.gradient(loss, weights)
""",
    "table of dynamic programming, cells of a NumPy array": """
N, M, BIG = 12, 12, 1e8
scale = tf.Variable([0.5, 1.5], name="scale")
left, right = tf.random.normal([N]), tf.random.normal([M])


def forward():
    a, b = left * scale[0], right * scale[1]
    table = np.full((N + 1, M + 1), BIG, dtype="float32")
    table[0, 0] = 0.0
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            ways = tf.stack([table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]])
            table[i, j] = tf.square(a[i - 1] - b[j - 1]) - tf.reduce_logsumexp(-ways)
    return tf.convert_to_tensor(table[N, M]) + 0.1 * tf.reduce_sum(tf.square(scale))


weights = [scale]
with tf.GradientTape() as tape:
    loss = forward()
gradients = tape.gradient(loss, weights)
""",
    "state of a filter, a whole Variable": """
STEPS, WIDTH = 40, 16
mix = tf.Variable(0.3 * tf.random.normal([WIDTH, WIDTH]), name="mix")
signal = tf.random.normal([STEPS, WIDTH])


def forward():
    state = tf.Variable(tf.zeros([WIDTH]), trainable=False)
    total = 0.0
    for t in range(STEPS):
        state.assign(tf.tanh(tf.linalg.matvec(mix, signal[t] + 0.5 * state)))
        total += tf.reduce_sum(tf.square(state))
    return total + tf.reduce_sum(tf.square(mix))


weights = [mix]
with tf.GradientTape() as tape:
    loss = forward()
gradients = tape.gradient(loss, weights)
""",
    "samples times positions, nested NumPy arrays": """
SAMPLES, POSITIONS, WIDTH = 24, 6, 8


class Sequence(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.local = layers.Dense(32, activation="relu")
        self.head = layers.Dense(WIDTH)

    def call(self, batch):
        result = np.zeros((batch.shape[0], POSITIONS, WIDTH), dtype=np.float32)
        for j in range(batch.shape[0]):
            steps = np.zeros((POSITIONS, 32), dtype=np.float32)
            for i in range(POSITIONS):
                position = tf.reshape(batch[j, i], (1, WIDTH))
                steps[i, :] = self.local(position)
            result[j, :, :] = self.head(tf.expand_dims(steps, 0))
        return result


model = Sequence()
batch = tf.random.normal([SAMPLES, POSITIONS, WIDTH])


def forward():
    return tf.reduce_mean(tf.square(model(batch) - batch))


forward()
weights = model.trainable_variables
with tf.GradientTape() as tape:
    loss = forward()
gradients = tape.gradient(loss, weights)
""",
}


def repaired(text: str, unsafe: bool) -> str:
    """What `apply` makes of a program."""
    name = str(Path("program.py").absolute())
    tools = load_tools(dataclasses.replace(Config(), unsafe_fixes=unsafe))
    workspace = Workspace(lambda filename: text.encode() if filename == name else None)
    fixed = fix_documents(workspace, [name], tools, (lambda _: True) if unsafe else is_safe)
    return fixed.workspace.open(name).text


def started(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program.py", "exec"), space)
    return space


def step_of(space: dict[str, Any]) -> Callable[[], None]:
    tf, forward, weights = space["tf"], space["forward"], space["weights"]

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = forward()
        tape.gradient(loss, weights)

    return step


def medians(runs: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The median time of each, turn by turn, so that other load on the machine hits all; a quarter warms up."""
    times: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + rounds // 4):
        for run, taken in zip(runs, times):
            begun = time.perf_counter()
            run()
            if number >= rounds // 4:
                taken.append(time.perf_counter() - begun)
    return [statistics.median(taken) for taken in times]


def measured(text: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Of the original, the repair and, where it is another one, the batched repair: gradients and relative times."""
    texts = {"original": text, "safe": repaired(text, False), "unsafe": repaired(text, True)}
    if texts["unsafe"] == texts["safe"]:
        del texts["unsafe"]
    spaces = {kind: started(program) for kind, program in texts.items()}
    steps = medians([step_of(space) for space in spaces.values()], rounds)
    passes = medians([space["forward"] for space in spaces.values()], rounds)
    found: dict[str, dict[str, Any]] = {}
    for (kind, space), step, forward in zip(spaces.items(), steps, passes):
        there = sum(gradient is not None for gradient in space["gradients"])
        found[kind] = {
            "gradients": f"{there}/{len(space['gradients'])}",
            "loss": float(space["loss"]),
            "step_ms": round(1000 * step, 2),
            "step": round(step / steps[0], 2),
            "forward": round(forward / passes[0], 2),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    for name, program in PROGRAMS.items():
        results[name] = measured(HEAD + program.lstrip("\n"), options.rounds)
        print(name)
        for kind, row in results[name].items():
            print(
                f"  {kind:9} gradients {row['gradients']}  loss {row['loss']:.6g}  step {row['step_ms']:8.2f} ms"
                f"  = {row['step']:.2f}  forward pass {row['forward']:.2f}"
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
