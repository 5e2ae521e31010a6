"""The strength of the weight decay is computed by NumPy from the number of the step and the data."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
encoder, head = tf.keras.layers.Dense(5, "tanh", use_bias=False), tf.keras.layers.Dense(1, use_bias=False)
x = tf.random.normal([12, 4])
y = tf.reduce_sum(x, axis=1, keepdims=True)
head(encoder(x))
variables = encoder.trainable_variables + head.trainable_variables
for step in range(2):
    with tf.GradientTape() as tape:
        rate = 1e-3 * np.exp(-0.1 * step) * np.mean(np.abs(y.numpy()))
        decay = tf.add_n([tf.nn.l2_loss(v) for v in variables])
        loss = tf.reduce_mean(tf.square(head(encoder(x)) - y)) + rate * decay
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
