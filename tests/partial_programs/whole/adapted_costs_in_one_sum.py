"""Each task's weights are adapted under an outer tape, and its cost printed, inside the generator that is summed."""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(5)
slow = {"w": tf.Variable(tf.ones([3, 1])), "b": tf.Variable(tf.zeros([1]))}
tasks = [(rng.normal(size=(6, 3)).astype("float32"), np.full([6, 1], k, "float32")) for k in range(3)]


def cost(task, weights):
    x, y = task
    return tf.reduce_mean(tf.square(x @ weights["w"] + weights["b"] - y))


def adapted(task):
    fast = dict(slow)
    with tf.GradientTape(persistent=True) as inner:
        before = cost(task, fast)
    slopes = inner.gradient(before, fast)
    print("before", before.numpy())
    return cost(task, {name: fast[name] - 0.1 * slope for name, slope in slopes.items()})


for _ in range(2):
    with tf.GradientTape() as outer:
        loss = sum(adapted(task) for task in tasks) / len(tasks)
    for name, gradient in outer.gradient(loss, slow).items():
        slow[name].assign_sub(0.05 * gradient)
