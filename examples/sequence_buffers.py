"""A sequence model in two levels: a feature for each position, then a prediction from the whole sequence.

Both levels are collected in NumPy buffers, sample by sample and position by position, so nothing that is trained is
left on the tape. One more model is made and never used.
"""

import numpy as np
import tensorflow as tf

BATCH, POSITIONS, SIDE, FEATURES = 4, 5, 7, 8


class Local(tf.keras.layers.Layer):
    """The feature of one position: a small image."""

    def __init__(self):
        super().__init__()
        self.convolution = tf.keras.layers.Conv2D(4, 3, activation="relu")
        self.flat = tf.keras.layers.Flatten()
        self.feature = tf.keras.layers.Dense(FEATURES, activation="tanh")

    def call(self, image):
        return self.feature(self.flat(self.convolution(image)))


class Global(tf.keras.layers.Layer):
    """The prediction from all positions."""

    def __init__(self):
        super().__init__()
        self.recurrent = tf.keras.layers.LSTM(6)
        self.prediction = tf.keras.layers.Dense(SIDE * SIDE)

    def call(self, features):
        return self.prediction(self.recurrent(features))


class SequenceModel(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.local = Local()
        self.overall = Global()

    def call(self, inputs):
        batch_output = np.zeros((inputs.shape[0], 1, SIDE * SIDE), dtype=np.float32)
        for j in range(inputs.shape[0]):
            features = np.zeros((inputs.shape[1], FEATURES), dtype=np.float32)
            for i in range(inputs.shape[1]):
                image = tf.reshape(inputs[j, i, :], (1, SIDE, SIDE, 1))
                features[i, :] = self.local(image)
            sequence = tf.reshape(features, (1, inputs.shape[1], FEATURES))
            batch_output[j, :, :] = self.overall(sequence)
        return tf.convert_to_tensor(batch_output)


def main():
    tf.keras.utils.set_random_seed(2)
    inputs = tf.random.normal((BATCH, POSITIONS, SIDE * SIDE))
    targets = tf.random.normal((BATCH, 1, SIDE * SIDE))
    model = SequenceModel()
    spare = SequenceModel()
    optimizer = tf.keras.optimizers.Adam()
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(targets - model(inputs)))
        gradients = tape.gradient(loss, model.trainable_variables)
        missing = sum(gradient is None for gradient in gradients)
        print(f"{len(gradients) - missing} of {len(gradients)} gradients, loss {float(loss):.4f}")
        if missing == 0:
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))


if __name__ == "__main__":
    main()
