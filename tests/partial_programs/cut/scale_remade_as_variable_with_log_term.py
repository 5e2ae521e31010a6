"""A learned noise level is wrapped anew as a Variable where it divides, its log term stays whole."""

import tensorflow as tf

tf.keras.utils.set_random_seed(20)
net = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
log_sigma = tf.Variable(-0.5, name="log_sigma")
x = tf.random.normal([16, 3])
y = tf.reduce_sum(x, axis=1, keepdims=True)
variables = [*net.trainable_variables, log_sigma]
for _ in range(2):
    with tf.GradientTape() as tape:
        sigma = tf.Variable(tf.exp(log_sigma), trainable=False)  # cut here
        loss = tf.reduce_mean(tf.square((net(x) - y) / sigma)) + log_sigma
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.02 * g)
