"""A Variable counts the steps under the tape, and the costs are summed as tensors."""

import tensorflow as tf

tf.keras.utils.set_random_seed(12)
gain = tf.Variable([0.4, -0.2], name="gain")
steps = tf.Variable(0.0, trainable=False, name="steps")
for _ in range(2):
    with tf.GradientTape() as tape:
        state, total = tf.constant([1.0, -1.0]), 0.0
        for _ in range(4):
            control = -gain * state
            state = 0.9 * state + 0.3 * control
            total += tf.reduce_sum(tf.square(state) + 0.1 * tf.square(control))
            steps.assign_add(1.0)
        loss = total / steps
    gain.assign_sub(0.05 * tape.gradient(loss, gain))
