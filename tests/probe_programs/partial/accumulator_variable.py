"""Losses of the parts are summed up in a Variable by assign_add; weight decay is not."""

import tensorflow as tf

tf.random.set_seed(10)
weights = tf.Variable(tf.random.normal([4, 2]))
total = tf.Variable(0.0, trainable=False)
parts = tf.random.normal([3, 6, 4])


def add_part(part):
    total.assign_add(tf.reduce_mean(tf.square(part @ weights - 1.0)))  # cut here


for _ in range(2):
    total.assign(0.0)
    with tf.GradientTape() as tape:
        for part in tf.unstack(parts):
            add_part(part)
        loss = total + 1e-2 * tf.nn.l2_loss(weights)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
