"""What the repairs of choices write, and what they refuse to write and why."""

from __future__ import annotations

import textwrap

import pytest

from repaired import codes, repair

HEAD = """\
import tensorflow as tf
from tensorflow.keras import layers

gate = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(1, activation="sigmoid")])
a = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(3)])
b = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(3)])
level = tf.Variable(0.5)
x = tf.random.normal([6, 4])
sources = gate.trainable_variables + a.trainable_variables + b.trainable_variables + [level]


def forward(x):
"""
TAIL = """

with tf.GradientTape() as tape:
    loss = tf.reduce_sum(forward(x))
gradients = tape.gradient(loss, sources)
"""


def program(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n" + TAIL


def written(body: str, threshold: str = "straight-through") -> str:
    """The function's body after its repair."""
    made = repair(program(body), threshold)
    assert made.applied, made.left
    inner = made.text[len(HEAD) : -len(TAIL)]
    return textwrap.dedent(inner).strip("\n")


def refused(body: str) -> str:
    """The one reason why a program stays as it is."""
    text = program(body)
    made = repair(text)
    assert not made.applied, made.text
    assert made.text == text
    reasons = {reason for _, reason in made.left}
    assert len(reasons) == 1, reasons
    return reasons.pop()


ROUTED = """
    s = gate(x) + tf.stop_gradient(tf.round(gate(x)) - gate(x))
    out = []
    for row, one in zip(x, s):
        if one == 0:
            o = a(tf.expand_dims(row, 0))
        else:
            o = b(row[tf.newaxis])
        out.append(o)
    return tf.concat(out, 0)
"""


def test_a_decision_of_0_or_1_is_the_mask() -> None:
    lines = written(ROUTED).splitlines()
    assert lines[1:] == ["return s * b(x) + (1.0 - s) * a(x)"]


def test_a_probability_becomes_a_gate_with_the_hard_value() -> None:
    assert written(
        """
        p = gate(x)[:, 0]
        rows = []
        for i in range(x.shape[0]):
            # the wide one
            if p[i] > 0.5:
                rows.append(a(x[i:i + 1]))
            else:
                rows.append(b(x[i:i + 1]))
        return tf.concat(rows, axis=0)
        """
    ) == "\n".join(
        [
            "p = gate(x)[:, 0]",
            "# the wide one",
            "soft = tf.sigmoid(p - 0.5)",
            "gate_2 = soft + tf.stop_gradient(tf.cast(p > 0.5, soft.dtype) - soft)",
            "mask = gate_2[:, tf.newaxis]",
            "return mask * a(x) + (1.0 - mask) * b(x)",
        ]
    )


def test_a_range_over_some_samples_takes_those() -> None:
    text = written(
        """
        p = gate(x)[:, 0]
        rows = []
        for i in range(4):
            o = a(x[i:i + 1]) if p[i] > 0.5 else b(x[i:i + 1])
            rows.append(o)
        return tf.concat(rows, axis=0)
        """
    )
    assert "a(x[:4])" in text
    assert "tf.sigmoid(p[:4] - 0.5)" in text


def test_a_loop_that_does_more_stays_and_is_weighed_inside() -> None:
    text = written(
        """
        p = gate(x)[:, 0]
        rows, seen = [], 0.0
        for i in range(6):
            seen = seen + p[i]
            if p[i] > 0.5:
                rows.append(a(x[i:i + 1]))
            else:
                rows.append(seen * b(x[i:i + 1]))
        return tf.concat(rows, axis=0)
        """
    )
    assert "for i in range(6):" in text
    assert "rows.append(gate_2 * a(x[i:i + 1]) + (1.0 - gate_2) * (seen * b(x[i:i + 1])))" in text


def test_a_residual_branch_is_added_by_its_gate() -> None:
    text = written(
        """
        h = a(x)
        if tf.reduce_mean(gate(x)) > level:
            h = h + b(x)
        return h
        """
    )
    assert text.endswith("h = h + gate_2 * b(x)\nreturn h")


def test_chance_selects_without_a_gate() -> None:
    assert (
        written(
            """
            h = a(x)
            if tf.random.uniform([]) < 0.5:
                h = h + b(x)
            return h + gate(x) * level
            """
        )
        == "h = a(x)\nchosen = tf.random.uniform([]) < 0.5\n"
        "h = tf.where(chosen, h + b(x), h)\nreturn h + gate(x) * level"
    )


def test_an_input_is_guarded_where_its_branch_is_not_chosen() -> None:
    text = written(
        """
        p = tf.reduce_mean(a(x))
        if p > level:
            y = tf.math.log(p)
        else:
            y = p * 0.1
        return y * b(x) + gate(x)
        """
    )
    assert "chosen = tf.stop_gradient(p > level)" in text
    assert "tf.math.log(tf.where(chosen, p, tf.ones_like(p)))" in text


def test_a_mask_of_logits_weighs_those_that_stay() -> None:
    text = written("return tf.nn.softmax(tf.where(a(x) >= level, a(x), -1e9)) + gate(x) + b(x)")
    print(text)
    assert "tf.math.log(tf.sigmoid(" in text
    assert "1e9 *" not in text
    assert "* -1e9" not in text


def test_the_soft_gate_stands_alone() -> None:
    text = written("return tf.where(a(x) > level, b(x), gate(x))", threshold="soft")
    assert "stop_gradient" not in text
    assert "tf.sigmoid(" in text


@pytest.mark.parametrize(
    ("reason", "body"),
    [
        (
            "`print(p)` in a branch has effects beyond a value",
            """
            p = tf.reduce_mean(gate(x))
            if p > level:
                print(p)
                y = a(x)
            else:
                y = b(x)
            return y
            """,
        ),
        (
            "`out.append(...)` happens in one branch only, so that the result has another form in the other",
            """
            p = tf.reduce_mean(gate(x))
            out = [b(x)]
            if p > level:
                out.append(a(x))
            return tf.add_n(out)
            """,
        ),
        (
            "`first` does more than return a value, so that it can't run when not chosen",
            """
            seen = []
            def first():
                seen.append(1)
                return a(x)
            return tf.cond(tf.reduce_mean(gate(x)) > level, first, lambda: b(x))
            """,
        ),
    ],
)
def test_what_can_not_be_weighed_stays(reason: str, body: str) -> None:
    text = program(body)
    made = repair(text)
    assert reason in {why for _, why in made.left}, made
    assert made.text == text


def test_a_while_without_a_bound_stays() -> None:
    reason = refused(
        """
        state = a(x)
        while tf.reduce_mean(state) < level:
            state = state + 1.0
        return state + b(x) + gate(x)
        """
    )
    assert reason == "the number of passes has no bound in sight; loop a fixed number of times"


@pytest.mark.parametrize(
    "body",
    [
        "soft = tf.sigmoid(a(x) - level)\n"
        "return soft + tf.stop_gradient(tf.cast(soft > 0.5, soft.dtype) - soft) + b(x) + gate(x)",
        "y = a(x) + b(x) + gate(x) * level\nif tf.executing_eagerly():\n    y = y * 1.0\nreturn y",
        "y = a(x) + b(x) + gate(x) * level\nreturn tf.where(x[:, :1] > 0.0, y, 2.0 * y)",
        "p = gate(x)\nreturn tf.where(p > 1e-6, tf.math.log(tf.maximum(p, 1e-6)), 0.0) + a(x) * level + b(x)",
    ],
    ids=["a straight-through estimator", "a Python flag", "a mask from data", "a guard around a logarithm"],
)
def test_what_only_looks_alike_is_no_finding(body: str) -> None:
    assert [code for code in codes(program(body)) if code.startswith(("TAP3", "TAP4"))] == []
