"""Choices and operations without a gradient, as people write them: each program runs before and after its repair.

A program defines `sources`, `loss()` and, at its end, takes the gradient. The first loss stays and every source gets a
gradient that is finite.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from repaired import Repaired, execute, repair  # noqa: E402

HEAD = """\
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

tf.keras.utils.set_random_seed(3)


def net(units, activation=None, width=4):
    model = tf.keras.Sequential([tf.keras.Input((width,)), layers.Dense(units, activation=activation)])
    return model


gate_net = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(1, activation="sigmoid")])
left = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(3)])
right = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(3)])
scorer = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(5)])
table = tf.Variable(tf.random.normal([5, 2]))
x = tf.constant(np.random.default_rng(1).normal(size=(6, 4)), tf.float32)
level = tf.Variable(0.2)
"""
TAIL = """
with tf.GradientTape() as tape:
    value = loss()
gradients = tape.gradient(value, sources)
"""
ALL = "gate_net.trainable_variables + left.trainable_variables + right.trainable_variables"
PICKED = "scorer.trainable_variables"

#: name -> (sources, body, whether the graph is compiled)
PROGRAMS: dict[str, tuple[str, str]] = {
    "rows routed one by one, zip": (
        ALL,
        """
        def decide(batch):
            p = gate_net(batch)
            return p + tf.stop_gradient(tf.round(p) - p)

        def loss():
            out = []
            for row, s in zip(x, decide(x)):
                if s == 0:
                    o = left(tf.expand_dims(row, 0))
                else:
                    o = right(tf.expand_dims(row, 0))
                out.append(o)
            return tf.reduce_mean(tf.square(tf.concat(out, 0)))
        """,
    ),
    "rows routed one by one, range, by a probability": (
        ALL,
        """
        def loss():
            p = gate_net(x)[:, 0]
            rows = []
            for i in range(6):
                if p[i] > 0.5:
                    rows.append(left(x[i:i + 1]))
                else:
                    rows.append(right(x[i:i + 1]))
            return tf.reduce_sum(tf.concat(rows, axis=0) ** 2)
        """,
    ),
    "three branches by elif": (
        "gate_net.trainable_variables + [table]",
        """
        def loss():
            values = []
            for p in gate_net(x)[:, 0]:
                if p < 0.3:
                    v = table[0, 0]
                elif p < 0.6:
                    v = table[1, 0] * 2.0
                else:
                    v = table[2, 1] + 1.0
                values.append(v)
            return tf.reduce_sum(tf.stack(values) ** 2)
        """,
    ),
    "one sample, early return": (
        ALL,
        """
        def answer(batch):
            h = left(batch)
            sure = tf.reduce_mean(gate_net(batch))
            if sure > 0.4:
                return h
            h = h + right(batch)
            return 2.0 * h

        def loss():
            return tf.reduce_mean(answer(x) ** 2)
        """,
    ),
    "the ternary picks the layer": (
        ALL,
        """
        def loss():
            chosen = left if tf.reduce_mean(gate_net(x)) > 0.5 else right
            return tf.reduce_mean(chosen(x) ** 2)
        """,
    ),
    "one side only, added to": (
        "gate_net.trainable_variables + left.trainable_variables",
        """
        def loss():
            h = tf.reduce_sum(x, axis=1, keepdims=True) * tf.ones([1, 3])
            if tf.reduce_mean(gate_net(x)) > level:
                h = h + left(x)
            return tf.reduce_mean(h ** 2)
        """,
    ),
    "chance decides whether a block runs": (
        "left.trainable_variables + right.trainable_variables",
        """
        def loss():
            h = left(x)
            coin = tf.random.stateless_uniform([], seed=(1, 2))
            if coin < 0.01:
                h = h + right(x)
            return tf.reduce_mean(h ** 2)
        """,
    ),
    "a logarithm where the number is positive only": (
        "[level]",
        """
        def loss():
            total = 0.0
            for s in tf.unstack(tf.stop_gradient(scorer(x)[:, 0])):
                if s > level:
                    value = tf.math.log(s - 0.2) + tf.sqrt(s - 0.2)
                else:
                    value = 0.5 * s
                total = total + value
            return total
        """,
    ),
    "tf.cond between lambdas": (
        ALL,
        """
        def loss():
            y = tf.cond(tf.reduce_mean(gate_net(x)) > 0.5, lambda: left(x), lambda: right(x))
            return tf.reduce_mean(y ** 2)
        """,
    ),
    "tf.cond inside a function that is compiled": (
        ALL,
        """
        @tf.function
        def answer():
            return tf.cond(tf.reduce_mean(gate_net(x)) > 0.5, lambda: left(x), lambda: right(x))

        def loss():
            return tf.reduce_mean(answer() ** 2)
        """,
    ),
    "tf.where by a learned level": (
        "[level] + " + PICKED,
        """
        def loss():
            s = scorer(x)
            return tf.reduce_mean(tf.where(s > level, s * s, 0.1 * s))
        """,
    ),
    "a logit mask by a learned level": (
        "[level] + " + PICKED,
        """
        def loss():
            s = scorer(x)
            s = tf.where(s >= level, s, -1e9)
            return tf.reduce_sum(tf.nn.softmax(s)[:, :2] ** 2)
        """,
    ),
    "rows behind a mask": (
        "gate_net.trainable_variables + left.trainable_variables",
        """
        def loss():
            keep = gate_net(x)[:, 0] > 0.4
            return tf.reduce_sum(tf.boolean_mask(left(x), keep) ** 2)
        """,
    ),
    "argmax, then a row of a table": (
        PICKED + " + [table]",
        """
        def loss():
            best = tf.argmax(scorer(x), axis=1)
            return tf.reduce_mean(tf.gather(table, best) ** 2)
        """,
    ),
    "argmax as coordinates": (
        PICKED,
        """
        def loss():
            best = tf.argmax(scorer(x), axis=-1, output_type=tf.int32)
            row = tf.cast(best // 2, tf.float32)
            column = tf.cast(best % 2, tf.float32)
            return tf.reduce_mean((row - 0.3) ** 2 + column)
        """,
    ),
    "the largest rows in order": (
        PICKED,
        """
        def loss():
            scores = scorer(x)[:, 0]
            _, best = tf.math.top_k(scores, k=3)
            return tf.reduce_sum(tf.gather(x, best) * [[1.0], [0.5], [0.25]])
        """,
    ),
    "one-hot of a prediction": (
        PICKED + " + [table]",
        """
        def loss():
            code = tf.one_hot(tf.argmax(scorer(x), -1), 5)
            return tf.reduce_mean((code @ table) ** 2)
        """,
    ),
    "a rounded number through an integer": (
        PICKED,
        """
        def loss():
            whole = tf.cast(3.0 * scorer(x), tf.int32)
            whole = tf.cast(whole, tf.float32)
            return tf.reduce_mean(whole * 0.5 + whole ** 2)
        """,
    ),
    "hits counted": (
        "gate_net.trainable_variables",
        """
        truth = tf.constant([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])

        def loss():
            called = tf.round(gate_net(x)[:, 0])
            ups = tf.math.count_nonzero(tf.logical_and(tf.equal(called, 1.0), tf.equal(truth, 1.0)))
            downs = tf.math.count_nonzero(tf.logical_and(tf.equal(called, 0.0), tf.equal(truth, 0.0)))
            return 1.0 - tf.cast(ups + downs, tf.float32) / 6.0
        """,
    ),
    "two thresholds and a reversed third": (
        PICKED,
        """
        def loss():
            s = scorer(x)
            inside = (s[:, 0] > -0.5) & (s[:, 1] < 0.5) & ~(s[:, 2] > 2.0)
            return tf.reduce_mean(tf.cast(inside, tf.float32) * 3.0)
        """,
    ),
    "accuracy as the loss": (
        PICKED,
        """
        labels = tf.constant([0, 1, 2, 3, 4, 0])

        def loss():
            right_ones = tf.equal(tf.argmax(scorer(x), axis=1, output_type=tf.int32), labels)
            return 1.0 - tf.reduce_mean(tf.cast(right_ones, tf.float32))
        """,
    ),
    "a drawn class": (
        PICKED + " + [table]",
        """
        def loss():
            drawn = tf.random.stateless_categorical(scorer(x), 1, seed=(4, 5))[:, 0]
            return tf.reduce_mean(tf.gather(table, drawn) ** 2)
        """,
    ),
    "a loop that a tensor leaves": (
        "gate_net.trainable_variables + left.trainable_variables",
        """
        def loss():
            state = x
            for _ in range(4):
                state = state + tf.pad(left(state), [[0, 0], [0, 1]])
                stop = tf.reduce_mean(gate_net(state))
                if stop > 0.55:
                    break
            return tf.reduce_mean(state ** 2)
        """,
    ),
    "a while with a bound": (
        "[level] + left.trainable_variables",
        """
        def loss():
            state, n = x, 0
            while tf.reduce_mean(tf.abs(state)) < 1.0 + level and n < 3:
                state = state + 0.5 * tf.pad(left(state), [[0, 0], [0, 1]])
                n += 1
            return tf.reduce_mean(state ** 2)
        """,
    ),
}


def program(name: str) -> str:
    sources, body = PROGRAMS[name]
    return f"{HEAD}\n{textwrap.dedent(body)}\n\nsources = {sources}\n{TAIL}"


@pytest.fixture(scope="module")
def repairs() -> dict[str, Repaired]:
    return {name: repair(program(name)) for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_gradient_is_there_and_the_loss_stays(name: str, repairs: dict[str, Repaired]) -> None:
    before = execute(program(name), f"before {name}")
    assert any(g is None for g in before["gradients"]), "the program loses no gradient"
    made = repairs[name]
    assert made.applied, made.left
    after = execute(made.text, f"after {name}")
    missing = [v.name for v, g in zip(after["sources"], after["gradients"], strict=True) if g is None]
    assert not missing
    assert all(bool(np.all(np.isfinite(tf.convert_to_tensor(g)))) for g in after["gradients"])
    assert float(after["value"]) == pytest.approx(float(before["value"]), rel=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_once_is_as_good_as_twice(name: str, repairs: dict[str, Repaired]) -> None:
    assert repair(repairs[name].text).text == repairs[name].text


def test_the_batch_is_weighed_at_once(repairs: dict[str, Repaired]) -> None:
    text = repairs["rows routed one by one, zip"].text
    assert "for row" not in text
    assert "append" not in text
    assert "s_all = decide(x)" in text
    assert "s_all * right(x) + (1.0 - s_all) * left(x)" in text


def test_a_soft_gate_where_it_is_configured() -> None:
    made = repair(program("tf.cond between lambdas"), threshold="soft")
    assert "stop_gradient" not in made.text.split("def loss")[1]
    before = execute(program("tf.cond between lambdas"), "hard")
    after = execute(made.text, "soft")
    assert all(g is not None for g in after["gradients"])
    assert float(after["value"]) != pytest.approx(float(before["value"]), rel=1e-3)
    assert "soft, as configured" in made.applied[0][1]


def test_the_message_names_the_way_and_what_else_there_is(repairs: dict[str, Repaired]) -> None:
    ((code, message, alternatives),) = repairs["tf.cond between lambdas"].applied
    assert code == "TAP302"
    assert "straight-through" in message
    assert any("soft gate" in choice for choice in alternatives)
