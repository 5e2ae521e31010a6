"""A metric object is used as the loss."""

import tensorflow as tf

tf.random.set_seed(6)
model = tf.keras.layers.Dense(3, activation="softmax")
x, labels = tf.random.normal([6, 4]), tf.constant([0, 1, 2, 0, 1, 2])
model(x)
accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
with tf.GradientTape() as tape:
    accuracy.update_state(labels, model(x))  # cut here
    loss = 1.0 - accuracy.result()
print(tape.gradient(loss, model.trainable_variables))
