"""The number of rounds is decided by a trained value, which has no other way to the loss."""

import tensorflow as tf

patience = tf.Variable(2.5)
rate = tf.Variable(0.5)
with tf.GradientTape() as tape:
    left, value = tf.identity(patience), tf.constant(1.0)
    while left > 0.0:  # cut here
        value = value * rate
        left = left - 1.0
    loss = tf.square(value)
print(tape.gradient(loss, [patience, rate]))
