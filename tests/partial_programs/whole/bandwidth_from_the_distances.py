"""A kernel's width is taken from the distances as a number, and used on distances that carry no gradient as well."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(3)
mover = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(2)])
wanted = tf.random.normal([8, 2], mean=2.0)


def distances(a, b):
    return tf.reduce_sum(tf.square(a[:, None] - b[None]), axis=-1)


def similar(d, width):
    return tf.reduce_mean(tf.exp(-d / width))


for _ in range(2):
    with tf.GradientTape() as tape:
        moved = mover(tf.random.normal([8, 2]))
        between = distances(moved, wanted)
        width = 0.1 + float(np.mean(between.numpy()))
        own = similar(distances(moved, moved), width) + similar(distances(wanted, wanted), width)
        loss = own - 2.0 * similar(between, width)
    gradients = tape.gradient(loss, mover.trainable_variables)
    for weight, gradient in zip(mover.trainable_variables, gradients):
        weight.assign_sub(0.1 * gradient)
