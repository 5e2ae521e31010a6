"""What is run at all: the sketch never leaves out a function in which the model sees a gradient lost."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from tapefix.documents.document import Document
from tapefix.flow import How, RepositoryLoader, understand
from tapefix.flow.modules import no_modules
from tapefix.flow.syntax import nodes_of
from tapefix.flow.worth.outline import outline
from tapefix.flow.worth.prefilter import roots_of
from tapefix.flow.worth.sketch import Losing, losing_rows

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("TAP*/*/before.py"))
#: manners in which a value that carries a gradient loses it; with the others, the tape or its sources are wrong
ON_THE_WAY = list(How)[: list(How).index(How.UNWATCHED)]


def losing_in(document: Document) -> Losing:
    own = outline(document.filename, document.data)
    away = frozenset(name.decode() for name in own.away.names)
    imported = {alias.decode(): name for alias, (_, _, name) in own.imports.items()}
    return losing_rows(document.tree, frozenset(), away, imported)


def losing(program: str) -> set[int]:
    found = losing_in(Document("program.py", textwrap.dedent(program).encode()))
    return set(found.alone | found.called)


def outermost(tree: ast.Module, row: int) -> int:
    """The row of the outermost function around a row, 0 for module-level code."""
    around = [
        node.lineno
        for node in nodes_of(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= row <= (node.end_lineno or 0)
    ]
    return min(around, default=0)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: f"{p.parent.parent.name}-{p.parent.name}")
def test_where_a_gradient_is_lost_the_sketch_has_a_place(path: Path):
    document = Document(path, path.read_bytes())
    model = understand(document, RepositoryLoader())
    lost = {
        outermost(document.tree, cut.spot.node.lineno)  # type: ignore[attr-defined]
        for cut in model.cuts
        if cut.how in ON_THE_WAY and cut.spot.filename == document.filename
    }
    found = losing_in(document)
    assert lost <= found.alone | found.called


HEAD = """\
import numpy as np
import tensorflow as tf
from helpers import squash, squash as flat


"""


@pytest.mark.parametrize(
    "method",
    [
        "return tf.cast(x, tf.float32) * self.gain",
        "mask = tf.sequence_mask(self.lengths, 5)\n    return tf.where(mask, x, 0.0)",
        "if self.units > 3:\n      x = x + 1.0\n    return x",
        "if x is None or 'wide' in self.kinds:\n      return None\n    return x",
        "for i, part in enumerate(tf.unstack(x)):\n      self.parts[i] = part\n    return x[:, i]",
        "n = np.prod(x.shape[1:])\n    return tf.reshape(x, [-1, n])",
    ],
)
def test_code_that_loses_nothing_has_no_place(method: str):
    assert losing(HEAD + f"class Gate(tf.keras.layers.Layer):\n  def call(self, x):\n    {method}\n") == set()


@pytest.mark.parametrize(
    "method",
    [
        "return tf.cast(x > 0.5, tf.float32)",
        "return self.gate(x.numpy())",
        "if tf.reduce_mean(x) > 0.0:\n      return x\n    return -x",
        "table = np.zeros((3, 3))\n    table[0] = x\n    return table",
        "kept = []\n    kept.append(x)\n    return np.stack(kept)",
        "f = tf.round\n    return f(x)",
        "return tf.map_fn(tf.sign, x)",
        "return tf.map_fn(lambda row: tf.math.rint(row), x)",
        "return (lambda y: float(y))(x)",
        "self.state['last'] = x\n    return float(self.state['last'])",
        "pair = {'x': x}\n    return tf.stop_gradient(pair.get('x'))",
        "(y, _), z = (x, 1), 2\n    return int(y)",
        "first, *rest = tf.unstack(x)\n    return [int(r) for r in rest]",
        "return squash(x)",
        "return flat(x)",
        "return tf.map_fn(flat, x)",
        "return tf.keras.metrics.binary_accuracy(self.truth, x)",
        "w = tf.Variable(1.0)\n    return w * x",
        "return getattr(self, 'gate')(x).numpy()",
    ],
)
def test_code_that_may_lose_something_has_one(method: str):
    program = HEAD + f"class Gate(tf.keras.layers.Layer):\n  def call(self, x):\n    {method}\n"
    own = outline("program.py", program.encode())
    away = frozenset(name.decode() for name in own.away.names)
    imported = {alias.decode(): name for alias, (_, _, name) in own.imports.items()}
    assert losing_rows(ast.parse(program), frozenset({"squash"}), away, imported).alone


def test_what_another_layer_hands_over_is_told_apart():
    program = HEAD + textwrap.dedent(
        """\
        class Attend(tf.keras.layers.Layer):
          def call(self, x, gate):
            return x * tf.cast(gate, tf.int32)


        class Block(tf.keras.layers.Layer):
          def __init__(self):
            super().__init__()
            self.attend = Attend()
            self.dense = tf.keras.layers.Dense(3)

          def call(self, x):
            return self.attend(x, self.dense(x))
        """
    )
    found = losing_in(Document("program.py", program.encode()))
    assert found.alone == set()
    assert found.called == {7}


def test_a_layer_without_a_place_is_not_run():
    program = HEAD + "class Scale(tf.keras.layers.Layer):\n  def call(self, x, n):\n    return x * int(n)\n"
    assert not roots_of(Document("program.py", program.encode()), no_modules).rows
    program = program.replace("int(n)", "int(x)")
    assert roots_of(Document("program.py", program.encode()), no_modules).rows == {7}


def test_an_expression_that_is_nested_too_deeply_narrows_nothing():
    deep = "x" + " + x" * 700
    program = (
        HEAD + f"class Scale(tf.keras.layers.Layer):\n  def call(self, x, n):\n    y = {deep}\n    return x * int(n)\n"
    )
    assert roots_of(Document("program.py", program.encode()), no_modules).rows == {7}
