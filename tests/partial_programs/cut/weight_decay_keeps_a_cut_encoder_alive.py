"""Weight decay over all weights hides that the features are an array."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
encoder, head = tf.keras.layers.Dense(5, "tanh", use_bias=False), tf.keras.layers.Dense(1, use_bias=False)
x = tf.random.normal([12, 4])
y = tf.reduce_sum(x, axis=1, keepdims=True)


def forward(batch):
    features = np.sqrt(1.0 + np.square(encoder(batch)))  # cut here
    return head(features)


forward(x)
variables = encoder.trainable_variables + head.trainable_variables
for _ in range(2):
    with tf.GradientTape() as tape:
        decay = tf.add_n([tf.nn.l2_loss(v) for v in variables])
        loss = tf.reduce_mean(tf.square(forward(x) - y)) + 1e-3 * decay
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
