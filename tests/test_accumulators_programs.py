"""The ladder on programs that people write: each runs before and after, and the gradient is compared with differences.

A program defines `forward(x)`, which gives a number from a float32 tensor of shape (4, 3), all of whose entries matter.
"""

from __future__ import annotations

import ast
import linecache

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from accumulator_programs import buffers, rewritten  # noqa: E402
from tapefix.documents.document import Document  # noqa: E402
from tapefix.rewrite.accumulators import Plan, Rung, plan  # noqa: E402

PROLOGUE = "import numpy as np\nimport tensorflow as tf\n\nWEIGHTS = tf.constant([0.3, -1.1, 0.7])\n\n"

#: name -> (rung, program)
PROGRAMS: dict[str, tuple[int, str]] = {
    "rows of a NumPy array, one after the other": (
        1,
        """
def forward(x):
    out = np.zeros((4, 3))
    for i in range(4):
        out[i] = tf.tanh(x[i]) * (i + 1.0)
    return tf.reduce_sum(out * WEIGHTS)
""",
    ),
    "columns of a Variable, rebound at each write": (
        1,
        """
def forward(x):
    v = tf.Variable(tf.zeros_like(x))
    for k in range(x.shape[1]):
        step = tf.sin(x[:, k]) * WEIGHTS[k]
        v = v[:, k].assign(step)
    return tf.reduce_sum(v * v)
""",
    ),
    "cells in nested loops": (
        1,
        """
def forward(x):
    n, m = x.shape
    table = tf.Variable(tf.zeros([n, m]))
    for i in range(n):
        for j in range(m):
            table[i, j].assign(tf.exp(x[i, j]) * (i + 2 * j + 1))
    return tf.reduce_mean(table)
""",
    ),
    "several arrays in one loop": (
        1,
        """
def forward(x):
    count = len(x)
    means, spreads = np.zeros(count), np.zeros(count, dtype=np.float32)
    for i, row in enumerate(x):
        means[i] = tf.reduce_mean(row)
        spreads[i] = tf.math.reduce_std(row)
    return tf.reduce_sum(means * WEIGHTS[0] + tf.square(spreads))
""",
    ),
    "backwards": (
        1,
        """
def forward(x):
    out = np.empty((4, 3), np.float32)
    for i in reversed(range(4)):
        out[i, :] = x[i] * (i + 1)
    return tf.reduce_sum(out[1:] * out[:-1])
""",
    ),
    "counted by while": (
        1,
        """
def forward(x):
    out = np.zeros((4,))
    i = 0
    while i < 4:
        out[i] = tf.reduce_sum(x[i] * WEIGHTS)
        i += 1
    return tf.reduce_sum(tf.square(out))
""",
    ),
    "both branches write": (
        1,
        """
def forward(x):
    out = np.zeros((4, 3), dtype="float32")
    for i in range(4):
        if i % 2 == 0:
            out[i] = tf.sin(x[i])
        else:
            out[i] = tf.cos(x[i])
    return tf.reduce_sum(out * WEIGHTS)
""",
    ),
    "a first slot, then the loop": (
        1,
        """
def forward(x):
    out = np.zeros(4)
    out[0] = tf.reduce_sum(x[0])
    for t in range(1, 4):
        out[t] = tf.reduce_sum(x[t] * WEIGHTS)
    return tf.reduce_sum(tf.square(out)) + out[-1]
""",
    ),
    "a (1, d) value in a (d,) slot": (
        1,
        """
def forward(x):
    out = np.zeros((4, 3))
    for i in range(4):
        out[i, :] = tf.nn.softplus(x[i:i + 1])
    return tf.reduce_sum(out * WEIGHTS)
""",
    ),
    "a number in a row": (
        1,
        """
def forward(x):
    out = np.zeros((4, 3), dtype="float32")
    for i in range(4):
        out[i] = tf.reduce_sum(x[i] * WEIGHTS)
    return tf.reduce_sum(tf.square(out) * WEIGHTS)
""",
    ),
    "NumPy's methods afterwards": (
        1,
        """
def forward(x):
    out = np.zeros((4, 3))
    for i in range(4):
        out[i] = tf.tanh(x[i])
    turned = out.T
    flat = out.reshape(-1)
    total = tf.reduce_sum(turned[0]) + out.mean() + flat[3] * 2.0 + tf.reduce_sum(out.sum(axis=1))
    return total + out.astype("float32")[0, 0] + float(out.shape[0])
""",
    ),
    "a constant around it": (
        1,
        """
def forward(x):
    out = np.zeros((4, 3))
    for i in range(4):
        out[i] = tf.tanh(x[i])
    tensor = tf.convert_to_tensor(out, dtype=tf.float32)
    return tf.reduce_sum(tensor * WEIGHTS)
""",
    ),
    "float64 written out": (
        1,
        """
def forward(x):
    y = tf.cast(x, tf.float64)
    out = np.zeros((4, 3), dtype=np.float64)
    for i in range(4):
        out[i] = tf.sin(y[i])
    return tf.reduce_sum(out * tf.cast(WEIGHTS, tf.float64))
""",
    ),
    "an attribute in one method": (
        1,
        """
class Collector:
    def run(self, x):
        self.out = np.zeros((4, 3))
        for i in range(4):
            self.out[i] = tf.sin(x[i])
        return tf.reduce_sum(self.out * WEIGHTS)


def forward(x):
    return Collector().run(x)
""",
    ),
    "per sample and per position": (
        1,
        """
def forward(x):
    result = np.zeros((x.shape[0], 1, 3))
    for j, sample in enumerate(x):
        temp = np.zeros((3, 2))
        for i in range(3):
            temp[i, :] = tf.stack([[sample[i], sample[i] ** 2]])
        result[j, :, :] = tf.reshape(tf.reduce_sum(temp, axis=1), (1, 3))
    return tf.reduce_sum(result * WEIGHTS)
""",
    ),
    "inside the tape's block": (
        1,
        """
def forward(x):
    out = tf.Variable(tf.zeros([4, 3]))
    with tf.name_scope("fill"):
        for i in range(4):
            out[i].assign(tf.sin(x[i]))
        total = tf.reduce_sum(out * WEIGHTS)
    return total
""",
    ),
    "fancy index afterwards": (
        1,
        """
def forward(x):
    out = np.zeros((4, 3), dtype=np.float32)
    for i in range(4):
        out[i] = tf.sin(x[i])
    order = np.array([2, 0, 1, 3])
    return tf.reduce_sum(out[order] * tf.constant([[1.0], [2.0], [3.0], [4.0]])) + tf.reduce_sum(out[[0, 1]])
""",
    ),
    "an index shifted to the left": (
        1,
        """
def forward(x):
    out = np.zeros((4, 3), np.float32)
    for t in range(1, 5):
        out[t - 1] = x[t - 1] * t
    return tf.reduce_sum(tf.square(out))
""",
    ),
    "read back": (
        3,
        """
def forward(x):
    state = np.zeros((5, 3))
    for t in range(4):
        state[t + 1] = tf.tanh(state[t] * 0.5 + x[t])
    return tf.reduce_sum(state[1:] * WEIGHTS)
""",
    ),
    "added to": (
        3,
        """
def forward(x):
    sums = np.zeros(2)
    for i in range(4):
        sums[i % 2] += tf.reduce_sum(x[i] * WEIGHTS)
    return sums[0] * sums[1]
""",
    ),
    "rows added to": (
        3,
        """
def forward(x):
    sums = np.zeros((2, 3))
    for i in range(4):
        sums[i % 2] += x[i] * WEIGHTS
        sums[(i + 1) % 2] *= 0.5
    return tf.reduce_sum(tf.square(sums))
""",
    ),
    "an untouched front": (
        3,
        """
def forward(x):
    out = np.ones((6, 3), dtype="float32")
    for i in range(4):
        out[i + 2] = x[i] * x[i]
    return tf.reduce_sum(out * WEIGHTS * tf.reshape(tf.range(6.0), [6, 1]))
""",
    ),
    "skipped by continue": (
        3,
        """
def forward(x):
    out = np.full((5, 3), 2.0)
    for i in range(5):
        if i == 2:
            continue
        out[i] = tf.sin(x[i if i < 2 else i - 1])
    return tf.reduce_sum(tf.square(out))
""",
    ),
    "two positions at once": (
        3,
        """
def forward(x):
    table = np.zeros((4, 4), dtype="float32")
    for i in range(4):
        for j in range(i):
            d = tf.reduce_sum(tf.square(x[i] - x[j]) * WEIGHTS)
            table[i, j] = d
            table[j, i] = 2.0 * d
    return tf.reduce_sum(tf.square(table)) + tf.reduce_sum(table[1]) + tf.reduce_sum(x)
""",
    ),
    "a table of dynamic programming": (
        3,
        """
def forward(x):
    n, m = x.shape
    best = np.full((n + 1, m + 1), 9.0, dtype="float32")
    best[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            before = tf.stack([best[i - 1, j], best[i, j - 1], best[i - 1][j - 1]])
            best[i, j] = x[i - 1, j - 1] - tf.reduce_logsumexp(-before)
    return best[n, m]
""",
    ),
    "a helper fills it": (
        3,
        """
def fill(target, rows):
    for i in range(4):
        target[i] = tf.sin(rows[i])


def forward(x):
    out = np.zeros((4, 3))
    fill(out, x)
    return tf.reduce_sum(out * WEIGHTS)
""",
    ),
    "columns out of order": (
        3,
        """
def forward(x):
    out = np.zeros((4, 3), dtype="float32")
    for k in [2, 0, 1]:
        out[:, k] = tf.sin(x[:, k]) * (k + 1)
    return tf.reduce_sum(out * WEIGHTS)
""",
    ),
    "columns of a Variable read back": (
        3,
        """
def forward(x):
    v = tf.Variable(tf.zeros([4, 3]))
    for k in reversed(range(3)):
        right = v[:, k + 1] if k < 2 else tf.ones([4])
        v[:, k].assign(tf.tanh(right + x[:, k]))
    return tf.reduce_sum(v * WEIGHTS)
""",
    ),
    "a Variable kept in an attribute, reset, written by another method": (
        3,
        """
class Store:
    def __init__(self):
        self.shelf = tf.Variable(tf.zeros([6, 3]), trainable=False)

    def reset(self):
        self.shelf.assign(tf.zeros_like(self.shelf))

    def put(self, week, amount):
        self.shelf[week].assign(self.shelf[week] + amount)

    def total(self, x):
        self.reset()
        result = tf.zeros([3])
        for week in range(4):
            result += self.shelf[week] * WEIGHTS
            self.put(week + 1, x[week] * x[week])
            self.put(week + 2, 0.5 * x[week])
        return tf.reduce_sum(result) + tf.reduce_sum(self.shelf)


STORE = Store()


def forward(x):
    return STORE.total(x)
""",
    ),
    "the whole is read in the loop": (
        3,
        """
def forward(x):
    memory = np.zeros((4, 3), dtype="float32")
    score = 0.0
    for i in range(4):
        memory[i] = x[i] * WEIGHTS
        score += tf.reduce_sum(tf.square(tf.reduce_sum(memory, axis=0)))
    return score
""",
    ),
    "a part of a row": (
        4,
        """
def forward(x):
    kept = np.zeros((4, 3), dtype="float32")
    for row, length in enumerate([1, 3, 2, 3]):
        kept[row, :length] = x[row, :length] * x[row, :length]
    return tf.reduce_sum(kept * WEIGHTS) + tf.reduce_sum(x)
""",
    ),
    "blocks": (
        4,
        """
def forward(x):
    canvas = np.zeros((6, 6))
    for r in range(2):
        for c in range(3):
            canvas[3 * r:3 * r + 3, 2 * c:2 * c + 2] += tf.ones((3, 2)) * x[r, c] * x[r + 2, c]
    return tf.reduce_sum(canvas * canvas)
""",
    ),
    "a slice and a row": (
        4,
        """
def forward(x):
    out = np.zeros((6, 3))
    out[1:5] = tf.sin(x)
    out[-1] = x[0]
    return tf.reduce_sum(tf.square(out))
""",
    ),
    "a mask": (
        4,
        """
def forward(x):
    out = np.ones((4, 3), dtype="float32")
    keep = np.array([[True, False, True]] * 4)
    out[keep] = tf.reshape(tf.gather(x, [0, 2], axis=1), [-1]) * 2.0
    return tf.reduce_sum(tf.square(out)) + tf.reduce_sum(x)
""",
    ),
    "rows scattered into a Variable": (
        4,
        """
def forward(x):
    v = tf.Variable(tf.ones([3, 3]))
    v.scatter_nd_add([[0], [2]], x[:2])
    v.scatter_add(tf.IndexedSlices(x[2:], [0, 0]))
    v.scatter_sub(tf.IndexedSlices(x[1:3] * x[1:3], [1, 2]))
    return tf.reduce_sum(v * v * WEIGHTS)
""",
    ),
    "the whole assigned by scattering": (
        4,
        """
def forward(x):
    v = tf.Variable(tf.zeros([4, 3]))
    for i in range(4):
        v.assign(tf.tensor_scatter_nd_update(v, [[i]], [tf.sin(x[i])]))
    v.assign_add(x * 0.5)
    v.assign_sub(x * x * 0.25)
    return tf.reduce_sum(v * WEIGHTS)
""",
    ),
    "diagonal first, then the rest": (
        4,
        """
def forward(x):
    m = tf.Variable(tf.eye(3))
    m[0, :].assign(x[0])
    m[:, 1].assign(x[1] * WEIGHTS)
    return tf.reduce_sum(tf.matmul(m, m)) + tf.reduce_sum(x)
""",
    ),
    "a position given by a tensor of the data": (
        4,
        """
def forward(x):
    out = np.zeros((4, 3), dtype="float32")
    where = np.argsort([3, 1, 2, 0])
    for i in range(4):
        out[where[i]] = x[i] * (i + 1)
    return tf.reduce_sum(out * tf.reshape(tf.range(12.0), [4, 3]))
""",
    ),
    "state that is kept": (
        4,
        """
class Memory(tf.Module):
    def __init__(self):
        self.state = tf.Variable(tf.ones([3]), trainable=False)

    def step(self, row):
        self.state.assign(tf.tanh(0.5 * self.state + row))
        return tf.reduce_sum(self.state * WEIGHTS)


def forward(x):
    memory = Memory()
    memory.state.assign(tf.ones([3]))
    return memory.step(x[0]) + tf.reduce_sum(tf.square(x))
""",
    ),
    "an accumulator kept in an attribute": (
        4,
        """
class Meter:
    def __init__(self):
        self.total = tf.Variable(0.0)

    def __call__(self, x):
        self.total.assign(0.0)
        for i in range(4):
            self.total.assign_add(tf.reduce_sum(x[i] * x[i] * WEIGHTS))
        return self.total * 2.0


METER = Meter()


def forward(x):
    return METER(x)
""",
    ),
    "a float64 target": (
        1,
        """
TARGET = tf.constant(np.linspace(0.0, 1.0, 12).reshape(4, 3))


def forward(x):
    out = np.zeros((4, 3))
    for i in range(4):
        out[i] = tf.sin(x[i])
    return tf.cast(tf.reduce_sum(tf.square(out - TARGET)), tf.float32)
""",
    ),
    "a function fills slices of its argument": (
        4,
        """
def overlap(signal, frames):
    for k in range(4):
        signal[k:k + 3].assign(signal[k:k + 3] + frames[k])


def forward(x):
    audio = tf.Variable(tf.zeros([6]))
    overlap(audio, x * x)
    return tf.reduce_sum(tf.square(audio))
""",
    ),
    "a Variable of the module": (
        4,
        """
scale = tf.Variable(1.0, trainable=False)


def refresh(x):
    scale.assign(tf.reduce_sum(x * x))


def forward(x):
    refresh(x)
    return tf.reduce_sum(x) / scale
""",
    ),
    "the result of a write": (
        4,
        """
def forward(x):
    v = tf.Variable(tf.zeros([4, 3]))
    y = v.assign(x * x)
    return tf.reduce_sum(y * WEIGHTS)
""",
    ),
    "a closure writes": (
        3,
        """
def forward(x):
    out = np.zeros((4, 3))

    def put(i, row):
        out[i] = row

    for i in range(4):
        put(i, tf.sin(x[i]))
    return tf.reduce_sum(out * WEIGHTS)
""",
    ),
    "a second name within one pass": (
        4,
        """
def forward(x):
    state = tf.Variable(tf.ones([3]))
    total = 0.0
    for i in range(4):
        state.assign(tf.tanh(state * 0.5 + x[i]))
        now = state
        total += tf.reduce_sum(now * WEIGHTS)
    return total
""",
    ),
    "a Variable made of tensors": (
        0,
        """
def forward(x):
    kernel = tf.Variable(tf.matmul(x, x, transpose_a=True), name="kernel", trainable=False)
    pair = tf.Variable([x[0, 0], x[1, 1]], dtype=tf.float32)
    return tf.reduce_sum(kernel * kernel) + tf.reduce_sum(pair * pair)
""",
    ),
}

GRAPH = """
@tf.function
def forward(x):
    n = tf.shape(x)[0]
    out = tf.Variable(tf.zeros([n, 3]))
    for i in tf.range(n):
        out[i].assign(tf.sin(x[i]))
    return tf.reduce_sum(out * WEIGHTS)
"""


def execute(text: str, space: dict[str, object]) -> None:
    """Runs a program from memory; AutoGraph finds its source where tracebacks do."""
    filename = f"<program {hash(text)}>"
    source = text if "import tensorflow" in text else PROLOGUE + text
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), space)


def run(text: str, x: np.ndarray) -> tuple[float, np.ndarray | None]:
    """The value of `forward` and its gradient in `x`."""
    space: dict[str, object] = {}
    execute(text, space)
    source = tf.Variable(x)
    with tf.GradientTape() as tape:
        value = tf.convert_to_tensor(space["forward"](tf.identity(source)))  # type: ignore[operator]
    gradient = tape.gradient(value, source)
    return float(value), None if gradient is None else tf.convert_to_tensor(gradient).numpy()


def differences(text: str, x: np.ndarray) -> np.ndarray:
    """Central differences of the untouched program's value."""
    space: dict[str, object] = {}
    execute(text, space)
    step, result = 2e-2, np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        up, down = (float(space["forward"](tf.constant(m))) for m in moved)  # type: ignore[operator]
        result[place] = (up - down) / (2 * step)
    return result


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(4).uniform(0.2, 1.4, (4, 3)).astype("float32")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_is_there_and_the_value_is_the_same(name: str, x: np.ndarray) -> None:
    _, program = PROGRAMS[name]
    after, refusals = rewritten(PROLOGUE + program)
    assert not refusals or "kept" in name, [r.reason for r in refusals]
    wanted = differences(program, x)
    value, gradient = run(program, x)
    assert gradient is None or not np.allclose(gradient, wanted, rtol=5e-2, atol=5e-3), "nothing is cut in the program"
    new_value, new_gradient = run(after, x)
    assert new_value == pytest.approx(value, rel=1e-5)
    assert new_gradient is not None
    np.testing.assert_allclose(new_gradient, wanted, rtol=3e-2, atol=2e-3 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_plainest_right_rung_is_taken(name: str) -> None:
    rung, program = PROGRAMS[name]
    document = Document("program.py", (PROLOGUE + program).encode())
    plans = [plan(document, buffer) for buffer in buffers(document)]
    assert plans
    assert all(isinstance(p, Plan) for p in plans)
    assert {p.rung for p in plans if isinstance(p, Plan)} == {Rung(rung) if rung else None}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_application_changes_nothing(name: str) -> None:
    after, _ = rewritten(PROLOGUE + PROGRAMS[name][1])
    ast.parse(after)
    assert rewritten(after)[0] == after


def test_a_loop_of_the_graph_writes_a_tensor_array(x: np.ndarray) -> None:
    after, refusals = rewritten(PROLOGUE + GRAPH)
    assert not refusals
    assert "tf.TensorArray(tf.float32, size=n)" in after
    value, gradient = run(after, x)
    weights = np.array([0.3, -1.1, 0.7], "float32")
    assert value == pytest.approx(float((np.sin(x) * weights).sum()), rel=1e-5)
    np.testing.assert_allclose(gradient, np.cos(x) * weights, rtol=1e-4)
