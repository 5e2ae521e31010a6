"""The first derivative is taken after the outer tape has ended."""

import tensorflow as tf

x = tf.Variable(2.0)
with tf.GradientTape() as outer, tf.GradientTape() as inner:
    y = x**3
first = inner.gradient(y, x)  # cut here
print(outer.gradient(first, x))
