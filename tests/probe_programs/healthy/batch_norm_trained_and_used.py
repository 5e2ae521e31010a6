"""Batch normalisation writes its statistics under the tape and is also run with them."""

import tensorflow as tf

tf.random.set_seed(10)
norm = tf.keras.layers.BatchNormalization()
dense = tf.keras.layers.Dense(4)
x = tf.random.normal([8, 3])
norm(dense(x))
with tf.GradientTape() as tape:
    trained = norm(dense(x), training=True)
    steady = norm(dense(x), training=False)
    loss = tf.reduce_mean(tf.square(trained - 1.0)) + tf.reduce_mean(tf.square(steady))
print(len(tape.gradient(loss, dense.trainable_variables + norm.trainable_variables)))
