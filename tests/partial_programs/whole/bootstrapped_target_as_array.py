"""The value of the next state is taken out as an array: a target of temporal differences."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(14)
critic = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(1)])
states, following = tf.random.normal([10, 3]), tf.random.normal([10, 3])
reward = np.linspace(0.0, 1.0, 10, dtype="float32")[:, None]
for _ in range(2):
    with tf.GradientTape() as tape:
        target = reward + 0.9 * np.asarray(critic(following))
        loss = tf.reduce_mean(tf.square(critic(states) - target))
    grads = tape.gradient(loss, critic.trainable_variables)
    for v, g in zip(critic.trainable_variables, grads):
        v.assign_sub(0.05 * g)
