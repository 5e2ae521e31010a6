"""TAP102 where one method writes a Variable and another reads it: when the tensor is not handed back, and why."""

from __future__ import annotations

import pathlib

import pytest

from tapefix.codemod import Fix, Refusal
from tapefix.config import Config
from tapefix.documents.workspace import Workspace
from tapefix.engine import Checked, check_document
from tapefix.runner import load_tools

PROGRAM = """import tensorflow as tf
from tensorflow import keras


class Memory(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.code = keras.layers.Dense(3)

    def build(self, shape):
        self.state = self.add_weight(shape=(3,), initializer="zeros", trainable=False)

    def store(self, x):
{store}

    def lookup(self, x):
        return x * self.state

    def call(self, x):
{call}


memory = Memory()
x = tf.ones([4, 3])
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(memory(x))
grads = tape.gradient(loss, memory.trainable_variables)
"""
STORE = "new = 0.5 * self.state + tf.reduce_mean(self.code(x), axis=0)\nself.state.assign(new)"
CALL = "self.store(x)\nreturn x * self.state"


def outcome(store: str, call: str) -> tuple[Workspace, Fix | Refusal]:
    def indented(text: str) -> str:
        return "\n".join(f"        {line}" for line in text.split("\n"))

    name = str(pathlib.Path("program.py").absolute())
    text = PROGRAM.format(store=indented(store), call=indented(call))
    workspace = Workspace(lambda filename: text.encode() if filename == name else None)
    result = check_document(workspace, name, load_tools(Config()))
    assert isinstance(result, Checked)
    (finding,) = result.findings
    return workspace, finding.outcome


def test_a_tensor_that_has_a_name_is_returned_by_it() -> None:
    workspace, fix = outcome(STORE, CALL)
    assert isinstance(fix, Fix)
    after = workspace.edited(fix.edits).open(str(pathlib.Path("program.py").absolute())).text
    assert "        self.state.assign(new)\n        return new\n" in after
    assert "        state = self.store(x)\n        return x * state\n" in after


@pytest.mark.parametrize(
    ("store", "call", "reason"),
    [
        (STORE, "self.store(x)\nreturn self.lookup(x)", "by a function that calls `store` 0 times"),
        (STORE, "self.store(x)\nself.store(x)\nreturn x * self.state", "calls `store` 2 times"),
        (STORE, "for _ in range(2):\n    self.store(x)\nreturn x * self.state", "again and again"),
        (f"if x is None:\n    return\n{STORE}", CALL, "also returns on line"),
        (f"{STORE}\nreturn new, x", CALL, "can't take a further value"),
        (STORE, "keep = self.store\nkeep(x)\nreturn x * self.state", "not all calls of `store` are seen"),
        (STORE, "try:\n    self.store(x)\nfinally:\n    pass\nreturn x * self.state", "without line"),
    ],
)
def test_what_is_not_handed_back_says_why(store: str, call: str, reason: str) -> None:
    _, refusal = outcome(store, call)
    assert isinstance(refusal, Refusal), refusal
    assert reason in refusal.reason
