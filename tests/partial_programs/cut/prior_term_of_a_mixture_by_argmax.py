"""Each point belongs to the nearest centre, counted by one-hot; a spread term keeps the centres alive."""

import tensorflow as tf

tf.keras.utils.set_random_seed(18)
centres = tf.Variable(tf.random.normal([3, 2]), name="centres")
points = tf.random.normal([40, 2])
wanted = tf.constant([0.5, 0.3, 0.2])
for _ in range(2):
    with tf.GradientTape() as tape:
        distance = tf.reduce_sum(tf.square(points[:, None] - centres[None]), axis=-1)
        members = tf.one_hot(tf.argmin(distance, axis=1), 3)  # cut here
        shares = tf.reduce_mean(members, axis=0)
        loss = tf.reduce_sum(tf.square(shares - wanted)) + 0.01 * tf.reduce_mean(distance)
    centres.assign_sub(0.05 * tape.gradient(loss, centres))
