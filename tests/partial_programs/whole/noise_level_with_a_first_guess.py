"""A learned noise level is set from the first batch, then trained."""

import tensorflow as tf

tf.keras.utils.set_random_seed(20)
net = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
log_sigma = tf.Variable(0.0, name="log_sigma")
x = tf.random.normal([16, 3])
y = tf.reduce_sum(x, axis=1, keepdims=True)
variables = [*net.trainable_variables, log_sigma]
for step in range(2):
    with tf.GradientTape() as tape:
        error = net(x) - y
        if step == 0:
            log_sigma.assign(tf.math.log(tf.math.reduce_std(error)))
        loss = tf.reduce_mean(tf.square(error / tf.exp(log_sigma))) + log_sigma
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.02 * g)
