"""The features are computed while the tape is told not to record."""

import tensorflow as tf

tf.random.set_seed(5)
body, head = tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)
x = tf.random.normal([5, 3])
head(body(x))
with tf.GradientTape() as tape:
    with tape.stop_recording():
        features = body(x)  # cut here
    loss = tf.reduce_mean(tf.square(head(features)))
print(tape.gradient(loss, body.trainable_variables + head.trainable_variables))
