"""By a slip the loss compares the labels with themselves."""

import tensorflow as tf

tf.random.set_seed(19)
model = tf.keras.layers.Dense(1)
x, y = tf.random.normal([6, 2]), tf.random.normal([6, 1])
model(x)


def mse(a, b):
    return tf.reduce_mean(tf.square(a - b))


with tf.GradientTape() as tape:
    guess = model(x)  # cut here
    loss = mse(y, y)
print(tape.gradient(loss, model.trainable_variables))
