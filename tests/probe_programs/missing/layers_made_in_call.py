"""A layer is made anew in every call, so the list of variables taken before never meets the one in use."""

import tensorflow as tf

tf.random.set_seed(1)


class Block(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.first = tf.keras.layers.Dense(4)
        self.second = tf.keras.layers.Dense(1)

    def call(self, x):
        self.second = tf.keras.layers.Dense(1)  # cut here
        return self.second(self.first(x))


block = Block()
x = tf.random.normal([5, 3])
block(x)
sources = [block.first.kernel, block.second.kernel]
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(tf.square(block(x)))
print(tape.gradient(loss, sources)[1])
