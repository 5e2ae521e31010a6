"""Loops over samples in their batched form: same value, one run of the layers per position, and what stops it."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from accumulator_programs import buffers  # noqa: E402
from tapefix.codemod import Applicability, Refusal  # noqa: E402
from tapefix.documents.document import Document  # noqa: E402
from tapefix.rewrite.accumulators import Plan, plan_batched  # noqa: E402

NESTED = """import numpy as np
import tensorflow as tf


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.local = tf.keras.layers.Dense(5, activation="tanh")
        self.head = tf.keras.layers.Dense(3)

    def call(self, batch):
        result = np.zeros((batch.shape[0], batch.shape[1], 3))
        for j in range(batch.shape[0]):
            # the positions of one sample
            steps = np.zeros((batch.shape[1], 5))
            for i in range(batch.shape[1]):
                position = tf.reshape(batch[j, i], (1, 4))
                steps[i, :] = self.local(position)
            result[j, :, :] = self.head(tf.expand_dims(steps, 0))
        return result
"""

ENUMERATED = """import numpy as np
import tensorflow as tf


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.first = tf.keras.layers.Dense(5, activation="tanh")
        self.second = tf.keras.layers.Dense(3)

    def call(self, batch):
        flat = tf.reshape(batch, (batch.shape[0], -1))
        out = np.zeros((len(flat), 3), dtype="float32")
        for j, x in enumerate(flat):
            hidden = self.first(x[None, :]) * 2.0
            out[j] = self.second(hidden)[0]
        return tf.constant(out)
"""

MIXED = """import numpy as np
import tensorflow as tf


def forward(model, batch):
    out = np.zeros((batch.shape[0], 3))
    for j in range(batch.shape[0]):
        out[j] = {value}
    return out
"""


def planned(text: str) -> Plan | Refusal:
    document = Document("program.py", text.encode())
    found = buffers(document)
    return plan_batched(document, found[0], found[1:])


def output(text: str, x: np.ndarray) -> tuple[np.ndarray, int]:
    """The model's result under a fixed seed, and how often its layers ran."""
    space: dict[str, object] = {}
    exec(compile(text, "program.py", "exec"), space)
    tf.keras.utils.set_random_seed(3)
    model = space["Model"]()  # type: ignore[operator]
    runs = 0
    for layer in model.layers:
        original = layer.call

        def counted(*args: object, original: object = original, **kwargs: object) -> object:
            nonlocal runs
            runs += 1
            return original(*args, **kwargs)  # type: ignore[operator]

        layer.call = counted
    model.call(tf.constant(x))
    runs = 0
    return np.asarray(model.call(tf.constant(x))), runs


@pytest.mark.parametrize(("program", "runs_before", "runs_after"), [(NESTED, 20, 5), (ENUMERATED, 8, 2)])
def test_the_batched_form_gives_the_same_in_fewer_runs(program: str, runs_before: int, runs_after: int) -> None:
    outcome = planned(program)
    assert isinstance(outcome, Plan)
    assert outcome.applicability is Applicability.UNSAFE
    after = Document("program.py", program.encode()).apply(outcome.edits).text
    assert "np.zeros" not in after
    x = np.random.default_rng(2).normal(size=(4, 4, 4)).astype("float32")
    before, ran = output(program, x)
    batched, ran_batched = output(after, x)
    np.testing.assert_allclose(batched, before, rtol=1e-5, atol=1e-6)
    assert (ran, ran_batched) == (runs_before, runs_after)


def test_comments_of_the_loop_survive() -> None:
    outcome = planned(NESTED)
    assert isinstance(outcome, Plan)
    assert (
        "        # the positions of one sample\n        steps = []"
        in Document("p.py", NESTED.encode()).apply(outcome.edits).text
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("model(batch[j])", "without a batch axis"),
        ("model(batch[j][None]) * j", "uses the number of the sample"),
        ("tf.reduce_mean(batch[j])", "can't be called with a whole batch"),
        ("model(batch[j][None])[0] + model(batch[j - 1][None])[0]", "depends on the sample's number"),
        ("tf.reshape(batch[j], (3,))", "not that of a batch of one"),
    ],
)
def test_what_can_not_be_batched_is_refused(value: str, reason: str) -> None:
    outcome = planned(MIXED.format(value=value))
    assert isinstance(outcome, Refusal)
    assert reason in outcome.reason
