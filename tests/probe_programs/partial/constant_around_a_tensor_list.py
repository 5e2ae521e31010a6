"""Values go to a Python list and back into tf.constant, next to a part that stays live."""

import tensorflow as tf

tf.random.set_seed(14)
slopes = tf.Variable([0.5, -0.2, 0.1])


def lifted(values):
    return tf.constant(values.numpy().tolist())  # cut here


with tf.GradientTape() as tape:
    joined = tf.concat([slopes * 2.0, lifted(tf.exp(slopes))], axis=0)
    loss = tf.reduce_sum(tf.square(joined))
print(tape.gradient(loss, slopes))
