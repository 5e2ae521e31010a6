"""Recurrent layers with state, dropout and a time-distributed head, trained by hand and logged."""

import tensorflow as tf

tf.random.set_seed(19)
inputs = tf.keras.Input((5, 3))
h = tf.keras.layers.LSTM(4, return_sequences=True)(inputs)
h = tf.keras.layers.Dropout(0.3)(h)
h = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(3, return_sequences=True))(h)
outputs = tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(1))(h)
model = tf.keras.Model(inputs, outputs)
x = tf.random.normal([4, 5, 3])
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - 1.0))
        norm = tf.linalg.global_norm(model.trainable_variables)
        print("norm", norm.numpy(), "loss", f"{float(loss):.3f}")
    grads, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
    for variable, grad in zip(model.trainable_variables, grads):
        variable.assign_sub(0.1 * grad)
