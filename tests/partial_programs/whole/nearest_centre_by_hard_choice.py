"""k-means: the nearest centre is chosen hard, and the distance to it is differentiated."""

import tensorflow as tf

tf.keras.utils.set_random_seed(18)
centres = tf.Variable(tf.random.normal([3, 2]), name="centres")
points = tf.random.normal([40, 2])
for _ in range(2):
    with tf.GradientTape() as tape:
        distance = tf.reduce_sum(tf.square(points[:, None] - centres[None]), axis=-1)
        nearest = tf.argmin(distance, axis=1)
        loss = tf.reduce_mean(tf.gather(distance, nearest, axis=1, batch_dims=1))
    centres.assign_sub(0.05 * tape.gradient(loss, centres))
