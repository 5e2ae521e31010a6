"""The forward pass is written by hand on the arrays of get_weights()."""

import tensorflow as tf

tf.random.set_seed(7)
layer = tf.keras.layers.Dense(2)
x = tf.random.normal([3, 4])
layer(x)


def forward(inputs):
    kernel, bias = layer.get_weights()  # cut here
    return inputs @ kernel + bias


with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf.square(forward(x)))
print(tape.gradient(loss, layer.trainable_variables))
