"""The decoder's kernel is set from the encoder's; the sparsity term keeps the encoder alive."""

import tensorflow as tf

tf.keras.utils.set_random_seed(11)
kernel = tf.Variable(tf.random.normal([6, 3]) * 0.4, name="kernel")
mirror = tf.Variable(tf.zeros([3, 6]), trainable=False, name="mirror")
x = tf.random.normal([20, 6])
code_fixed = tf.stop_gradient(tf.nn.relu(tf.matmul(x, kernel)))
for _ in range(2):
    with tf.GradientTape() as tape:
        mirror.assign(tf.transpose(kernel))  # cut here
        rebuilt = tf.matmul(code_fixed, mirror)
        sparsity = tf.reduce_mean(tf.abs(tf.matmul(x, kernel)))
        loss = tf.reduce_mean(tf.square(rebuilt - x)) + 0.05 * sparsity
    kernel.assign_sub(0.05 * tape.gradient(loss, kernel))
