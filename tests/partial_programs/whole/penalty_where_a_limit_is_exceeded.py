"""What lies over a limit is penalised by how much, chosen by a mask."""

import tensorflow as tf

tf.keras.utils.set_random_seed(19)
plan = tf.Variable(tf.random.uniform([7], 0.0, 2.0), name="plan")
price = tf.random.uniform([7])
for _ in range(2):
    with tf.GradientTape() as tape:
        over = tf.where(plan > 1.0, plan - 1.0, tf.zeros_like(plan))
        loss = tf.reduce_sum(price * plan) + 2.0 * tf.reduce_sum(over)
    plan.assign_sub(0.05 * tape.gradient(loss, plan))
