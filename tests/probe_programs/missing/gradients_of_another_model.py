"""The loss is made by one model, the gradient is asked for a copy of it."""

import tensorflow as tf

tf.random.set_seed(2)
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
twin = tf.keras.models.clone_model(model)  # made here
x = tf.random.normal([5, 3])
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(tf.square(model(x)))
print(tape.gradient(loss, twin.trainable_variables))  # cut here
