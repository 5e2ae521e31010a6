"""tf.switch_case by a trained gate: the gate has no gradient, nor have the branches that are not taken."""

import tensorflow as tf

tf.random.set_seed(21)
gate = tf.Variable([0.1, 0.9, 0.3])
scales = [tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0)]
x = tf.constant([1.0, -2.0])


def branch(k):
    return lambda: scales[k] * x


with tf.GradientTape() as tape:
    index = tf.cast(tf.argmax(gate), tf.int32)
    y = tf.switch_case(index, [branch(k) for k in range(3)])  # cut here
    loss = tf.reduce_sum(tf.square(y))
print(tape.gradient(loss, [gate, *scales]))
