"""Content and style stay in TensorFlow; the variation loss of the picture is NumPy."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(9)
picture = tf.Variable(tf.random.uniform([8, 8, 3]), name="picture")
content = tf.random.uniform([8, 8, 3])
adam = tf.keras.optimizers.Adam(0.02)


def gram(image):
    flat = tf.reshape(image, [-1, 3])
    return tf.matmul(flat, flat, transpose_a=True)


def variation(image):
    down = image[1:] - image[:-1]
    return np.sum(np.abs(down))  # cut here


for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(picture - content))
        loss += 1e-4 * tf.reduce_mean(tf.square(gram(picture) - gram(content)))
        loss += 1e-3 * variation(picture)
    adam.apply_gradients([(tape.gradient(loss, picture), picture)])
