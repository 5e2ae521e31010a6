"""A compiled step branches on its counter, casts by float() and prints from a numpy_function."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(16)
w = tf.Variable(tf.random.normal([5]), name="w")
count = tf.Variable(0, trainable=False)
x = tf.random.normal([12, 5])


def show(values):
    print("spread", np.std(values))
    return np.int64(0)


@tf.function
def step():
    with tf.GradientTape() as tape:
        out = tf.linalg.matvec(x, w)
        tf.numpy_function(show, [out], tf.int64)
        loss = tf.reduce_mean(tf.square(out - 1.0))
        if count > 1:
            loss += 0.1 * tf.reduce_sum(tf.square(w))
    w.assign_sub(0.05 * tape.gradient(loss, w))
    count.assign_add(1)
    return loss


for _ in range(3):
    step()
