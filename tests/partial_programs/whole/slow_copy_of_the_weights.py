"""A slow copy follows the weights and gives the targets of a consistency loss."""

import tensorflow as tf

tf.keras.utils.set_random_seed(11)
fast = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
slow = tf.keras.models.clone_model(fast)
slow.set_weights(fast.get_weights())
x = tf.random.normal([10, 4])
y = tf.constant([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
for _ in range(3):
    with tf.GradientTape() as tape:
        logits = fast(x)
        wanted = slow(x + 0.1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        loss += 0.5 * tf.reduce_mean(tf.square(logits - wanted))
    for v, g in zip(fast.trainable_variables, tape.gradient(loss, fast.trainable_variables)):
        v.assign_sub(0.1 * g)
    for s, f in zip(slow.variables, fast.variables):
        s.assign(0.99 * s + 0.01 * f)
