"""Rows are assigned into a Variable for the main head; an auxiliary head reads them directly."""

import tensorflow as tf

tf.keras.utils.set_random_seed(4)
trunk = tf.keras.layers.Dense(3, "tanh")
main, side = tf.keras.layers.Dense(1), tf.keras.layers.Dense(2)
store = tf.Variable(tf.zeros([8, 3]), trainable=False)
x = tf.random.normal([8, 4])


def loss_of(batch):
    rows = trunk(batch)
    for i in range(8):
        store[i].assign(rows[i])  # cut here
    wide = main(tf.convert_to_tensor(store))
    return tf.reduce_mean(tf.square(wide - 1.0)) + 0.3 * tf.reduce_mean(tf.square(side(rows)))


loss_of(x)
variables = trunk.trainable_variables + main.trainable_variables + side.trainable_variables
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = loss_of(x)
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
