"""Inside tf.function a Variable holds the outputs of each step; weight decay keeps a gradient alive."""

import tensorflow as tf

tf.random.set_seed(13)
cell = tf.Variable(tf.random.normal([3, 3]))
outputs = tf.Variable(tf.zeros([4, 3]), trainable=False)


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        h = x
        for i in range(4):
            h = tf.tanh(tf.linalg.matvec(cell, h))
            outputs[i].assign(h)  # cut here
        loss = tf.reduce_sum(outputs) + 1e-2 * tf.reduce_sum(tf.square(cell))
    grad = tape.gradient(loss, cell)
    cell.assign_sub(0.1 * grad)
    return loss


for _ in range(2):
    print(step(tf.ones([3])))
