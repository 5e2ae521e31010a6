"""The roughness of the fitted curve is summed as Python numbers, the misfit stays a tensor."""

import tensorflow as tf

tf.keras.utils.set_random_seed(8)
knots = tf.Variable(tf.random.normal([9]), name="knots")
data = tf.cos(tf.linspace(0.0, 3.0, 9))


def roughness():
    total = 0.0
    for i in range(8):
        total += float(tf.square(knots[i + 1] - knots[i]))  # cut here
    return total


for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(knots - data)) + 0.5 * roughness()
    knots.assign_sub(0.05 * tape.gradient(loss, knots))
