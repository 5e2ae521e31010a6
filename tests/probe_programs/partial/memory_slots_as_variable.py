"""An external memory is a Variable that is written slot by slot and read with a residual connection."""

import tensorflow as tf

tf.random.set_seed(3)


class Memory(tf.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.slots = tf.Variable(tf.zeros([slots, width]), trainable=False)
        self.gate = tf.Variable(tf.random.normal([width, width]))

    def remember(self, slot, event):
        self.slots[slot].assign(tf.linalg.matvec(self.gate, event))  # cut here

    def recall(self, query):
        return tf.linalg.matvec(self.gate, query) + tf.reduce_sum(self.slots, axis=0)


memory = Memory(3, 4)
events = tf.random.normal([3, 4])
with tf.GradientTape() as tape:
    for slot in range(3):
        memory.remember(slot, events[slot])
    loss = tf.reduce_sum(tf.square(memory.recall(tf.ones([4]))))
print(tape.gradient(loss, memory.gate))
