"""Words are drawn from the prediction and embedded again."""

import tensorflow as tf

tf.random.set_seed(11)
writer = tf.keras.layers.Dense(5)
reader = tf.keras.layers.Embedding(5, 3)
x = tf.random.normal([4, 2])
writer(x), reader(tf.zeros([1], tf.int64))
with tf.GradientTape() as tape:
    words = tf.random.categorical(writer(x), 2)  # cut here
    loss = tf.reduce_mean(tf.square(reader(words)))
print([g is None for g in tape.gradient(loss, writer.trainable_variables + reader.trainable_variables)])
