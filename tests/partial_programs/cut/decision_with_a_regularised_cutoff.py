"""Which of two networks answers is decided by `if`; the cutoff lives by its regulariser."""

import tensorflow as tf

tf.keras.utils.set_random_seed(7)
cutoff = tf.Variable(0.1, name="cutoff")
small, large = tf.keras.layers.Dense(1), tf.keras.layers.Dense(1)
x = tf.random.normal([10, 3])
small(x), large(x)
variables = [cutoff, *small.trainable_variables, *large.trainable_variables]


def answer(row):
    if tf.norm(row) > cutoff * 15.0:  # cut here
        return large(row)
    return small(row)


for _ in range(2):
    with tf.GradientTape() as tape:
        out = tf.concat([answer(x[i : i + 1]) for i in range(10)], axis=0)
        loss = tf.reduce_mean(tf.square(out - 1.0)) + 0.01 * tf.square(cutoff)
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
