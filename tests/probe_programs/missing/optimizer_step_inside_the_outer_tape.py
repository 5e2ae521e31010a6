"""Meta-learning: the optimizer writes the adapted weights in place, so the outer loss does not see the learned rate."""

import tensorflow as tf

tf.random.set_seed(17)
rate = tf.Variable(0.1)
weights = tf.Variable(tf.random.normal([2, 1]), name="task")
x = tf.random.normal([6, 2])


def error():
    return tf.reduce_mean(tf.square(x @ weights - 1.0))


with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        loss = error()
    step = rate * inner.gradient(loss, weights)
    weights.assign_sub(step)  # cut here
    final = error()
print(outer.gradient(final, rate))
