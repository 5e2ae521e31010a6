"""NumPy buffers hold labels, masks from lengths and positions: nothing that is trained."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(9)
embed = tf.keras.layers.Embedding(20, 6)
head = tf.keras.layers.Dense(4)
tokens, lengths = np.random.default_rng(3).integers(0, 20, (3, 7)), [7, 4, 5]
head(embed(tokens))
with tf.GradientTape() as tape:
    hidden = embed(tokens)
    table = np.zeros(hidden.shape[1:], dtype="float32")
    for position in range(table.shape[0]):
        table[position] = np.sin(position / np.sqrt(table.shape[1]))
    mask = np.zeros((3, 7), dtype="float32")
    for row, length in enumerate(lengths):
        mask[row, :length] = 1.0
    labels = np.zeros((3, 7, 4), dtype="float32")
    labels[np.arange(3)[:, None], np.arange(7), tokens % 4] = 1.0
    errors = tf.nn.softmax_cross_entropy_with_logits(labels, head(hidden + table))
    loss = tf.reduce_sum(errors * mask) / mask.sum()
print(len(tape.gradient(loss, embed.trainable_variables + head.trainable_variables)))
