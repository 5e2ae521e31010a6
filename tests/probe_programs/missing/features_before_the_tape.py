"""The forward pass runs before the tape; a helper then only computes the loss."""

import tensorflow as tf

tf.random.set_seed(14)
model = tf.keras.Sequential([tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)])
x, y = tf.random.normal([6, 2]), tf.random.normal([6, 1])


def update(prediction):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(prediction - y))
    return tape.gradient(loss, model.trainable_variables)


def main():
    for _ in range(2):
        prediction = model(x)  # cut here
        grads = update(prediction)
        print([g is None for g in grads])


main()
