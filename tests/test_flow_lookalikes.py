"""Library code of which only classes and functions are there: what looks as if a gradient were cut, and what is."""

from __future__ import annotations

import textwrap

import pytest

from tapefix.documents.document import Document
from tapefix.flow import understand

LOOK_ALIKES = {
    "labels by a decoder only where nothing is trained": """
        class Tagger(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.head = tf.keras.layers.Dense(4)

            def build(self, shape):
                self.transitions = self.add_weight("transitions", [4, 4])

            def call(self, x, training=None):
                logits = self.head(x)
                if not training:
                    ids, _ = best_path(logits, self.transitions)
                    return logits, {"ids": tf.cast(ids, tf.int64)}
                return logits, None
        """,
    "a beam where fit would not go": """
        class Spans(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.start, self.end = tf.keras.layers.Dense(1), tf.keras.layers.Dense(1)

            def call(self, x, training=False):
                start = self.start(x)
                if training:
                    end = self.end(x)
                else:
                    best, at = tf.math.top_k(tf.squeeze(start, -1), k=2)
                    end = self.end(x + tf.cast(tf.expand_dims(at, -1), tf.float32))
                return start + end


        def main(data):
            model = Spans()
            model.compile("adam", "mse")
            model.fit(data)
        """,
    "a name read off the batch in test mode": """
        class Codes(tf.keras.Model):
            def __init__(self, names):
                super().__init__()
                self.names, self.mixed = names, tf.keras.layers.Dense(3)

            def call(self, batch, mode="train"):
                if mode == "test" and batch[0] == -1:
                    first, second = batch[0].numpy().decode().split("_")
                    z = float(first) * tf.ones([3]) + float(second)
                else:
                    z = batch
                return self.mixed(z)
        """,
    "a module of another framework": """
        import torch
        from torch import nn


        class Net(nn.Module):
            def compute_loss(self, y_pred, y_true):
                return self.loss(y_pred, y_true) + float(y_pred.abs().max().item())
        """,
    "a layer that says what inputs it takes": """
        from tensorflow.keras.layers import InputSpec


        class Norm(tf.keras.layers.Layer):
            def build(self, shape):
                self.input_spec = InputSpec(ndim=len(shape))
                self.scale = self.add_weight("scale", shape[-1:])

            def call(self, x):
                return x * self.scale


        model = tf.keras.Sequential([Norm()])
        model.compile("adam", "mse")
        model.fit(x, y)
        """,
    "views of one model": """
        inputs = tf.keras.Input((4,))
        code = tf.keras.layers.Dense(3)(inputs)
        outputs = tf.keras.layers.Dense(1)(code)
        model = tf.keras.Model(inputs, outputs)
        encoder = tf.keras.Model(inputs, code)
        model.compile("adam", "mse")
        model.fit(x, y)
        """,
    "a model that is only looked at": """
        inputs = tf.keras.Input((4,))
        deep = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))
        deep.summary(line_length=80)
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("adam", "mse")
        model.fit(x, y)
        """,
    "a saved model that is read back": """
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("adam", "mse")
        model.fit(x, y)
        model.save("a.h5")
        again = tf.keras.models.load_model("a.h5")
        print("saved")
        """,
    "a chain of layers that came as arguments": """
        class Pair(tf.keras.Model):
            def __init__(self, **parts):
                super().__init__()
                self.__dict__.update(parts)
                self.front = tf.keras.Sequential(self.front)
                self.judge = tf.keras.Sequential([tf.keras.layers.Dense(1)])

            @tf.function
            def slopes(self, x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(self.judge(self.front(x)))
                return tape.gradient(loss, self.front.trainable_variables)
        """,
    "fast weights in a copy": """
        class Sines(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.a, self.out = tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)

            def call(self, x):
                return self.out(tf.nn.relu(self.a(x)))


        def copied(x):
            twin = Sines()
            twin(x)
            return twin


        def train(x, y, rate):
            model = Sines()
            model(x)
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    first = tf.reduce_mean(tf.square(model(x) - y))
                slopes = inner.gradient(first, model.trainable_variables)
                twin, k = copied(x), 0
                for j in range(len(twin.layers)):
                    twin.layers[j].kernel = tf.subtract(model.layers[j].kernel, rate * slopes[k])
                    twin.layers[j].bias = tf.subtract(model.layers[j].bias, rate * slopes[k + 1])
                    k += 2
                loss = tf.reduce_mean(tf.square(twin(x) - y))
            return outer.gradient(loss, model.trainable_variables)
        """,
    "fast weights put into the objects' own dictionaries": """
        class Learner:
            def __init__(self):
                self.model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])

            def step(self, x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(self.adapted(x)(x) - y))
                return tape.gradient(loss, self.model.trainable_variables)


        class Quick(Learner):
            def adapted(self, x):
                twin = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])
                for ours, theirs in zip(self.model.layers, twin.layers):
                    for name in ("kernel", "bias"):
                        theirs.__dict__[name] = ours.__dict__[name] * 0.9
                return twin


        Quick().step(x, y)
        """,
    "a condition that is a layer from elsewhere": """
        class Either(tf.keras.layers.Layer):
            def __init__(self, condition: tf.keras.layers.Layer, one: tf.keras.layers.Layer):
                super().__init__()
                self.condition, self.one = condition, one

            def call(self, x):
                return tf.cond(tf.convert_to_tensor(self.condition(x)), lambda: self.one(x), lambda: x)
        """,
    "a list of tensors from a function with its own gradient": """
        def loop(body, start, params):
            @tf.custom_gradient
            def run(*given):
                def grad(*slopes):
                    return slopes
                return body(*given), grad
            return run(*start, *params)


        def test_loop():
            a = tf.constant(2.0)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(a)
                out = loop(lambda x, a: [x * a, x + a], [tf.constant(3.0)], [a])
            return tape.gradient(out[1], a)
        """,
    "a critic frozen in the model of its opponent": """
        class Game:
            def __init__(self):
                self.critic = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                self.maker = tf.keras.Sequential([tf.keras.layers.Dense(3)])
                self.critic.trainable = False
                self.both = tf.keras.Sequential([self.maker, self.critic])
                self.optimizer = tf.keras.optimizers.Adam()

            def step(self, real, fake):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(self.critic(fake)) - tf.reduce_mean(self.critic(real))
                slopes = tape.gradient(loss, self.critic.variables)
                self.optimizer.apply_gradients(zip(slopes, self.critic.variables))
        """,
    "weights listed in a method, of a model that another one calls": """
        class Policy(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.out = tf.keras.layers.Dense(2)

            def call(self, x):
                return self.out(x)


        class Agent:
            def __init__(self):
                self.model, self.optimizer = Policy(), tf.keras.optimizers.Adam()

            def learn(self, states, rewards):
                weights = self.model.trainable_variables
                with tf.GradientTape() as tape:
                    loss = -tf.reduce_sum(self.model(states) * rewards)
                self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))

            def act(self, state):
                return np.array(self.model(state)[0])
        """,
    "a width inferred from the first batch": """
        class Kernel(tf.keras.Model):
            def __init__(self, trainable=False):
                super().__init__()
                self.log_width = self.add_weight(shape=(1,), initializer="zeros", trainable=trainable)
                self.init_required = True

            def call(self, x, y, infer=False):
                gap = tf.reduce_sum(tf.square(x - y), -1)
                if infer or self.init_required:
                    self.log_width.assign(tf.math.log(tf.reduce_mean(gap, keepdims=True)))
                    self.init_required = False
                return tf.exp(-gap / tf.exp(self.log_width))


        class Deep(tf.keras.Model):
            def __init__(self, kernel=None):
                super().__init__()
                self.kernel, self.proj = Kernel(trainable=True), tf.keras.layers.Dense(2)

            def call(self, x, y):
                return self.kernel(self.proj(x), self.proj(y))
        """,
    "one class of layers or another in a chain": """
        class Lookup(tf.keras.layers.Layer):
            def build(self, shape):
                self.table = self.add_weight("table", [5, 1])

            def call(self, x):
                return tf.matmul(tf.one_hot(tf.squeeze(x, -1), 5), self.table)


        def make(parts, several):
            model = tf.keras.Sequential()
            if several > 1:
                model.add(Lookup())
            else:
                model.add(Lookup())
            model.compile("sgd", "mse")
            model.fit(parts, parts)
        """,
    "a model of labels that is only evaluated": """
        inputs = tf.keras.Input((2,))
        labels = tf.argmax(tf.keras.layers.Dense(2)(inputs), axis=1)
        model = tf.keras.Model(inputs, labels)
        model.compile("sgd", loss="mse", metrics=["accuracy"])
        print(model.evaluate(data))
        """,
    "a list of weights that a tape is told to watch": """
        class Agent:
            def __init__(self):
                self.model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
                self.optimizer = tf.keras.optimizers.Adam()

            def learn(self, state):
                weights = self.model.trainable_variables
                with tf.GradientTape() as tape:
                    tape.watch(weights)
                    loss = tf.reduce_mean(tf.square(self.model(state)))
                self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))

            def act(self, state):
                return self.model(state)
        """,
    "a head that has a method named predict": """
        def adapted(task, body):
            inputs = tf.keras.Input((3,))
            outputs = task.predict(*[layer(inputs) for layer in [tf.keras.layers.Dense(2), body]])
            model = tf.keras.Model(inputs, outputs)
            model.compile("adam", "mse")
            model.fit(numbers, numbers)
            task.fit(numbers)
        """,
}

CUTS = {
    "a loss after the block, of weights that are not known": (
        """
        def for_search(model, x, y, put, weights):
            def value_and_slope(w):
                with tf.GradientTape() as tape:
                    put(w)
                loss = tf.reduce_sum(tf.square(model(x) - y))
                return loss, tape.gradient(loss, weights())

            return value_and_slope
        """,
        ["loss = tf.reduce_sum(tf.square(model(x) - y))"],
    ),
    "the same in a method": (
        """
        class Search:
            def __init__(self, model):
                self.model = model

            def slope_for(self, x, y):
                def value_and_slope(w):
                    with tf.GradientTape() as tape:
                        self.put(w)
                    loss = tf.reduce_mean(tf.abs(self.model(x) - y))
                    return loss, tape.gradient(loss, self.wrapped())

                return value_and_slope
        """,
        ["loss = tf.reduce_mean(tf.abs(self.model(x) - y))"],
    ),
    "a layer made and called at once below a setting": (
        """
        class Capsules(tf.keras.layers.Layer):
            def __init__(self, dim, kind=0):
                super().__init__()
                self.kind, self.dim = kind, dim

            def call(self, x):
                if self.kind == 1:
                    x = tf.keras.layers.Dense(self.dim, activation=None)(x)
                return tf.nn.softmax(x)
        """,
        ["tf.keras.layers.Dense(self.dim, activation=None)"],
    ),
    "one for each of several settings": (
        """
        class Gated(tf.keras.Model):
            def __init__(self, gate="none"):
                super().__init__()
                self.gate, self.out = gate, tf.keras.layers.Dense(1)

            def call(self, x):
                x = tf.keras.layers.Dense(4)(x) if self.gate == "linear" else x
                return self.out(x)
        """,
        ["tf.keras.layers.Dense(4)"],
    ),
}
HEAD = "import numpy as np\nimport tensorflow as tf\n"


@pytest.mark.parametrize("body", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_is_left_alone(body: str):
    model = understand(Document("program.py", (HEAD + textwrap.dedent(body)).encode()))
    assert [model.document.source(cut.spot.node) for cut in model.cuts] == []
    assert [one.name for one in model.unused()] == []


@pytest.mark.parametrize(("body", "places"), CUTS.values(), ids=CUTS)
def test_is_pointed_at(body: str, places: list[str]):
    model = understand(Document("program.py", (HEAD + textwrap.dedent(body)).encode()))
    assert [model.document.source(cut.spot.node) for cut in model.cuts] == places
