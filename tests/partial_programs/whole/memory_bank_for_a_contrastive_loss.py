"""Codes go into a bank of negatives for later steps; this step's own codes stay tensors."""

import tensorflow as tf

tf.keras.utils.set_random_seed(4)
encoder = tf.keras.layers.Dense(3)
bank = tf.Variable(tf.math.l2_normalize(tf.random.normal([12, 3]), axis=1), trainable=False)
a = tf.random.normal([4, 5])
encoder(a)
for step in range(3):
    start = 4 * step
    with tf.GradientTape() as tape:
        code = tf.math.l2_normalize(encoder(a), axis=1)
        near = tf.reduce_sum(code * tf.math.l2_normalize(encoder(a + 0.1), axis=1), axis=1, keepdims=True)
        far = tf.matmul(code, bank, transpose_b=True)
        logits = tf.concat([near, far], axis=1) / 0.2
        labels = tf.zeros([4], tf.int32)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        bank[start : start + 4].assign(code)
    for v, g in zip(encoder.trainable_variables, tape.gradient(loss, encoder.trainable_variables)):
        v.assign_sub(0.05 * g)
