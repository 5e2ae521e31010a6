"""A gate chooses the expert by an index: the gate never learns, the other experts not now."""

import tensorflow as tf

tf.random.set_seed(9)
gate = tf.keras.layers.Dense(3, activation="softmax")
experts = [tf.keras.layers.Dense(2) for _ in range(3)]
x = tf.random.normal([1, 4])
gate(x), [expert(x) for expert in experts]


def route(inputs):
    best = int(tf.argmax(gate(inputs)[0]))  # cut here
    return experts[best](inputs)


with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf.square(route(x)))
sources = gate.trainable_variables + [v for expert in experts for v in expert.trainable_variables]
print([g is None for g in tape.gradient(loss, sources)])
