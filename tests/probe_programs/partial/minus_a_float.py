"""Wasserstein-like: the score of the fake batch is a number in one of the two terms."""

import tensorflow as tf

tf.random.set_seed(16)
critic = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
real, fake = tf.random.normal([6, 2]) + 2.0, tf.random.normal([6, 2])
critic(real)


def gap():
    up = tf.reduce_mean(critic(real))
    down = float(tf.reduce_mean(critic(fake)))  # cut here
    return up - down


with tf.GradientTape() as tape:
    loss = -gap()
print(len(tape.gradient(loss, critic.trainable_variables)))
