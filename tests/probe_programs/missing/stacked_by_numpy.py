"""np.stack and np.concatenate in the forward pass of a functional helper."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(16)
towers = [tf.keras.layers.Dense(2) for _ in range(3)]
x = tf.random.normal([4, 3])
for tower in towers:
    tower(x)


def joined(inputs):
    outputs = [tower(inputs) for tower in towers]
    return np.concatenate(outputs, axis=1)  # cut here


with tf.GradientTape() as tape:
    loss = tf.reduce_mean(tf.square(joined(x) - 1.0))
print([g is None for t in towers for g in [tape.gradient]][:1])
print(tape.gradient(loss, [v for tower in towers for v in tower.trainable_variables])[0])
