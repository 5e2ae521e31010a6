"""A branch of the network is skipped by chance; its weights then have no gradient."""

import random

import tensorflow as tf

random.seed(3)
tf.random.set_seed(8)


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.stem = tf.keras.layers.Dense(4)
        self.extra = tf.keras.layers.Dense(4)
        self.head = tf.keras.layers.Dense(1)

    def call(self, x):
        h = self.stem(x)
        if random.random() > 2.0:  # cut here
            h = h + self.extra(h)
        return self.head(h)


net = Net()
net.extra.build((None, 4))
x = tf.random.normal([4, 3])
net(x)
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(tf.square(net(x)))
print([g is None for g in tape.gradient(loss, net.trainable_variables)])
