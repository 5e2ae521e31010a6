"""The vector of the power iteration is state that is assigned under the tape, as it should be."""

import tensorflow as tf

tf.random.set_seed(11)
kernel = tf.Variable(tf.random.normal([4, 3]))
vector = tf.Variable(tf.random.normal([1, 3]), trainable=False)
x = tf.random.normal([5, 4])


def normalised():
    left = tf.math.l2_normalize(vector @ tf.transpose(kernel))
    right = tf.math.l2_normalize(left @ kernel)
    vector.assign(tf.stop_gradient(right))
    sigma = left @ kernel @ tf.transpose(vector)
    return kernel / sigma


for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(x @ normalised() - 1.0))
    kernel.assign_sub(0.1 * tape.gradient(loss, kernel))
