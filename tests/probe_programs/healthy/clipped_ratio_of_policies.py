"""The old policy's log-probabilities are taken out of TensorFlow in the first round."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(4)
policy = tf.keras.layers.Dense(3)
states = tf.random.normal([8, 5])
actions, gains = np.arange(8) % 3, np.linspace(-1, 1, 8).astype("float32")
policy(states)


def log_probs():
    return tf.reduce_sum(tf.nn.log_softmax(policy(states)) * tf.one_hot(actions, 3), axis=1)


old = None
for _ in range(3):
    with tf.GradientTape() as tape:
        now = log_probs()
        if old is None:
            old = now.numpy()
        ratio = tf.exp(now - old)
        clipped = tf.clip_by_value(ratio, 0.8, 1.2)
        loss = -tf.reduce_mean(tf.minimum(ratio * gains, clipped * gains))
    for variable, grad in zip(policy.trainable_variables, tape.gradient(loss, policy.trainable_variables)):
        variable.assign_sub(0.1 * grad)
