"""The inner step makes new tensors of the weights; its loss is logged as a number."""

import tensorflow as tf

tf.random.set_seed(13)
slow = {"w": tf.Variable(tf.random.normal([1, 1])), "b": tf.Variable(tf.zeros([1]))}
x = tf.random.uniform([10, 1])


def error(weights, points):
    return tf.reduce_mean(tf.square(points @ weights["w"] + weights["b"] - 2.0 * points))


log = []
with tf.GradientTape() as outer:
    fast = dict(slow)
    for _ in range(2):
        with tf.GradientTape() as inner:
            inner.watch([tf.convert_to_tensor(value) for value in fast.values()])
            fast = {name: tf.convert_to_tensor(value) for name, value in fast.items()}
            inner.watch(list(fast.values()))
            loss = error(fast, x[:5])
        log.append(float(loss))
        slopes = inner.gradient(loss, fast)
        fast = {name: fast[name] - 0.1 * slopes[name] for name in fast}
    final = error(fast, x[5:])
print(log, len(outer.gradient(final, slow)))
