"""How many limits a plan violates is counted; its cost is differentiated."""

import tensorflow as tf

tf.keras.utils.set_random_seed(19)
plan = tf.Variable(tf.random.uniform([7], 0.0, 2.0), name="plan")
price = tf.random.uniform([7])
for _ in range(2):
    with tf.GradientTape() as tape:
        over = tf.reduce_sum(tf.cast(plan > 1.0, tf.float32))  # cut here
        loss = tf.reduce_sum(price * plan) + 2.0 * over
    plan.assign_sub(0.05 * tape.gradient(loss, plan))
