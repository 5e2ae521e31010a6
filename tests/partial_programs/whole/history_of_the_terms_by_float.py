"""Each term is written down as a number while the tensors are summed."""

import tensorflow as tf

tf.keras.utils.set_random_seed(8)
knots = tf.Variable(tf.random.normal([9]), name="knots")
data = tf.cos(tf.linspace(0.0, 3.0, 9))
history = {"misfit": [], "rough": []}
for _ in range(2):
    with tf.GradientTape() as tape:
        misfit = tf.reduce_sum(tf.square(knots - data))
        rough = tf.reduce_sum(tf.square(knots[1:] - knots[:-1]))
        history["misfit"].append(float(misfit))
        history["rough"].append(float(rough))
        loss = misfit + 0.5 * rough
    knots.assign_sub(0.05 * tape.gradient(loss, knots))
print(sum(history["misfit"]) + sum(history["rough"]))
