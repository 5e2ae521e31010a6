"""tf.data with a mapped function, a graph step, and evaluation by NumPy after each epoch."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(18)
x = np.random.default_rng(5).normal(size=(24, 6)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
model(x)


def jitter(features, label):
    if tf.random.uniform([]) < 0.5:
        features = features + tf.random.normal(tf.shape(features), stddev=0.1)
    return features, label


@tf.function
def step(features, label):
    with tf.GradientTape() as tape:
        logits = model(features, training=True)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
    grads = tape.gradient(loss, model.trainable_variables)
    for variable, grad in zip(model.trainable_variables, grads):
        variable.assign_sub(0.1 * grad)
    return loss


for features, label in tf.data.Dataset.from_tensor_slices((x, y)).map(jitter).batch(8):
    loss = step(features, label)
print(float(loss), np.mean((model(x).numpy() > 0) == y))
