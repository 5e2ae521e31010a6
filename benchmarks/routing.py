"""A batch that is routed sample by sample, and its repair that weighs both networks on the whole batch: the ratio.

    python benchmarks/routing.py [--batch 64] [--steps 5] [--json FILE]

The program follows the third report: a decision module gives 0 or 1 for each image, a Python `if` in a loop picks
network A or B. It is repaired by the tool itself (`tapefix apply --unsafe-fixes`); then training steps of both are
timed turn by turn in one process, so that other load on the machine hits both, and reported by their medians.
Wanted: the repair is at least 5 times as fast. Needs TensorFlow in the interpreter that runs this.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

WANTED = 5.0

PROGRAM = """
import tensorflow as tf

tf.keras.utils.set_random_seed(0)
BATCH = {batch}


def classifier():
    net = tf.keras.Sequential([
        tf.keras.Input((16, 16, 1)),
        tf.keras.layers.Conv2D(8, 3, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(2),
    ])
    net.trainable = False
    return net


network_a, network_b = classifier(), classifier()
module = tf.keras.Sequential([
    tf.keras.Input((16, 16, 1)),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
images = tf.random.normal([BATCH, 16, 16, 1])
labels = tf.random.uniform([BATCH], maxval=2, dtype=tf.int32)


def step():
    with tf.GradientTape() as tape:
        p = module(images, training=True)
        sigma = p + tf.stop_gradient(tf.round(p) - p)
        out = []
        for image, s in zip(images, sigma):
            if s == 0:
                o = network_a(tf.expand_dims(image, axis=0), training=False)
            else:
                o = network_b(tf.expand_dims(image, axis=0), training=False)
            out.append(o)
        loss = loss_of(labels, tf.concat(out, axis=0))
    return loss, tape.gradient(loss, module.trainable_variables)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64, help="images in a batch (default 64)")
    parser.add_argument("--steps", type=int, default=5, help="timed steps of each program (default 5)")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()

    original = PROGRAM.format(batch=options.batch)
    repaired = repair(original)
    before, after = (load(text, name) for text, name in ((original, "original"), (repaired, "repaired")))
    first, second = before(), after()  # also the warm-up
    if abs(float(first[0]) - float(second[0])) > 1e-5 * abs(float(first[0])):
        print(f"the loss moved: {float(first[0])} before, {float(second[0])} after", file=sys.stderr)
        return 1
    if any(gradient is None for gradient in second[1]):
        print("the repair left a gradient None", file=sys.stderr)
        return 1
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(options.steps):
        for step, seconds in zip((before, after), times, strict=True):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
    loop, mask = (statistics.median(seconds) for seconds in times)
    print(
        f"batch of {options.batch}: per-sample loop {1000 * loop:.1f} ms, "
        f"mask {1000 * mask:.1f} ms, ratio {loop / mask:.1f}"
    )
    if options.json:
        figures = {"batch": options.batch, "loop_s": loop, "mask_s": mask, "ratio": loop / mask, "wanted": WANTED}
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0 if loop / mask >= WANTED else 1


def repair(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(text, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "tapefix",
            "apply",
            "--unsafe-fixes",
            "--no-cache",
            "--select",
            "TAP301",
            str(path),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        result = path.read_text(encoding="utf-8")
    if result == text:
        raise SystemExit(f"the program was not repaired: {done.stdout}{done.stderr}")
    return result


def load(text: str, name: str) -> Callable[[], tuple[object, list[object]]]:
    space: dict[str, object] = {"__name__": name}
    exec(compile(text, f"<{name}>", "exec"), space)
    return space["step"]  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main())
