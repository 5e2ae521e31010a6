"""Embeddings are looked up twice; the context side is taken out as an array and goes through a projection."""

import tensorflow as tf

tf.keras.utils.set_random_seed(21)
table = tf.Variable(tf.random.normal([10, 4]), name="table")
project = tf.keras.layers.Dense(4)
words, context = tf.constant([1, 2, 3]), tf.constant([4, 5, 1])
project(tf.zeros([1, 4]))
variables = [table, *project.trainable_variables]
for _ in range(2):
    with tf.GradientTape() as tape:
        centre = tf.gather(table, words)
        around = tf.gather(table, context).numpy()  # cut here
        score = tf.reduce_sum(centre * project(around), axis=1)
        loss = tf.reduce_mean(tf.nn.softplus(-score))
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v = v.assign_sub(tf.convert_to_tensor(g) * 0.05)
