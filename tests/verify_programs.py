"""Small programs that the tests of verification run, and the one warm process they share."""

from __future__ import annotations

from pathlib import Path

#: two layers in a row; `step()` asks for the gradients of both
WHOLE = """
import os
import sys

import tensorflow as tf

encoder = tf.keras.layers.Dense(3)
decoder = tf.keras.layers.Dense(2)
x = tf.random.normal([4, 5])


def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(decoder(encoder(x)) ** 2)
    return tape.gradient(loss, encoder.trainable_variables + decoder.trainable_variables)


"""
#: the code of the encoder leaves TensorFlow on its way to the decoder, in line CUT_LINE
CUT = WHOLE.replace("decoder(encoder(x))", "decoder(encoder(x).numpy())")
CUT_LINE = 1 + next(i for i, line in enumerate(CUT.splitlines()) if ".numpy()" in line)


def written(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
