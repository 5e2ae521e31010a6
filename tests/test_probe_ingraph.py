"""What a graph measures of its own gradients: norms as NumPy computes them, a row a run, none of the later ones."""

import math

import numpy as np
import pytest

from tapefix.probe.ingraph import Measured

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")


def traced(make, steps=3):
    """A function whose graph measures the target and the gradients that `make` gives for its argument."""
    made = []

    @tf.function
    def run(x):
        target, gradients = make(x)
        made.append(Measured(tf, target, gradients, steps))
        return tf.constant(0)

    return run, made


def measured(make, argument):
    run, made = traced(make)
    run(tf.constant(argument))
    ((loss, norms),) = made[-1].news()
    return loss, norms


@pytest.mark.parametrize(
    ("array", "norm"),
    [
        (np.float32([[3.0, 4.0]]), 5.0),
        (np.float64([3.0, 4.0]), 5.0),
        (np.float16([300.0, 400.0]), 500.0),  # its square is beyond the type
        (np.complex64([3.0 + 4.0j]), 5.0),
        (np.float32([3e30, 4e30]), 5e30),
        (np.float32([3e-30, 4e-30]), 5e-30),
        (np.zeros(4, np.float32), 0.0),
        (np.zeros((0, 3), np.float32), 0.0),
    ],
)
def test_the_norm_is_that_of_double_precision(array, norm):
    loss, norms = measured(lambda x: ([], [x]), array)
    assert loss == 0.0
    assert norms == [pytest.approx(norm, rel=1e-3)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stays_so_and_spoils_no_other(value):
    _, norms = measured(lambda x: ([], [x, tf.ones(4)]), np.float32([1.0, value]))
    assert not math.isfinite(norms[0])
    assert norms[1] == pytest.approx(2.0)


def test_rows_of_one_index_are_added_before_the_norm():
    def make(x):
        return [], [tf.IndexedSlices(x, tf.constant([7, 2, 7]), tf.constant([9, 1]))]

    assert measured(make, np.float32([[1.0], [3.0], [3.0]]))[1] == [pytest.approx(5.0)]


def test_the_loss_is_the_sum_of_all_targets():
    assert measured(lambda x: ([x, 2.0 * x], []), np.float32([1.0, 2.0])) == (9.0, [])
    assert math.isnan(measured(lambda x: ([x], []), np.complex64([1.0]))[0])


def test_each_of_the_first_runs_is_read_once():
    run, made = traced(lambda x: ([x], [x]), steps=3)
    for value in (1.0, 2.0):
        run(tf.constant(value))
    assert made[0].news() == [(1.0, [1.0]), (2.0, [2.0])]
    assert made[0].news() == []
    assert not made[0].done
    for value in (3.0, 4.0):
        run(tf.constant(value))
    assert made[0].news() == [(3.0, [3.0])]
    assert made[0].done


def test_of_a_long_loop_inside_a_graph_the_last_runs_are_kept():
    made = []

    @tf.function
    def loop(count):
        for i in tf.range(count):
            x = tf.cast(i, tf.float32)
            made.append(Measured(tf, [x], [x], 1000))

    loop(tf.constant(50))
    losses = [loss for loss, _ in made[0].news()]
    assert losses == [float(i) for i in range(50 - len(losses), 50)]
    assert len(losses) >= 10
