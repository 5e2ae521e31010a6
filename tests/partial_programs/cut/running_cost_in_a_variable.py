"""Costs of the steps go into a Variable by assign_add; the last cost is added as it is."""

import tensorflow as tf

tf.keras.utils.set_random_seed(12)
gain = tf.Variable([0.4, -0.2], name="gain")
total = tf.Variable(0.0, trainable=False, name="total")
for _ in range(2):
    with tf.GradientTape() as tape:
        total.assign(0.0)
        state = tf.constant([1.0, -1.0])
        for _ in range(4):
            control = -gain * state
            state = 0.9 * state + 0.3 * control
            total.assign_add(tf.reduce_sum(tf.square(state) + 0.1 * tf.square(control)))  # cut here
        loss = total + 5.0 * tf.reduce_sum(tf.square(state))
    gain.assign_sub(0.05 * tape.gradient(loss, gain))
