"""The rules about weights and sources: what they leave alone, and rewrites that no fixture program can show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapefix.config import Config
from tapefix.documents.workspace import Workspace
from tapefix.engine import fix_documents, is_safe
from tapefix.runner import load_tools

HEAD = "import tensorflow as tf\nfrom tensorflow.keras import layers\n\n"
DESCENT = HEAD + "w = tf.Variable(1.0)\nfor _ in range(3):\n    with tf.GradientTape() as tape:\n        loss = w * w\n"


@pytest.fixture
def applied(tmp_path: Path):
    """What `apply` makes of a program."""

    def apply(text: str, unsafe: bool = False) -> str:
        path = tmp_path / "program.py"
        path.write_text(text, encoding="utf-8")
        tools = load_tools(Config(root=tmp_path, unsafe_fixes=unsafe))
        fixed = fix_documents(Workspace(), [str(path)], tools, lambda proposal: unsafe or is_safe(proposal))
        return fixed.workspace.open(str(path)).text

    return apply


class TestLeavesAlone:
    def test_a_variable_that_is_made_anew_of_the_step(self, applied):
        text = DESCENT + "    w = tf.Variable(w - 0.1 * tape.gradient(loss, w))\n"
        assert applied(text, unsafe=True) == text

    def test_a_tensor_under_an_outer_tape(self, applied):
        text = (
            HEAD + "w = tf.Variable(1.0)\nwith tf.GradientTape() as outer:\n    v = w\n    for _ in range(2):\n"
            "        with tf.GradientTape() as inner:\n            inner.watch(v)\n            loss = v * v\n"
            "        v = v - 0.1 * inner.gradient(loss, v)\nprint(outer.gradient(v, w))\n"
        )
        assert applied(text, unsafe=True) == text

    @pytest.mark.parametrize("filtered", ["[w for w in net.variables if w.trainable]", "filter(t, net.variables)"])
    def test_a_list_of_weights_that_is_sifted(self, applied, filtered: str):
        text = (
            HEAD + "net = tf.keras.Sequential([tf.keras.Input((2,)), layers.BatchNormalization()])\n"
            f"t = lambda w: w.trainable\nws = list({filtered})\nwith tf.GradientTape() as tape:\n"
            "    loss = tf.reduce_sum(net(tf.ones((2, 2)), training=True))\nprint(tape.gradient(loss, ws))\n"
        )
        assert applied(text, unsafe=True) == text

    def test_the_stop_before_a_teacher_whose_weights_must_stay_listed(self, applied):
        text = (
            HEAD + "def net():\n    return tf.keras.Sequential([tf.keras.Input((2,)), layers.Dense(1)])\n\n\n"
            "q, slow = net(), net()\nx = tf.ones((3, 2))\nparams = q.trainable_variables + slow.trainable_variables\n"
            "with tf.GradientTape() as tape:\n    loss = tf.reduce_mean((q(x) - tf.stop_gradient(slow(x))) ** 2)\n"
            "print(tape.gradient(loss, params))\n"
            "for a, b in zip(slow.trainable_variables, q.trainable_variables):\n    a.assign(b)\n"
        )
        assert applied(text, unsafe=True) == text

    def test_a_layer_that_a_branch_makes_once(self, applied):
        text = (
            HEAD + "class Net(tf.keras.Model):\n    def __init__(self):\n        super().__init__()\n"
            "        self.d = None\n\n    def call(self, x):\n        if self.d is None:\n"
            "            self.d = layers.Dense(x.shape[-1])\n        return self.d(x)\n\n\nnet = Net()\n"
            "with tf.GradientTape() as tape:\n    loss = tf.reduce_sum(net(tf.ones((2, 2))))\n"
            "print(tape.gradient(loss, net.trainable_variables))\n"
        )
        assert applied(text, unsafe=True) == text


class TestRewrites:
    def test_an_augmented_assignment(self, applied):
        fixed = applied(DESCENT + "    w -= 0.1 * tape.gradient(loss, w)\n")
        assert fixed == DESCENT + "    w.assign_sub(0.1 * tape.gradient(loss, w))\n"

    def test_a_list_that_a_function_makes(self, applied):
        text = (
            HEAD + "def stepped(ws, gs):\n    return [w - 0.1 * g for w, g in zip(ws, gs)]\n\n\n"
            "ws = [tf.Variable(1.0), tf.Variable(2.0)]\nfor _ in range(2):\n    with tf.GradientTape() as tape:\n"
            "        loss = ws[0] * ws[1]\n    gs = tape.gradient(loss, ws)\n    ws = stepped(ws, gs)\n"
        )
        fixed = applied(text)
        assert "    for variable, value in zip(ws, stepped(ws, gs)):\n        variable.assign(value)\n" in fixed

    def test_a_value_that_is_kept_makes_it_unsafe(self, applied):
        text = DESCENT + "    old = w\n    w = w - 0.1 * tape.gradient(loss, w)\n    print(old)\n"
        assert applied(text) == text
        assert "w.assign_sub(" in applied(text, unsafe=True)

    def test_a_teacher_with_batch_normalisation_in_training_mode_is_frozen_on_request(self, applied):
        text = (
            HEAD + "a = tf.keras.Sequential([tf.keras.Input((2,)), layers.Dense(1)])\n"
            "b = tf.keras.Sequential([tf.keras.Input((2,)), layers.BatchNormalization(), layers.Dense(1)])\n"
            "x = tf.ones((3, 2))\nwith tf.GradientTape() as tape:\n"
            "    loss = tf.reduce_mean((a(x) - tf.stop_gradient(b(x, training=True))) ** 2)\n"
            "print(tape.gradient(loss, a.trainable_variables + b.trainable_variables))\n"
        )
        assert applied(text) == text
        assert "b.trainable = False\n" in applied(text, unsafe=True)


class TestWeightsListedEarly:
    """What is listed beside the weights of an unbuilt model."""

    PAIR = (
        "class Pair:\n    def __init__(self):\n        self.net, self.bias = layers.Dense(2), tf.Variable([0.0, 0.0])\n"
        "        self.listed = {listed}\n\n"
        "    def step(self, x):\n        with tf.GradientTape() as tape:\n"
        "            loss = tf.reduce_mean((self.net(x) + self.bias) ** 2)\n"
        "        return tape.gradient(loss, self.listed)\n\n\npair = Pair()\n{after}print(pair.step(tf.ones((3, 2))))\n"
    )

    def test_a_variable_of_the_object_is_written_along(self, applied):
        listed = "[*self.net.trainable_variables, self.bias]"
        fixed = applied(HEAD + self.PAIR.format(listed=listed, after=""))
        assert f"return tape.gradient(loss, {listed})" in fixed
        assert "self.listed" not in fixed

    @pytest.mark.parametrize(
        ("listed", "after"),
        [
            ("[*self.net.trainable_variables, tf.Variable(1.0)]", ""),
            ("[*self.net.trainable_variables, *(w for w in [self.bias])]", ""),
            ("[*self.net.trainable_variables, self.bias]", "print(len(pair.listed))\n"),
            ("[*self.net.trainable_variables, self.bias]\n        self.bias = tf.Variable([1.0, 1.0])", ""),
        ],
        ids=["a Variable made there", "a comprehension", "read from outside", "an attribute bound again"],
    )
    def test_left_alone(self, applied, listed, after):
        text = HEAD + self.PAIR.format(listed=listed, after=after)
        assert applied(text, unsafe=True) == text
