"""A variational autoencoder whose decoder writes one token after the other.

Each step is written into a Variable. All gradients of the encoder are there (the latent loss sees to that), and none
of the decoder's.
"""

import numpy as np
import tensorflow as tf

BATCH, STEPS, TOKENS, LATENT = 4, 3, 5, 6


class Encoder(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(16, activation="relu")
        self.mean = tf.keras.layers.Dense(LATENT)
        self.log_variance = tf.keras.layers.Dense(LATENT)

    def call(self, tokens):
        hidden = self.hidden(tokens)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        noise = tf.random.normal(tf.shape(mean))
        return mean + tf.exp(log_variance / 2) * noise, mean, log_variance


class Decoder(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.cell = tf.keras.layers.GRU(8, return_sequences=True, return_state=True)
        self.token = tf.keras.layers.Dense(TOKENS, activation="softmax")

    def call(self, code, state=None):
        outputs, state = self.cell(code, initial_state=state)
        return self.token(outputs), state


def train_step(encoder, decoder, optimizers, tokens):
    cross_entropy = tf.keras.losses.CategoricalCrossentropy()
    with tf.GradientTape(persistent=True) as tape:
        code, mean, log_variance = encoder(tf.reshape(tokens, (BATCH, -1)))
        code = tf.expand_dims(code, axis=1)

        reconstruction = tf.Variable(tf.zeros_like(tokens))
        state = None
        for i in range(STEPS):
            step, state = decoder(code, state)
            reconstruction = reconstruction[:, i, :].assign(tf.squeeze(step, axis=1))

        latent = -0.5 * tf.reduce_mean(1.0 + log_variance - tf.exp(log_variance) - tf.square(mean))
        loss = cross_entropy(tokens, reconstruction) + latent
    for model, optimizer in zip((encoder, decoder), optimizers):
        gradients = tape.gradient(loss, model.trainable_weights)
        missing = sum(gradient is None for gradient in gradients)
        print(f"{model.name}: {len(gradients) - missing} of {len(gradients)} gradients")
        if missing == 0:
            optimizer.apply_gradients(zip(gradients, model.trainable_weights))
    return loss


def main():
    tf.keras.utils.set_random_seed(1)
    tokens = tf.one_hot(np.random.randint(TOKENS, size=(BATCH, STEPS)), TOKENS)
    encoder, decoder = Encoder(), Decoder()
    optimizers = tf.keras.optimizers.Adam(), tf.keras.optimizers.Adam()
    for _ in range(3):
        loss = train_step(encoder, decoder, optimizers, tokens)
        print(f"loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
