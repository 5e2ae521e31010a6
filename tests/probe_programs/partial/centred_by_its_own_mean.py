"""The mean that is taken from the values is a number: what it owes to the weights below is lost."""

import tensorflow as tf

tf.random.set_seed(12)
below = tf.keras.layers.Dense(6, activation="tanh")
above = tf.keras.layers.Dense(1)
rows = tf.random.normal([10, 4])
above(below(rows))
weights = below.trainable_variables + above.trainable_variables

for _ in range(2):
    with tf.GradientTape() as tape:
        features = below(rows)
        middle = float(tf.reduce_mean(features))  # cut here
        loss = tf.reduce_mean(tf.abs(above(tf.abs(features - middle)) - 1.0))
    tape.gradient(loss, weights)
