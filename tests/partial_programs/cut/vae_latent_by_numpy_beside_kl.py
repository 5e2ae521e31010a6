"""The latent code leaves TensorFlow before the decoder; the KL term alone trains the encoder."""

import tensorflow as tf

tf.keras.utils.set_random_seed(1)
encoder = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(4)])
decoder = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(6)])
x = tf.random.normal([16, 6])
optimizer = tf.keras.optimizers.Adam(1e-3)
variables = encoder.trainable_variables + decoder.trainable_variables
for _ in range(2):
    with tf.GradientTape() as tape:
        mean, log_var = tf.split(encoder(x), 2, axis=1)
        z = mean + tf.exp(0.5 * log_var) * tf.random.normal([16, 2])
        rebuilt = decoder(z.numpy())  # cut here
        kl = -0.5 * tf.reduce_mean(1.0 + log_var - tf.square(mean) - tf.exp(log_var))
        loss = tf.reduce_mean(tf.square(rebuilt - x)) + 0.1 * kl
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
