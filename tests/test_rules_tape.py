"""TAP503-TAP507 at their borders: what is no second question, what is not moved, what stays an integer."""

from __future__ import annotations

import pytest

from rule_programs import after, findings
from tapefix.codemod import Applicability, Finding, Refusal

HEAD = """import numpy as np
import tensorflow as tf

net = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
w, v = tf.Variable(1.0), tf.Variable(2.0)
x = tf.ones([4, 3])
"""
OPENED = """with tf.GradientTape() as tape:
    y, z = w * v, w + v
"""


def found(body: str, code: str) -> list[Finding]:
    return [finding for finding in findings(HEAD + body) if finding.code == code]


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("a = tape.gradient(y, w)\nb = tape.gradient(z, w)\n", [2]),
        ("a, b = tape.gradient(y, w), tape.gradient(z, w)\n", [1]),
        ("a = tape.gradient(y, w)\nfor _ in range(3):\n    b = tape.gradient(z, w)\n", [3]),
        ("a = {k: tape.gradient(t, w) for k, t in {'y': y, 'z': z}.items()}\n", [1]),
        ("if x[0, 0] > 0:\n    a = tape.gradient(y, w)\nb = tape.gradient(z, w)\n", [3]),
        ("if x[0, 0] > 0:\n    a = tape.gradient(y, w)\nelse:\n    a = tape.gradient(z, w)\n", []),
        ("if x[0, 0] > 0:\n    a = tape.gradient(y, w)\nif x[0, 0] <= 0:\n    a = tape.gradient(z, w)\n", []),
        ("a = tape.gradient(y, w) if x[0, 0] > 0 else tape.gradient(z, w)\n", []),
        ("for t in (y, z):\n    if t > 0:\n        a = tape.gradient(t, w)\n        break\n", []),
        ("a = tape.gradient(y, w)\nwith tape:\n    z = w * w\nb = tape.gradient(z, w)\n", []),
        ("a = tape.gradient(y, w)\ntry:\n    b = tape.gradient(z, w)\nexcept RuntimeError:\n    b = None\n", []),
    ],
)
def test_a_second_question(body: str, rows: list[int]) -> None:
    above = (HEAD + OPENED).count("\n")
    assert [one.place.row - above for one in found(OPENED + body, "TAP503")] == rows


@pytest.mark.parametrize("given", ["", "watch_accessed_variables=True", "persistent=False", "False"])
def test_the_tape_becomes_persistent_whatever_it_is_made_with(given: str) -> None:
    opened = OPENED.replace("Tape()", f"Tape({given})")
    made = after(HEAD + opened + "a = tape.gradient(y, w)\nb = tape.gradient(z, w)\n")
    wanted = {
        "": "persistent=True",
        "watch_accessed_variables=True": "persistent=True, watch_accessed_variables=True",
        "persistent=False": "persistent=True",
        "False": "True",
    }
    assert f"tf.GradientTape({wanted[given]}) as tape" in made


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        ("net.fit(x, x[:, :2])\nt = y * y", "trains a model by itself"),
        ("t = y * y; print(t)", "share a line"),
    ],
)
def test_statements_that_do_not_come_into_the_block(between: str, reason: str) -> None:
    (one,) = found(OPENED + between + "\ng = tape.gradient(t, w)\n", "TAP504")
    assert isinstance(one.outcome, Refusal)
    assert reason in one.outcome.reason


def test_a_target_made_of_what_changes_in_between_is_not_computed_earlier() -> None:
    body = OPENED + "factor = 2.0\ng = tape.gradient(y * factor, w)\n"
    (one,) = found(body, "TAP504")
    assert isinstance(one.outcome, Refusal)


def test_an_update_stays_where_nothing_is_recorded() -> None:
    body = """with tf.GradientTape() as tape:
    with tape.stop_recording():
        t = w * v
        v.assign_add(1.0)
        u = t * w
    s = tf.square(u)
g = tape.gradient(s, w)
"""
    outcomes = [one.outcome for one in found(body, "TAP507")]
    assert outcomes
    assert all(isinstance(one, Refusal) for one in outcomes)


INTEGER = """n = tf.Variable(3)
with tf.GradientTape() as tape:
    t = {use}
g = tape.gradient(t, n)
"""


@pytest.mark.parametrize(
    ("use", "outcome"),
    [
        ("w * tf.cast(n, tf.float32)", Applicability.SAFE),
        ("w * tf.cast(n * 2 + 1, tf.float32)", Applicability.UNSAFE),
        ("w * tf.gather(x[0], n)", "it is an index in line 9"),
    ],
)
def test_an_integer_variable_becomes_a_float_where_it_is_none_by_its_use(
    use: str, outcome: Applicability | str
) -> None:
    (one,) = found(INTEGER.format(use=use), "TAP505")
    if isinstance(outcome, Applicability):
        assert one.fix is not None
        assert one.fix.applicability is outcome
    else:
        assert isinstance(one.outcome, Refusal)
        assert outcome in one.outcome.reason


@pytest.mark.parametrize(
    "source",
    [
        "tf.Variable(3, dtype=tf.float32)",
        "tf.Variable(3.0)",
        "tf.Variable([1, 2.5])",
        "tf.Variable(np.array([1, 2], dtype='float32'))",
        "tf.Variable(np.arange(3) / 3)",
        "tf.Variable(tf.cast(tf.range(3), tf.float32))",
        "tf.Variable(np.zeros(3, np.uint8).astype(float))",
    ],
)
def test_floats_are_left_alone(source: str) -> None:
    body = f"n = {source}\nwith tf.GradientTape() as tape:\n    t = tf.reduce_sum(tf.cast(n, tf.float32))\n"
    assert not found(body + "g = tape.gradient(t, n)\n", "TAP505")


BY_HAND = """with tf.GradientTape(watch_accessed_variables=False) as tape:
    {watch}
    y = tf.reduce_sum(w * v * net(x))
g = tape.gradient(y, [w, v, *net.trainable_variables])
"""


@pytest.mark.parametrize(
    ("watch", "told"),
    [
        ("tape.watch(w)", False),
        ("tape.watch([w, v])", False),
        ("tape.watch([w, v, *net.trainable_variables])", True),
        ("tape.watch([w, v]); tape.watch(net.trainable_variables)", True),
        ("[tape.watch(one) for one in [w, v, *net.weights]]", True),
        ("tape.watch(eval('everything'))", True),
    ],
)
def test_a_tape_that_watches_by_hand(watch: str, told: bool) -> None:
    assert told != bool(found(BY_HAND.format(watch=watch), "TAP501"))


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("with tf.GradientTape() as tape:\n    y = net(x)\n    tape.watch(x)\ng = tape.gradient(y, x)\n", [1]),
        ("with tf.GradientTape() as tape:\n    tape.watch(x)\n    y = net(x)\ng = tape.gradient(y, x)\n", []),
        ("z = x + 1.0\nwith tf.GradientTape() as tape:\n    tape.watch(z); y = net(x)\ng = tape.gradient(y, z)\n", [2]),
        # what is computed of it after all may be more than is understood
        ("with tf.GradientTape() as tape:\n    tape.watch(x)\n    y = net(ones(x))\ng = tape.gradient(y, x)\n", []),
        ("z = x + 1.0\nbox = eval('Box')(z)\nwith tf.GradientTape() as tape:\n    tape.watch(z)\n    y = net(x)\n"
         "g = tape.gradient(y, z)\n", []),
    ],
)  # fmt: skip
def test_watched_in_vain(body: str, rows: list[int]) -> None:
    assert [one.place.row - HEAD.count("\n") for one in found(body, "TAP501")] == rows


@pytest.mark.parametrize("keeper", ["functools.lru_cache(maxsize=None)", "functools.cache"])
def test_what_a_cache_keeps_is_computed_once(keeper: str) -> None:
    kept = f"import functools\n@{keeper}\ndef scale():\n    return tf.exp(w)\n"
    step = "for _ in range(2):\n    with tf.GradientTape() as tape:\n        y = v * scale()\n    tape.gradient(y, w)\n"
    assert [one.place.row - HEAD.count("\n") for one in found(kept + step, "TAP502")] == [4]
    assert not found("def scale():\n    return tf.exp(w)\n" + step, "TAP502")


FEED = "def feed(given):\n    for rows in (x, x):\n        yield given(rows), 1.0\n\n\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "for out, y in feed(net):\n    print(out)\n    with {tape}:\n        loss = tf.reduce_mean(out - y)\n",
            "uses `out`",
        ),
        (
            "for out, y in feed(net):\n    if y:\n        with {tape}:\n            loss = tf.reduce_mean(out)\n",
            "not reached in each step",
        ),
        (
            "for out, y in feed(tf.keras.Sequential([net])):\n    with {tape}:\n        loss = tf.reduce_mean(out)\n",
            "can't be told",
        ),
        ("for pair in feed(net):\n    with {tape}:\n        loss = tf.reduce_mean(pair[0])\n", "can't be told"),
    ],
)
def test_a_generator_goes_on_yielding_outputs_that_are_needed_early(body: str, reason: str) -> None:
    text = FEED + body.format(tape="tf.GradientTape() as tape") + "    tape.gradient(loss, net.trainable_variables)\n"
    refusals = [one.outcome.reason for one in found(text, "TAP502") if isinstance(one.outcome, Refusal)]
    assert refusals
    assert all(reason in one for one in refusals), refusals
