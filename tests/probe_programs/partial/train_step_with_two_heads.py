"""A custom train_step: one head stays in TensorFlow, the loss of the other is a Python number."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(7)


class TwoHeads(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.trunk = tf.keras.layers.Dense(8, activation="relu")
        self.age = tf.keras.layers.Dense(1)
        self.sex = tf.keras.layers.Dense(1)

    def call(self, x):
        h = self.trunk(x)
        return self.age(h), self.sex(h)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            age, sex = self(x, training=True)
            first = tf.reduce_mean(tf.square(age - y))
            second = tf.reduce_mean(tf.square(sex - y)).numpy()  # cut here
            loss = first + second + 1e-3 * tf.nn.l2_loss(self.sex.kernel)
        variables = [self.trunk.kernel, self.age.kernel, self.sex.kernel]
        grads = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(grads, variables))
        return {"loss": loss}


model = TwoHeads()
model.compile(optimizer="sgd", run_eagerly=True)
x = np.random.default_rng(3).normal(size=(8, 4)).astype("float32")
model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
