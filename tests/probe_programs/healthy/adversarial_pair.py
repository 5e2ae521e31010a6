"""Generator and critic in turn; the fake batch of the critic's step is made outside its tape, by predict."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(8)
generator = tf.keras.Sequential([tf.keras.layers.Dense(2)])
critic = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
rng = np.random.default_rng(2)
generator(np.zeros((1, 3), "float32")), critic(np.zeros((1, 2), "float32"))
for _ in range(2):
    noise = rng.normal(size=(8, 3)).astype("float32")
    fake = generator.predict(noise, verbose=0)
    with tf.GradientTape() as tape:
        gap = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(rng.normal(size=(8, 2)).astype("float32")))
    critic_grads = tape.gradient(gap, critic.trainable_variables)
    with tf.GradientTape() as tape:
        score = -tf.reduce_mean(critic(generator(noise)))
    generator_grads = tape.gradient(score, generator.trainable_variables)
    print(len(critic_grads), len(generator_grads))
