"""Python branches on numbers: a best value, a schedule, a check for NaN. All weights are used anyway."""

import math

import tensorflow as tf

tf.random.set_seed(14)
weights = tf.Variable(tf.random.normal([3, 1]))
best = tf.Variable(1e9, trainable=False)
rate = tf.Variable(0.1, trainable=False)
x = tf.random.normal([9, 3])
for step in range(3):
    with tf.GradientTape() as tape:
        out = x @ weights
        loss = tf.reduce_mean(tf.square(out - 1.0))
        if math.isnan(float(loss)):
            raise SystemExit("diverged")
        if loss < best:
            best.assign(loss)
        else:
            rate.assign(0.5 * rate)
        penalty = tf.nn.l2_loss(weights)
        total = loss + (0.1 if step < 2 else 0.01) * penalty
    weights.assign_sub(rate * tape.gradient(total, weights))
