"""Actions are sampled by NumPy from the probabilities; their log-probabilities are tensors."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(15)
policy = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)])
rng = np.random.default_rng(15)
states = tf.random.normal([8, 2])
for _ in range(2):
    with tf.GradientTape() as tape:
        log_probs = tf.nn.log_softmax(policy(states))
        probs = np.exp(log_probs.numpy().astype("float64"))
        actions = [rng.choice(3, p=row / row.sum()) for row in probs]
        reward = tf.constant([1.0 if action == 1 else -0.2 for action in actions])
        chosen = tf.reduce_sum(tf.one_hot(actions, 3) * log_probs, axis=1)
        entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=1))
        loss = -tf.reduce_mean(chosen * reward) - 0.01 * entropy
    grads = tape.gradient(loss, policy.trainable_variables)
    for v, g in zip(policy.trainable_variables, grads):
        v.assign_sub(0.05 * g)
