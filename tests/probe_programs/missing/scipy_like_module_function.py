"""math.* on a tensor gives a Python number."""

import math

import tensorflow as tf

angle = tf.Variable(0.3)
with tf.GradientTape() as tape:
    height = math.sin(angle)  # cut here
    loss = tf.square(1.0 - tf.constant(height))
print(tape.gradient(loss, angle))
