"""Rounding that costs nothing: fractions, wrapped angles, a gradient of its own, straight through, a penalty."""

import tensorflow as tf

tf.random.set_seed(15)
place = tf.keras.layers.Dense(1)
inputs = tf.random.normal([7, 3])
signal = tf.constant([0.0, 2.0, 1.0, -1.0, 0.5, 3.0, 1.0])
place(inputs)


@tf.custom_gradient
def rounded(value):
    return tf.round(value), lambda upstream: upstream


def interpolated(at):
    below = tf.floor(at)
    left = tf.cast(below, tf.int32)
    fraction = at - below
    return (1.0 - fraction) * tf.gather(signal, left) + (below + 1.0 - at) * tf.gather(signal, left + 1)


def wrapped(angle):
    return angle - 6.2832 * tf.round(angle / 6.2832)


def straight_through(value):
    return value + tf.stop_gradient(tf.round(value) - value)


for form in (interpolated, wrapped, rounded, straight_through, lambda value: tf.square(value - tf.round(value))):
    with tf.GradientTape() as tape:
        at = 5.0 * tf.sigmoid(place(inputs))
        loss = tf.reduce_mean(tf.square(form(at) - 1.0)) + 0.01 * tf.reduce_mean(tf.square(at))
    tape.gradient(loss, place.trainable_variables)
