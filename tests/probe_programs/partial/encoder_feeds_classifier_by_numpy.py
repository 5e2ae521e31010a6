"""The encoder learns to reconstruct, but the classifier behind it gets its code as an array."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(5)
encoder = tf.keras.Sequential([tf.keras.layers.Dense(6, activation="relu")])
decoder = tf.keras.Sequential([tf.keras.layers.Dense(10)])
classifier = tf.keras.Sequential([tf.keras.layers.Dense(3)])
x = np.random.default_rng(1).normal(size=(12, 10)).astype("float32")
labels = tf.constant([0, 1, 2] * 4)
cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
classifier(decoder(encoder(x))[:, :6])


def losses():
    code = encoder(x)
    reconstruction = tf.reduce_mean(tf.square(decoder(code) - x))
    features = code.numpy()  # cut here
    return reconstruction, cross_entropy(labels, classifier(features))


with tf.GradientTape() as tape:
    rebuilt, classified = losses()
    loss = rebuilt + classified
models = [encoder, decoder, classifier]
print(len(tape.gradient(loss, [v for m in models for v in m.trainable_variables])))
