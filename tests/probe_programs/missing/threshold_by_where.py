"""A learned threshold is used in the condition of tf.where only."""

import tensorflow as tf

tf.random.set_seed(12)
threshold = tf.Variable(0.2)
gain = tf.Variable(1.0)
x = tf.random.normal([8])
with tf.GradientTape() as tape:
    kept = tf.where(x > threshold, gain * x, tf.zeros_like(x))  # cut here
    loss = tf.reduce_sum(tf.square(kept))
print(tape.gradient(loss, [threshold, gain]))
