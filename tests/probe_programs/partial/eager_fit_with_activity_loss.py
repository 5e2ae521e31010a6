"""fit() run eagerly: the prediction leaves through NumPy, an added loss keeps the weights moving."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(6)


class Ranker(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.score = tf.keras.layers.Dense(1)

    def call(self, x):
        raw = self.score(x)
        self.add_loss(1e-3 * tf.reduce_sum(tf.square(raw)))
        return tf.constant(np.tanh(raw))  # cut here


model = Ranker()
model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
x = np.random.default_rng(2).normal(size=(8, 3)).astype("float32")
model.fit(x, np.ones((8, 1), "float32"), batch_size=4, epochs=1, verbose=0)
