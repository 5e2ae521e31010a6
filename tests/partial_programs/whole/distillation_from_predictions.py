"""A teacher's predictions are the targets of a student: computed before the tape, teacher not trained."""

import tensorflow as tf

tf.keras.utils.set_random_seed(10)
teacher = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
student = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
x = tf.random.normal([10, 4])
targets = tf.nn.softmax(teacher.predict(x, verbose=0))
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, student(x)))
        loss += 1e-4 * tf.add_n([tf.nn.l2_loss(v) for v in student.trainable_variables])
    grads = tape.gradient(loss, student.trainable_variables)
    for v, g in zip(student.trainable_variables, grads):
        v.assign_sub(0.1 * g)
