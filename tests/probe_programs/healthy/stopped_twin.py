"""Two views of one network, the second behind stop_gradient; the twin follows by moving average."""

import tensorflow as tf

tf.random.set_seed(7)
online = tf.keras.Sequential([tf.keras.layers.Dense(6)])
twin = tf.keras.Sequential([tf.keras.layers.Dense(6)])
x = tf.random.normal([5, 3])
online(x), twin(x)
twin.set_weights(online.get_weights())
for _ in range(2):
    with tf.GradientTape() as tape:
        guess, goal = online(x), tf.stop_gradient(twin(x + 0.1) + online(x))
        loss = tf.reduce_mean(tf.square(guess - goal))
        for slow, fast in zip(twin.variables, online.variables):
            slow.assign(0.9 * slow + 0.1 * fast)
    print(len(tape.gradient(loss, online.trainable_variables)))
