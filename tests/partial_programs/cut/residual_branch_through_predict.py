"""The skip keeps the stem's gradient; the branch beside it is `predict`."""

import tensorflow as tf

tf.keras.utils.set_random_seed(10)
stem = tf.keras.layers.Dense(4)
branch = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(4, "relu")])
head = tf.keras.layers.Dense(1)
x = tf.random.normal([10, 3])


def forward(batch):
    hidden = stem(batch)
    refined = branch.predict(hidden, verbose=0)  # cut here
    return head(hidden + refined)


forward(x)
variables = stem.trainable_variables + head.trainable_variables
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forward(x) - 1.0))
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.02 * g)
