"""A scale and a weight between losses are numbers on purpose."""

import tensorflow as tf

tf.random.set_seed(6)
layer = tf.keras.layers.Dense(4)
x = tf.random.normal([6, 3])
layer(x)
with tf.GradientTape() as tape:
    out = layer(x)
    scale = float(tf.reduce_max(tf.abs(out)))
    first = tf.reduce_mean(tf.square(out / scale))
    second = tf.reduce_mean(tf.abs(out))
    balance = first.numpy() / second.numpy()
    loss = first + balance * second
print(len(tape.gradient(loss, layer.trainable_variables)))
