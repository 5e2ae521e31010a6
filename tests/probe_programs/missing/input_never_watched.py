"""Saliency without tape.watch: the image is a plain tensor."""

import tensorflow as tf

tf.random.set_seed(4)
net = tf.keras.Sequential([tf.keras.layers.Dense(3, activation="tanh"), tf.keras.layers.Dense(1)])
image = tf.random.normal([1, 6])
net(image)


def saliency(picture):
    with tf.GradientTape() as tape:  # cut here
        score = tf.reduce_sum(net(picture))
    return tape.gradient(score, picture)


print(saliency(image))
