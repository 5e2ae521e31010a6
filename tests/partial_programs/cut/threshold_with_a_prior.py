"""A trained threshold decides by comparison; only the prior on it has a gradient."""

import tensorflow as tf

tf.keras.utils.set_random_seed(6)
threshold = tf.Variable(0.3, name="threshold")
net = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, "sigmoid")])
x = tf.random.normal([30, 3])
cost = tf.random.uniform([30, 1])
variables = [threshold, *net.trainable_variables]
for _ in range(2):
    with tf.GradientTape() as tape:
        score = net(x)
        accepted = tf.cast(score > threshold, tf.float32)  # cut here
        loss = tf.reduce_mean(accepted * cost + tf.square(score - cost)) + 0.1 * tf.square(threshold - 0.5)
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
