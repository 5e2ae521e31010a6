"""The threshold acts through a sigmoid; the hard decisions are only counted for the log."""

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
        accepted = tf.sigmoid(20.0 * (score - threshold))
        loss = tf.reduce_mean(accepted * cost + tf.square(score - cost)) + 0.1 * tf.square(threshold - 0.5)
        rate = tf.reduce_mean(tf.cast(score > threshold, tf.float32))
    print("accepted", float(rate))
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
