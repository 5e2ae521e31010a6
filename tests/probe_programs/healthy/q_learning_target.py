"""Bootstrapped targets are numbers on purpose, computed by the same network under the tape."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(3)
rng = np.random.default_rng(0)
q = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)])
states, after = rng.normal(size=(10, 4)).astype("float32"), rng.normal(size=(10, 4)).astype("float32")
rewards, actions = rng.normal(size=10).astype("float32"), rng.integers(0, 2, 10)
q(states)
with tf.GradientTape() as tape:
    future = q(after).numpy()
    goals = np.empty(10, dtype="float32")
    for i in range(10):
        goals[i] = rewards[i] + 0.9 * future[i].max()
    taken = tf.reduce_sum(q(states) * tf.one_hot(actions, 2), axis=1)
    loss = tf.reduce_mean(tf.square(goals - taken))
print(len(tape.gradient(loss, q.trainable_variables)))
