"""The repairs of TAP105, TAP201-TAP209 and TAP502: to the letter, and what is refused with which reason.

An after.py is what `apply` makes of before.py (`apply --unsafe-fixes` where the case calls for judgement); that such
programs train is the matter of test_repairs.py.
"""

from __future__ import annotations

import ast
import pathlib

import pytest

from rule_programs import after, applied, findings, golden, wants_judgement
from tapefix.codemod import Applicability, Refusal

GOLDEN = golden("TAP105", *(f"TAP20{k}" for k in range(1, 10)))
each_golden = pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.parent.name}-{case.name}")

HEAD = """import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(3)])
x, y = np.ones((8, 3), np.float32), np.zeros(8, np.int64)
"""
TRAIN = """
with tf.GradientTape() as tape:
    loss = loss_of(x, y)
grads = tape.gradient(loss, model.trainable_variables)
"""


def program(body: str, train: str = TRAIN) -> str:
    return HEAD + body.strip("\n") + "\n" + train


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) > 90


@each_golden
def test_the_repair_to_the_letter(case: pathlib.Path) -> None:
    before = (case / "before.py").read_text(encoding="utf-8")
    made = after(before, wants_judgement(case))
    assert made == (case / "after.py").read_text(encoding="utf-8")
    ast.parse(made)


@each_golden
def test_a_second_apply_changes_nothing(case: pathlib.Path) -> None:
    assert not applied((case / "after.py").read_text(encoding="utf-8"), wants_judgement(case)).applied


#: what is repaired -> (body, lines that are there afterwards)
REPAIRED = {
    "rows are picked by positions": (
        """
def loss_of(x, y):
    log_p = tf.nn.log_softmax(model(x)).numpy()
    return -tf.reduce_mean(log_p[np.arange(len(y)), y])
""",
        [
            "log_p = tf.nn.log_softmax(model(x))",
            "return -tf.reduce_mean(tf.gather_nd(log_p, tf.stack([np.arange(len(y)), y], axis=-1)))",
        ],
    ),
    "rows are put in another order": (
        """
def loss_of(x, y):
    order = np.argsort(x[:, 0])
    return tf.reduce_mean(model(x).numpy()[order])
""",
        ["return tf.reduce_mean(tf.gather(model(x), order))"],
    ),
    "what a mask of itself selects is overwritten": (
        """
def loss_of(x, y):
    out = model(x).numpy()
    out[out < 0] = 0.0
    return tf.reduce_mean(out)
""",
        ["out = model(x)", "out = tf.where(out < 0, tf.cast(0.0, out.dtype), out)"],
    ),
    "a vector of an unknown rank meets a matrix product": (
        """
def energy(v, spread):
    inverse = np.linalg.inv(spread)
    return v @ inverse @ v

def loss_of(x, y):
    out = model(x)
    return energy(np.ones(3, np.float32), tf.matmul(out, out, transpose_a=True))
""",
        [
            "inverse = tf.linalg.inv(spread)",
            "return tf.experimental.numpy.matmul(tf.experimental.numpy.matmul(tf.cast(v, inverse.dtype), inverse), v)",
        ],
    ),
    "the number is also rounded for a print": (
        """
def loss_of(x, y):
    size = float(tf.norm(model(x)))
    print(round(size, 3), f"{size:.2f}")
    return tf.constant(size)
""",
        ["size = tf.norm(model(x))", 'print(round(float(size), 3), f"{size:.2f}")'],
    ),
    "all NumPy calls of a function go together": (
        """
def loss_of(x, y):
    out = model(x)
    dot = np.sum(out * x, axis=1)
    return tf.reduce_mean(dot / (np.sqrt(np.sum(out * out, axis=1)) + 1e-6))
""",
        [
            "dot = tf.reduce_sum(out * x, axis=1)",
            "return tf.reduce_mean(dot / (tf.sqrt(tf.reduce_sum(out * out, axis=1)) + 1e-6))",
        ],
    ),
    "a function is handed to map": (
        """
def loss_of(x, y):
    rows = [model(x[:4]), model(x[4:])]
    return tf.add_n([tf.reduce_sum(row) for row in map(np.exp, rows)])
""",
        ["return tf.add_n([tf.reduce_sum(row) for row in map(tf.exp, rows)])"],
    ),
    "an array gets another type on its way into a tensor": (
        """
def loss_of(x, y):
    out = model(x).numpy()
    return tf.reduce_mean(tf.convert_to_tensor(out, dtype=tf.float64))
""",
        ["return tf.reduce_mean(tf.cast(out, tf.float64))"],
    ),
    "a constant repeats one number": (
        """
def loss_of(x, y):
    return tf.reduce_sum(tf.constant(float(tf.reduce_mean(model(x))), shape=[3]))
""",
        ["return tf.reduce_sum(tf.broadcast_to(tf.reduce_mean(model(x)), [3]))"],
    ),
    "a library function that TensorFlow has": (
        """
import statistics

def loss_of(x, y):
    return tf.convert_to_tensor(statistics.fmean(tf.reshape(model(x), [-1])))
""",
        ["return tf.convert_to_tensor(tf.reduce_mean(tf.reshape(model(x), [-1])))"],
    ),
    "the tape opens after the forward pass": (
        """
def loss_of(x, y):
    return 0.0
""",
        ["    out = model(x)", "    loss = tf.reduce_mean(out)"],
    ),
}
OPENED_LATE = """
out = model(x)
scaled = 2.0 * out
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(out)
grads = tape.gradient(loss, model.trainable_variables)
"""


@pytest.mark.parametrize("what", REPAIRED)
def test_the_repair_is_safe_and_reads_as_a_person_would_write_it(what: str) -> None:
    body, expected = REPAIRED[what]
    made = after(program(body, OPENED_LATE if "opens" in what else TRAIN)).splitlines()
    assert [line for line in expected if line.strip() not in map(str.strip, made)] == []


#: what is left alone -> (body, part of the reason)
REFUSED = {
    "elements of the array are assigned": (
        """
def loss_of(x, y):
    out = model(x).numpy()
    out[:, 0] = 0.0
    return tf.reduce_mean(out)
""",
        "elements cannot be assigned",
    ),
    "a helper's other results are written into": (
        """
def normalise(a):
    a = np.asarray(a)
    return a - a.mean(axis=0)

clean = normalise(x)
clean[0] = 0.0

def loss_of(x, y):
    return tf.reduce_mean(tf.square(normalise(model(x)) - clean))
""",
        "elements cannot be assigned",
    ),
    "the number is also written as JSON": (
        """
import json
history = []

def loss_of(x, y):
    size = float(tf.norm(model(x)))
    history.append(size)
    json.dumps(history)
    return tf.constant(size)
""",
        "JSON",
    ),
    "a whole number": (
        """
def loss_of(x, y):
    return tf.constant(1.0) * int(tf.norm(model(x)))
""",
        "whole number",
    ),
    "predict is given a dataset": (
        """
batches = tf.data.Dataset.from_tensor_slices(x).batch(4)

def loss_of(x, y):
    return tf.reduce_mean(model.predict(batches))
""",
        "dataset",
    ),
    "predict has callbacks of its own arguments": (
        """
def loss_of(x, y):
    return tf.reduce_mean(model.predict(x, extra=3))
""",
        "`extra=`",
    ),
    "evaluate gives a number": (
        """
model.compile(loss="mse")

def loss_of(x, y):
    return tf.constant(model.evaluate(x, x))
""",
        "compute the loss from the model's output",
    ),
    "the roll-out runs in Python": (
        """
def play():
    return model(x[:1]).numpy()

@tf.function
def twice(x):
    return 2.0 * x

@tf.function
def loss_of(x, y):
    return twice(tf.reduce_mean(tf.numpy_function(play, [], tf.float32)))
""",
        "run the model on the states under the tape",
    ),
    "the function repeats until it stands still": (
        """
def settle(out):
    while np.abs(out).max() > 1e-3:
        out = out / 2
    return out

def loss_of(x, y):
    return tf.reduce_mean(tf.numpy_function(settle, [model(x)], tf.float32))
""",
        "custom_gradient",
    ),
    "another library without a counterpart": (
        """
from scipy import ndimage

def loss_of(x, y):
    return tf.reduce_mean(ndimage.gaussian_filter(model(x), 1.0))
""",
        "tf.nn.conv2d",
    ),
    "a module of modules has no weights of its own": (
        """
class Inner(tf.Module):
    def __init__(self):
        self.w = tf.Variable(2.0)

    def __call__(self, x):
        return self.w * x


class Outer(tf.Module):
    def __init__(self):
        self.inner = Inner()
        self.b = tf.Variable(1.0)

    def __call__(self, x):
        return self.inner(x) + self.b


rate = tf.Variable(0.1)
net = Outer()

def loss_of(x, y):
    with tf.GradientTape() as inner:
        first = tf.reduce_mean(net(model(x)))
    grads = inner.gradient(first, net.trainable_variables)
    for v, g in zip(net.trainable_variables, grads):
        v.assign_sub(rate * g)
    return tf.reduce_mean(net(model(x)))
""",
        "holds more than one Variable",
    ),
    "Keras 2 has no stateless_call": (
        """
optimizer = tf.keras.optimizers.legacy.SGD(0.1)

def loss_of(x, y):
    model.set_weights([2.0 * w for w in model.trainable_variables])
    return tf.reduce_mean(model(x))
""",
        "stateless_call",
    ),
    "weights that are written hold statistics too": (
        """
norm = tf.keras.layers.BatchNormalization()

def loss_of(x, y):
    model.set_weights([2.0 * w for w in model.trainable_variables])
    return tf.reduce_mean(model(x))
""",
        "statistics",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_says_why(what: str) -> None:
    body, reason = REFUSED[what]
    text = program(body)
    outcomes = [finding.outcome for finding in findings(text)]
    assert any(isinstance(one, Refusal) and reason in one.reason for one in outcomes), outcomes
    assert after(text) == text


ROLL_OUT = """
def play():
    terms, state = [], x[:1]
    for _ in range(4):
        log_p = tf.nn.log_softmax(model(state))[0]
        action = np.random.randint(3)
        terms.append({stored})
        state = state + 0.1
    return terms


for episode in range(2):
    terms = play()
    with tf.GradientTape() as tape:
        # the sum of what was played
        loss = tf.add_n(terms)
    grads = tape.gradient(loss, model.trainable_variables)
"""
WIDENED = """\
for episode in range(2):
    with tf.GradientTape() as tape:
        terms = play()
        # the sum of what was played
        loss = tf.add_n(terms)
    grads = tape.gradient(loss, model.trainable_variables)
"""


def test_a_tape_that_opens_after_a_roll_out_of_tensors_opens_before_it() -> None:
    text = program(ROLL_OUT.replace("{stored}", "log_p[action]"), "")
    assert after(text).endswith(WIDENED)


def test_numbers_stored_in_a_roll_out_are_a_matter_of_judgement() -> None:
    text = program(ROLL_OUT.replace("{stored}", "log_p[action].numpy()"), "")
    (found,) = findings(text)
    assert found.code == "TAP209"
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE
    assert any("store the inputs" in choice for choice in found.fix.alternatives)
    assert after(text) == text
    made = after(text, unsafe=True)
    assert "terms.append(log_p[action])" in made
    assert made.endswith(WIDENED)


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("tape = None\nout = model(x)\nprint(tape)\nwith tf.GradientTape() as tape:", "uses the name `tape`"),
        ("out = model(x)\nkeep = True\nwith tf.GradientTape(persistent=keep) as tape:", "which the tape is made with"),
        ("out = model(x)\nmodel.fit(x, x)\nwith tf.GradientTape() as tape:", "trains a model by itself"),
        ("out = model(x)\nwith tf.device('cpu'), tf.GradientTape() as tape:", "opens something else"),
        (
            "out = tf.keras.Sequential([tf.keras.layers.Dense(2)])(model(x))\n"
            "for _ in range(2):\n  with tf.GradientTape() as tape:",
            "new in each step",
        ),
        ("out = model(next(iter([x])))\nfor _ in range(2):\n  with tf.GradientTape() as tape:", "takes something new"),
    ],
)
def test_a_tape_is_not_opened_earlier_where_that_changes_more(before: str, reason: str) -> None:
    text = HEAD + before + "\n    loss = tf.reduce_mean(out)\ngrads = tape.gradient(loss, model.trainable_variables)\n"
    outcomes = [finding.outcome for finding in findings(text) if finding.code == "TAP502"]
    assert [one for one in outcomes if isinstance(one, Refusal) and reason in one.reason], outcomes


def test_a_generator_made_before_the_tape_runs_inside_it() -> None:
    text = program(
        """
def play():
    for row in x:
        yield tf.reduce_sum(model(row[None]))

terms = play()
""",
        """
with tf.GradientTape() as tape:
    loss = tf.add_n(list(terms))
grads = tape.gradient(loss, model.trainable_variables)
""",
    )
    assert not [finding for finding in findings(text) if finding.code == "TAP502"]


def test_a_forward_pass_before_the_loop_moves_into_the_block() -> None:
    text = program(
        "out = model(x)\ncentred = out - 1.0",
        """
for step in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(centred)
    grads = tape.gradient(loss, model.trainable_variables)
""",
    )
    (found,) = findings(text)
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE
    assert "        out = model(x)\n        centred = out - 1.0\n        loss =" in after(text, unsafe=True)


INNER_STEPS = """
task = tf.keras.models.clone_model(model)

def loss_of(x, y):
    task.set_weights(model.get_weights())
    for _ in range(2):
        with tf.GradientTape() as inner:
            support = tf.reduce_mean(task(x))
        slopes = inner.gradient(support, task.trainable_variables)
        for v, g in zip(task.trainable_variables, slopes):
            v.assign_sub(0.1 * g)
    return tf.reduce_mean(task(x, training=True))
"""
FUNCTIONAL = """
def loss_of(x, y):
    fast_weights = [tf.convert_to_tensor(w) for w in model.trainable_variables]
    for _ in range(2):
        with tf.GradientTape() as inner:
            inner.watch(fast_weights)
            support = tf.reduce_mean(task.stateless_call(fast_weights, task.non_trainable_variables, x)[0])
        slopes = inner.gradient(support, fast_weights)
        fast_weights = [v - 0.1 * g for v, g in zip(fast_weights, slopes)]
    return tf.reduce_mean(task.stateless_call(fast_weights, task.non_trainable_variables, x, training=True)[0])
"""


def test_inner_steps_on_a_copied_model_become_functional() -> None:
    text = program(INNER_STEPS)
    assert after(text) == text
    assert FUNCTIONAL in after(text, unsafe=True)
    assert all(found.fix and found.fix.alternatives for found in findings(text))


def test_inner_steps_on_the_model_itself_become_functional() -> None:
    text = program(
        """
rate = tf.Variable(0.1)

def loss_of(x, y):
    params = model.trainable_variables
    saved = [v.numpy() for v in params]
    for _ in range(2):
        with tf.GradientTape() as inner:
            support = tf.reduce_mean(model(x))
        slopes = inner.gradient(support, params)
        for p, s in zip(params, slopes):
            p.assign(p - rate * s)
    return tf.reduce_mean(model(x))
""",
        """
with tf.GradientTape() as tape:
    loss = loss_of(x, y)
grads = tape.gradient(loss, [rate])
""",
    )
    made = after(text, unsafe=True)
    assert "        slopes = inner.gradient(support, fast_weights)\n" in made
    assert "        fast_weights = [p - rate * s for p, s in zip(fast_weights, slopes)]\n" in made
    assert "p.assign" not in made


STEP = """
w = tf.Variable(tf.ones((3, 1)))
rate = tf.Variable(0.1)

def predict(w, x):
    return tf.matmul(x, w)

def loss_of(x, y):
    before = tf.identity(w)
    with tf.GradientTape() as inner:
        support = tf.reduce_mean(predict(w, x))
    slope = inner.gradient(support, w)
    w.assign_sub(rate * slope)
    query = tf.reduce_mean(tf.square(predict(w, x)))
    {restore}
    return query
"""
STEP_TRAIN = """
with tf.GradientTape() as tape:
    loss = loss_of(x, y)
grads = tape.gradient(loss, [rate])
"""


def test_a_step_of_a_variable_that_is_put_back_is_only_computed() -> None:
    made = after(program(STEP.replace("{restore}", "w.assign(before)"), STEP_TRAIN), unsafe=True)
    assert "    stepped_w = w - rate * slope\n    query = tf.reduce_mean(tf.square(predict(stepped_w, x)))\n" in made
    assert "w.assign(before)" in made
    assert "assign_sub" not in made


def test_a_step_of_a_variable_that_keeps_it_is_also_written() -> None:
    made = after(program(STEP.replace("{restore}", "pass"), STEP_TRAIN), unsafe=True)
    assert "    stepped_w = w - rate * slope\n    w.assign_sub(rate * slope)\n" in made
    assert "predict(stepped_w, x)" in made


def test_a_roll_out_is_played_under_the_tape_where_nothing_else_is_compiled() -> None:
    text = program(
        """
def play():
    return model(x[:1]).numpy()

@tf.function
def loss_of(x, y):
    return tf.reduce_mean(tf.numpy_function(play, [], tf.float32))
"""
    )
    assert after(text) == text
    made = after(text, unsafe=True)
    assert "    return model(x[:1])\n\ndef loss_of(x, y):\n    return tf.reduce_mean(play())\n" in made


@pytest.mark.parametrize(
    ("method", "given", "used"),
    [
        ("__float__(self)", "float(self.raw)", "float(scale) * tf.reduce_sum(x)"),
        ("__array__(self, dtype=None)", "self.raw.numpy()", "tf.reduce_sum(tf.multiply(x, scale))"),
        ("__array__(self, dtype=None)", "self.raw.numpy()", "tf.reduce_sum(x * scale)"),
    ],
)
def test_a_method_that_has_to_give_numbers_is_not_made_to_give_tensors(method: str, given: str, used: str) -> None:
    text = HEAD + (
        "class Scale:\n"
        "    def __init__(self):\n        self.raw = tf.Variable(2.0)\n"
        f"    def {method}:\n        return {given}\n"
        "scale = Scale()\n"
        f"with tf.GradientTape() as tape:\n    loss = {used}\n"
        "grads = tape.gradient(loss, scale.raw)\n"
    )
    outcomes = [finding.outcome for finding in findings(text) if finding.code in ("TAP201", "TAP203")]
    reasons = [one.reason if isinstance(one, Refusal) else one.message for one in outcomes]
    assert reasons
    assert all("has to give Python numbers" in reason for reason in reasons), reasons
