"""One of two towers is made a constant before the similarity; its own classifier still trains it."""

import tensorflow as tf

tf.keras.utils.set_random_seed(13)
left, right = tf.keras.layers.Dense(4), tf.keras.layers.Dense(4)
joint, labels = tf.keras.layers.Dense(1), tf.constant([0, 1, 2, 3, 0, 1])
a, b = tf.random.normal([6, 3]), tf.random.normal([6, 5])


def loss_of():
    p, q = left(a), right(b)
    kept = tf.constant(q.numpy())  # cut here
    pairs = joint(tf.concat([p, kept], axis=1))
    own = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, q)
    return tf.reduce_mean(tf.square(pairs - 1.0)) + 0.2 * tf.reduce_mean(own)


loss_of()
variables = left.trainable_variables + right.trainable_variables + joint.trainable_variables
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = loss_of()
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.05 * g)
