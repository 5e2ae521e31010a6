"""A network makes the weights of another; they are copied by set_weights, a penalty stays differentiable."""

import tensorflow as tf

tf.random.set_seed(17)
maker = tf.keras.layers.Dense(8)
maker.build((None, 2))
worker = tf.keras.layers.Dense(2)
worker.build((None, 3))
task, x = tf.constant([[1.0, -1.0]]), tf.random.normal([5, 3])

with tf.GradientTape() as tape:
    flat = maker(task)[0]
    worker.set_weights([tf.reshape(flat[:6], [3, 2]), flat[6:]])  # cut here
    loss = tf.reduce_mean(tf.square(worker(x) - 1.0)) + 1e-3 * tf.reduce_sum(tf.square(flat))
print(len(tape.gradient(loss, maker.trainable_variables)))
