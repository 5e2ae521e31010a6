"""A decision module sends each image to network A or network B.

Only the decision module is trained. Its output is 0 or 1 and has a gradient (a threshold that passes it straight
through), but a Python `if` asks it which network to call, and no gradient goes through a question.
"""

import tensorflow as tf

BATCH, SIDE, CLASSES = 8, 6, 2


class Decision(tf.keras.Model):
    """A number for each image, 0 or 1."""

    def __init__(self):
        super().__init__()
        self.flat = tf.keras.layers.Flatten()
        self.score = tf.keras.layers.Dense(1, activation="sigmoid")

    def call(self, images):
        probability = self.score(self.flat(images))
        hard = tf.cast(probability > 0.5, tf.float32)
        return probability + tf.stop_gradient(hard - probability)


def classifier(name):
    layers = [tf.keras.layers.Flatten(), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(CLASSES)]
    return tf.keras.Sequential(layers, name=name)


def train_step(decision, network_a, network_b, optimizer, images, labels):
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        sigma = decision(images, training=True)
        outputs = []
        for image, s in zip(images, sigma):
            if s == 0:
                output = network_a(tf.expand_dims(image, axis=0), training=False)
            else:
                output = network_b(tf.expand_dims(image, axis=0), training=False)
            outputs.append(output)
        predictions = tf.concat(outputs, axis=0)
        loss = cross_entropy(labels, predictions)
    gradients = tape.gradient(loss, decision.trainable_variables)
    missing = sum(gradient is None for gradient in gradients)
    print(f"decision: {len(gradients) - missing} of {len(gradients)} gradients, loss {float(loss):.4f}")
    if missing == 0:
        optimizer.apply_gradients(zip(gradients, decision.trainable_variables))


def main():
    tf.keras.utils.set_random_seed(3)
    images = tf.random.normal((BATCH, SIDE, SIDE, 1))
    labels = tf.random.uniform((BATCH,), maxval=CLASSES, dtype=tf.int32)
    decision, network_a, network_b = Decision(), classifier("a"), classifier("b")
    optimizer = tf.keras.optimizers.Adam()
    for _ in range(3):
        train_step(decision, network_a, network_b, optimizer, images, labels)


if __name__ == "__main__":
    main()
