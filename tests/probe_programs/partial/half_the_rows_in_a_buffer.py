"""Rows of the second speaker go through a NumPy buffer; those of the first stay tensors."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(2)
layer = tf.keras.layers.Dense(4)
layer.build((None, 5))


def embed_second(voices):
    rows = np.zeros((len(voices), 4), dtype="float32")
    for position, voice in enumerate(voices):
        rows[position] = layer(voice[tf.newaxis])[0]  # cut here
    return rows


first, second = tf.random.normal([3, 5]), tf.random.normal([2, 5])
with tf.GradientTape() as tape:
    both = tf.concat([layer(first), embed_second(second)], axis=0)
    loss = tf.reduce_mean(tf.square(both))
grads = tape.gradient(loss, layer.trainable_variables)
print([tf.norm(g).numpy() for g in grads])
