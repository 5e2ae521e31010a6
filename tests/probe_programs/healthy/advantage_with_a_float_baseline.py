"""The critic's value is a number in the actor's term and a tensor in its own."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(5)
inputs = tf.keras.Input((3,))
body = tf.keras.layers.Dense(8, activation="tanh")(inputs)
net = tf.keras.Model(inputs, [tf.keras.layers.Dense(2, activation="softmax")(body), tf.keras.layers.Dense(1)(body)])
rng = np.random.default_rng(1)

for _ in range(2):
    with tf.GradientTape() as tape:
        actor, critic = [], []
        for reward in rng.normal(size=4):
            probabilities, value = net(rng.normal(size=(1, 3)).astype("float32"))
            chances = np.asarray(probabilities[0], "float64")
            action = rng.choice(2, p=chances / chances.sum())
            actor.append(-tf.math.log(probabilities[0, action]) * (reward - float(value[0, 0])))
            critic.append(tf.square(reward - value[0, 0]))
        loss = tf.add_n(actor) + tf.add_n(critic)
    print(len(tape.gradient(loss, net.trainable_variables)))
