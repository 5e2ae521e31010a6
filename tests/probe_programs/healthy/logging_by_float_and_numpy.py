"""Numbers for the log are taken out under the tape; none of them comes back."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
x, y = tf.random.normal([16, 3]), tf.random.normal([16, 1])
model(x)
history = {"loss": [], "spread": [], "best": np.inf}
for _ in range(3):
    with tf.GradientTape() as tape:
        out = model(x)
        loss = tf.reduce_mean(tf.square(out - y))
        history["loss"].append(float(loss))
        history["spread"].append(np.std(out))
        history["best"] = min(history["best"], loss.numpy())
        print(f"loss {loss:.3f}", np.mean(history["loss"]), "improved" if float(loss) <= history["best"] else "")
    grads = tape.gradient(loss, model.trainable_variables)
    for variable, grad in zip(model.trainable_variables, grads):
        variable.assign_sub(0.05 * grad)
