"""A codebook: nearest entries by argmin, a commitment loss, entries that follow by moving average."""

import tensorflow as tf

tf.random.set_seed(17)
encoder = tf.keras.layers.Dense(3)
decoder = tf.keras.layers.Dense(5)
book = tf.Variable(tf.random.normal([4, 3]), trainable=False)
x = tf.random.normal([10, 5])
decoder(encoder(x))
for _ in range(2):
    with tf.GradientTape() as tape:
        code = encoder(x)
        nearest = tf.argmin(tf.reduce_sum(tf.square(code[:, None] - book[None]), axis=-1), axis=1)
        chosen = tf.gather(book, nearest)
        commitment = tf.reduce_mean(tf.square(tf.stop_gradient(chosen) - code))
        book.scatter_nd_update(nearest[:, None], 0.9 * chosen + 0.1 * code)
        straight = code + tf.stop_gradient(chosen - code)
        loss = tf.reduce_mean(tf.square(decoder(straight) - x)) + 0.25 * commitment
    print(len(tape.gradient(loss, encoder.trainable_variables + decoder.trainable_variables)))
