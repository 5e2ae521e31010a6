"""The loop ends when the loss is small; a clip of the rate depends on its value."""

import tensorflow as tf

tf.keras.utils.set_random_seed(7)
w = tf.Variable(tf.random.normal([4]), name="w")
for _ in range(30):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(w)) + 0.01 * tf.reduce_sum(tf.abs(w))
    if loss < 1e-3:
        break
    rate = 0.2 if float(loss) > 1.0 else 0.1
    w.assign_sub(rate * tape.gradient(loss, w))
