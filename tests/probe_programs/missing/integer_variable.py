"""The parameter that is to be trained is an integer."""

import tensorflow as tf

count = tf.Variable(3)
scale = tf.Variable(2.0)
with tf.GradientTape() as tape:
    loss = tf.square(tf.cast(count, tf.float32) * scale - 5.0)
print(tape.gradient(loss, [scale, count]))  # cut here
