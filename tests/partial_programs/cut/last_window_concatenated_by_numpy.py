"""A forecast is fed back through np.concatenate; only the first step of it is differentiated."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(14)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
window = np.linspace(0.0, 1.0, 4, dtype="float32")[None]


def roll(steps):
    seen, errors = window, []
    for step in range(steps):
        guess = model(seen)
        errors.append(tf.square(guess - 1.0 - 0.1 * step))
        seen = np.concatenate([seen[:, 1:], guess], axis=1)  # cut here
    return tf.add_n(errors)


for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(roll(3))
    grads = tape.gradient(loss, model.trainable_variables)
    for v, g in zip(model.trainable_variables, grads):
        v.assign_sub(0.01 * g)
