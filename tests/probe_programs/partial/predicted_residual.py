"""A correction by the same network is fetched with predict() and added to what the tape sees."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(4)
net = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(1)])
x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
net(x)
with tf.GradientTape() as tape:
    coarse = net(x)
    fine = net.predict(x[:, ::-1], verbose=0)  # cut here
    loss = tf.reduce_mean(tf.square(coarse + fine - 1.0))
grads = tape.gradient(loss, net.trainable_variables)
print(len(grads))
