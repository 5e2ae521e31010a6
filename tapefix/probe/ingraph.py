"""Measures a gradient call inside a graph: the graph computes and keeps the numbers, Python reads them afterwards.

A graph that calls into Python waits for it. Norms that the graph computes itself run beside the rest of the step.
"""

from __future__ import annotations

import math
from typing import Any, List, Sequence, Tuple

_ROWS = 16  # runs that are kept between two readings: a loop inside a graph may run without end
_TINY = 1e-30  # sums of squares below it have lost digits in single precision
_FIXED = 2  # columns before the gradients': the number of the run, and the loss


class Measured:
    """The loss and the gradients' norms in the first `steps` runs of one gradient call, a row of a variable each.

    Made while the graph is traced, with the target's and the gradients' symbolic tensors.
    """

    def __init__(self, tf: Any, target: Sequence[Any], gradients: Sequence[Any], steps: int) -> None:
        from tensorflow.python.ops.gen_resource_variable_ops import read_variable_op
        from tensorflow.python.ops.resource_variable_ops import ResourceVariable

        self._read = read_variable_op
        self._steps, self.seen = steps, 0
        rows = min(steps, _ROWS)
        with tf.init_scope():  # the class itself: tf.Variable may not be made in a function's later traces
            self._runs = ResourceVariable(0, dtype=tf.int64, trainable=False)
            self._table = ResourceVariable(tf.zeros([rows, _FIXED + len(gradients)], tf.float64), trainable=False)

        def measure() -> Any:
            run = self._runs.read_value()
            fixed = tf.stack([tf.cast(run + 1, tf.float64), _total(tf, target)])
            row = tf.concat([fixed, _half_squares(tf, gradients)], 0)
            with tf.control_dependencies([run, row]):
                counted = self._runs.assign_add(1)
            write = tf.raw_ops.ResourceScatterUpdate(
                resource=self._table.handle, indices=tf.reshape(run % rows, [1]), updates=tf.expand_dims(row, 0)
            )
            with tf.control_dependencies([counted, write]):
                return tf.constant(0, tf.int64)

        tf.cond(self._runs < steps, measure, lambda: tf.constant(0, tf.int64))

    @property
    def done(self) -> bool:
        """All runs that were to be measured have been read."""
        return self.seen >= self._steps

    def news(self) -> List[Tuple[float, List[float]]]:
        """Loss and norms of each run since the last reading, as far as they were kept."""
        table = self._read(self._table.handle, self._table.dtype).numpy().tolist()
        fresh = sorted(row for row in table if row[0] > self.seen)
        if fresh:
            self.seen = int(fresh[-1][0])
        return [(row[1], [math.sqrt(2.0 * half) for half in row[_FIXED:]]) for row in fresh]


def _total(tf: Any, target: Sequence[Any]) -> Any:
    """The sum over all elements of all targets; not a number where they have no such sum."""
    numeric = [t for t in target if getattr(t, "dtype", None) is not None]
    if any(t.dtype.is_complex or t.dtype == tf.string for t in numeric):
        return tf.constant(math.nan, tf.float64)
    return sum((tf.reduce_sum(tf.cast(t, tf.float64)) for t in numeric), tf.constant(0.0, tf.float64))


def _half_squares(tf: Any, gradients: Sequence[Any]) -> Any:
    """Half the sum of the squares of each gradient, as one vector of double precision."""
    if not gradients:
        return tf.zeros([0], tf.float64)
    plain = [_real(tf, gradient) for gradient in gradients]

    def exact() -> Any:
        return tf.stack([tf.nn.l2_loss(tf.cast(g, tf.float64)) for g in plain])

    if not all(g.dtype in (tf.float32, tf.float64) for g in plain):
        return exact()
    quick = tf.stack([tf.cast(tf.nn.l2_loss(g), tf.float64) for g in plain])
    ordinary = tf.math.is_finite(quick) & (quick > _TINY)
    return tf.cond(tf.reduce_all(ordinary), lambda: quick, exact)  # else overflow, underflow, or really so


def _real(tf: Any, gradient: Any) -> Any:
    """A dense, real tensor of the same norm: of IndexedSlices the rows of one index added up."""
    if hasattr(gradient, "indices"):
        rows, place = tf.unique(tf.reshape(gradient.indices, [-1]))
        gradient = tf.math.unsorted_segment_sum(gradient.values, place, tf.size(rows))
    return tf.abs(gradient) if gradient.dtype.is_complex else gradient
