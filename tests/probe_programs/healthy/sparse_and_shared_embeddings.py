"""Shared and sparse gradients, ragged rows, and sizes read back into Python."""

import tensorflow as tf

tf.random.set_seed(21)
words = tf.Variable(tf.random.normal([12, 4]))
rows = tf.ragged.constant([[1, 2, 3], [4], [5, 1]])
with tf.GradientTape() as tape:
    vectors = tf.nn.embedding_lookup(words, rows.flat_values)
    sums = tf.math.segment_sum(vectors, rows.value_rowids())
    count = int(tf.size(rows.flat_values))
    longest = int(tf.reduce_max(rows.row_lengths()))
    scores = sums @ tf.transpose(words)
    loss = tf.reduce_mean(scores) / count + tf.reduce_sum(tf.square(sums)) / longest
print(tape.gradient(loss, words))
