"""A barrier that keeps shares away from zero is computed by math.log and added to the loss."""

import math

import tensorflow as tf

tf.keras.utils.set_random_seed(15)
logits = tf.Variable([0.2, -0.1, 0.4], name="logits")
reward = tf.constant([1.0, 0.0, 2.0])


def barrier(shares):
    total = 0.0
    for share in shares:
        total += math.log(share)  # cut here
    return total


for _ in range(2):
    with tf.GradientTape() as tape:
        shares = tf.nn.softmax(logits)
        loss = -tf.reduce_sum(shares * reward) - 0.1 * barrier(shares)
    logits.assign_sub(0.1 * tape.gradient(loss, logits))
