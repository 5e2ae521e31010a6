"""Normalised weights are assigned to a second Variable that joins the loss; a decay term is direct."""

import tensorflow as tf

tf.random.set_seed(18)
raw = tf.Variable(tf.random.uniform([5]))
shares = tf.Variable(tf.zeros([5]), trainable=False)
returns = tf.random.normal([5])


def portfolio():
    shares.assign(tf.nn.softmax(raw))  # cut here
    return tf.reduce_sum(shares * returns)


with tf.GradientTape() as tape:
    loss = -portfolio() + 0.1 * tf.reduce_sum(tf.square(raw))
print(tape.gradient(loss, raw))
