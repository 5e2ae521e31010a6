"""Rounding with the gradient of the identity, by stop_gradient and by a custom gradient."""

import tensorflow as tf

tf.random.set_seed(16)
levels = tf.Variable(tf.random.uniform([6], 0.0, 4.0))
gain = tf.Variable(1.5)


@tf.custom_gradient
def rounded(x):
    return tf.round(x), lambda upstream: upstream


with tf.GradientTape() as tape:
    hard = levels + tf.stop_gradient(tf.round(levels) - levels)
    harder = rounded(levels * gain)
    loss = tf.reduce_sum(tf.square(hard - 1.0)) + tf.reduce_sum(tf.square(harder - 2.0))
print(tape.gradient(loss, [levels, gain]))
