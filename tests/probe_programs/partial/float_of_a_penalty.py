"""The sparsity penalty is turned into a number before it joins the loss; only the data term trains."""

import tensorflow as tf

tf.random.set_seed(1)
codes = tf.Variable(tf.random.normal([6, 3]))
mixing = tf.Variable(tf.random.normal([3, 4]))
wanted = tf.random.normal([6, 4])


def objective():
    misfit = tf.reduce_mean(tf.square(codes @ mixing - wanted))
    sparsity = float(tf.reduce_sum(tf.abs(codes)))  # cut here
    return misfit + 0.01 * sparsity


for _ in range(2):
    with tf.GradientTape() as tape:
        loss = objective()
    for variable, slope in zip([codes, mixing], tape.gradient(loss, [codes, mixing])):
        variable.assign_sub(0.1 * slope)
