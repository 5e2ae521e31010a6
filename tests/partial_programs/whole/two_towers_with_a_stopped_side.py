"""One side of a similarity is stopped on purpose, in turn, as in self-supervised learning."""

import tensorflow as tf

tf.keras.utils.set_random_seed(13)
backbone, predictor = tf.keras.layers.Dense(4), tf.keras.layers.Dense(4)
a, b = tf.random.normal([6, 3]), tf.random.normal([6, 3])


def likeness(p, z):
    return -tf.reduce_mean(tf.reduce_sum(tf.math.l2_normalize(p, 1) * tf.math.l2_normalize(z, 1), axis=1))


predictor(backbone(a))
variables = backbone.trainable_variables + predictor.trainable_variables
for _ in range(2):
    with tf.GradientTape() as tape:
        z1, z2 = backbone(a), backbone(b)
        p1, p2 = predictor(z1), predictor(z2)
        loss = 0.5 * likeness(p1, tf.stop_gradient(z2)) + 0.5 * likeness(p2, tf.stop_gradient(z1))
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
