"""A layer keeps a moving average of its activity for reports, and adds an activity loss."""

import tensorflow as tf

tf.keras.utils.set_random_seed(5)


class Coder(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(3)
        self.seen = self.add_weight(shape=(3,), initializer="zeros", trainable=False, name="seen")

    def call(self, x):
        code = self.dense(x)
        self.seen.assign(0.9 * self.seen + 0.1 * tf.reduce_mean(code, axis=0))
        self.add_loss(1e-2 * tf.reduce_mean(tf.square(code)))
        return 2.0 * code


coder, head = Coder(), tf.keras.layers.Dense(1)
x = tf.random.normal([6, 4])
head(coder(x))
variables = coder.trainable_variables + head.trainable_variables
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(head(coder(x)) - 1.0)) + sum(coder.losses)
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
