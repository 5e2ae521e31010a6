"""The penalty is a gradient itself: an inner tape inside the outer one."""

import tensorflow as tf

tf.random.set_seed(12)
score = tf.keras.Sequential([tf.keras.layers.Dense(6, activation="tanh"), tf.keras.layers.Dense(1, use_bias=False)])
x = tf.random.normal([5, 2])
score(x)
with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        inner.watch(x)
        out = score(x)
    slope = inner.gradient(out, x)
    loss = tf.reduce_mean(out) + tf.reduce_mean(tf.square(tf.norm(slope, axis=1) - 1.0))
print(len(outer.gradient(loss, score.trainable_variables)))
