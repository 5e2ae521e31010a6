"""The first layer's result is overwritten: the second reads the input again."""

import tensorflow as tf

tf.random.set_seed(13)


class Stack(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.low = tf.keras.layers.Dense(4, activation="relu")
        self.high = tf.keras.layers.Dense(4)

    def call(self, x):
        h = self.low(x)  # cut here
        h = self.high(x)
        return h


stack = Stack()
x = tf.random.normal([3, 4])
stack(x)
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(tf.square(stack(x)))
print([g is None for g in tape.gradient(loss, stack.trainable_variables)])
