"""The flow model on small programs: tapes, containers, closures, modules, branches, and what it says of itself."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tapefix.documents.document import Document, UnreadableDocument
from tapefix.flow import How, Model, RepositoryLoader, Role, is_graph_code, may_hold_findings, understand

HEAD = """\
import numpy as np
import tensorflow as tf

w = tf.Variable([1.0, 2.0], name="w")
x = tf.constant([3.0, 4.0])
"""


def model_of(body: str, head: str = HEAD) -> Model:
    return understand(Document("program.py", (head + textwrap.dedent(body)).encode()))


def cuts_of(body: str, head: str = HEAD) -> list[tuple[How, str]]:
    """The manner of each cut and the text it points at."""
    model = model_of(body, head)
    return [(cut.how, model.document.source(cut.spot.node)) for cut in model.cuts]


def step(*lines: str, target: str = "loss", sources: str = "[w]") -> str:
    """A gradient call around some lines."""
    inside = "\n".join(f"    {line}" for line in lines)
    return f"with tf.GradientTape() as tape:\n{inside}\ngradients = tape.gradient({target}, {sources})\n"


class TestTapes:
    def test_a_forward_pass_before_the_tape(self):
        assert cuts_of("y = w * x\n" + step("loss = tf.reduce_sum(y)")) == [(How.OUTSIDE_TAPE, "y = w * x")]

    def test_one_inside_it(self):
        assert cuts_of(step("y = w * x", "loss = tf.reduce_sum(y)")) == []

    def test_a_tensor_that_is_not_watched(self):
        assert [how for how, _ in cuts_of(step("loss = tf.reduce_sum(x * x)", sources="x"))] == [How.UNWATCHED]

    def test_one_that_is_watched(self):
        assert cuts_of(step("tape.watch(x)", "loss = tf.reduce_sum(x * x)", sources="x")) == []

    def test_one_that_is_watched_by_another_name(self):
        body = "pair = (x, x + 1.0)\n" + step("tape.watch(pair)", "loss = tf.reduce_sum(x * x)", sources="pair[0]")
        assert cuts_of(body) == []

    def test_a_none_of_what_is_not_watched_may_be_meant_too(self):
        body = """
        def test_it():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x * w)
            slopes = tape.gradient(loss, [x, w])
            assert slopes[0] is None

        test_it()
        """
        assert cuts_of(body) == []
        assert [how for how, _ in cuts_of(body.replace("is None", "is not None"))] == [How.UNWATCHED]

    def test_a_none_that_is_asserted_is_meant(self):
        body = """
        def test_it():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.round(w))
            assert tape.gradient(loss, w) is None
        """
        assert cuts_of(body) == []

    def test_values_that_nobody_differentiates(self):
        assert cuts_of(step("loss = tf.reduce_sum(w * x)") + "print(np.mean(w * x), (w * x).numpy())\n") == []


class TestContainers:
    @pytest.mark.parametrize(
        "lines",
        [
            ("parts = []", "parts.append((w * x).numpy())", "loss = tf.reduce_sum(tf.stack(parts))"),
            ("table = {'a': (w * x).numpy()}", "loss = tf.reduce_sum(table['a'])"),
            ("a, (b, c) = 1, (2, (w * x).numpy())", "loss = tf.reduce_sum(c)"),
            ("loss = tf.add_n([(v * x).numpy() for v in [w]])",),
        ],
    )
    def test_a_loss_inside_is_seen(self, lines):
        assert [how for how, _ in cuts_of(step(*lines))] == [How.TO_NUMPY]

    def test_the_other_element_is_not_confused_with_it(self):
        assert cuts_of(step("pair = (w * x, (w * x).numpy())", "loss = tf.reduce_sum(pair[0])")) == []


class TestFunctions:
    def test_a_helper_that_serves_labels_and_predictions(self):
        helper = "def as_array(v):\n    return np.asarray(v)\n"
        assert cuts_of(helper + step("loss = tf.reduce_sum(as_array(x) * w)")) == []
        cut = cuts_of(helper + step("loss = tf.reduce_sum(as_array(w * x))"))
        assert cut == [(How.NUMPY_CALL, "np.asarray(v)")]

    def test_a_closure_that_fills_a_buffer(self):
        body = """
        def outer():
            buffer = np.zeros(2)
            def fill(i):
                buffer[i] = w[i] * x[i]
            fill(0)
            fill(1)
            return buffer
        """
        found = model_of(textwrap.dedent(body) + step("loss = tf.reduce_sum(outer())"))
        assert [cut.how for cut in found.cuts] == [How.ARRAY_WRITE]
        (buffer,) = found.buffers()
        assert buffer.maker == "numpy"
        assert [use.statement.lineno for use in buffer.writes] == [10]
        assert {use.role for use in buffer.uses} >= {Role.MADE, Role.WRITE, Role.READ}

    def test_a_lambda_and_a_partial(self):
        body = "import functools\nf = functools.partial(lambda a, b: np.dot(a, b), x)\n"
        assert cuts_of(body + step("loss = tf.reduce_sum(f(w))")) == [(How.NUMPY_CALL, "np.dot(a, b)")]

    def test_recursion_ends(self):
        body = "def f(v, n):\n    return v if n == 0 else f(v * 2.0, n - 1)\n"
        assert cuts_of(body + step("loss = tf.reduce_sum(f(w, 5))")) == []


class TestBranches:
    def test_a_test_on_a_prediction_chooses(self):
        lines = ("s = tf.reduce_sum(w * x)", "if s > 0.0:", "    loss = tf.ones([])", "else:", "    loss = s * 2.0")
        assert How.PREDICATE in [how for how, _ in cuts_of(step(*lines))]

    def test_one_on_a_flag_does_not(self):
        lines = ("training = len(x) > 1", "loss = tf.reduce_sum(w)", "if training:", "    loss = loss * 2.0")
        assert cuts_of(step(*lines)) == []

    def test_a_count_of_rounds_that_a_tensor_ends(self):
        lines = (
            "n, t = 0.0, tf.reduce_sum(w)",
            "while t < 9.0:",
            "    t, n = t + 1.0, n + 1.0",
            "loss = tf.square(n - 3.0)",
        )
        assert [how for how, _ in cuts_of(step(*lines))] == [How.PREDICATE_LOOP]


class TestOperations:
    def test_a_fraction_loses_nothing(self):
        assert cuts_of(step("y = w * x", "loss = tf.reduce_sum(y - tf.floor(y))")) == []

    def test_a_floor_does(self):
        assert [how for how, _ in cuts_of(step("y = w * x", "loss = tf.reduce_sum(tf.floor(y))"))] == [How.ROUNDED]

    def test_a_straight_through_estimator_is_meant(self):
        assert cuts_of(step("y = w * x", "loss = tf.reduce_sum(y + tf.stop_gradient(tf.round(y) - y))")) == []

    def test_a_detached_weight_beside_a_live_value_is_meant(self):
        assert cuts_of(step("y = w * x", "loss = tf.reduce_sum(y * float(tf.reduce_mean(y)))")) == []

    @pytest.mark.parametrize("loss", ["MSE", "mse", "MeanSquaredError()"])
    def test_a_loss_written_in_capitals_is_a_function(self, loss):
        lines = ("y = tf.constant((w * x).numpy())", f"loss = tf.reduce_mean(tf.keras.losses.{loss}(x, y))")
        assert [how for how, _ in cuts_of(step(*lines))] == [How.TO_NUMPY]

    def test_a_partial_cut_says_so(self):
        (cut,) = model_of(step("y = w * x", "loss = tf.reduce_sum(y) + tf.constant(np.sum(y))")).cuts
        assert cut.how is How.NUMPY_CALL
        assert cut.partial
        assert [origin.name for origin in cut.origins] == ["w"]

    def test_a_whole_one_does_not(self):
        (cut,) = model_of(step("loss = tf.constant(np.sum(w * x))")).cuts
        assert not cut.partial


class TestModules:
    def program(self, folder: Path, helper: str, main: str) -> Model:
        (folder / "pyproject.toml").write_text("")
        (folder / "helper.py").write_text(textwrap.dedent(helper))
        path = folder / "main.py"
        path.write_text(HEAD + textwrap.dedent(main))
        return understand(Document(path, path.read_bytes()), RepositoryLoader())

    def test_a_cut_in_a_helper_module_without_tensorflow(self, tmp_path):
        helper = "import numpy as np\n\ndef total(v):\n    return np.sum(v)\n"
        main = "from helper import total\n" + step("loss = tf.constant(total(w * x))")
        (cut,) = self.program(tmp_path, helper, main).cuts
        assert Path(cut.spot.filename).name == "helper.py"
        assert cut.spot.node.lineno == 4

    def test_a_package_that_exports_its_modules(self, tmp_path):
        package = tmp_path / "package"
        package.mkdir()
        (package / "__init__.py").write_text("from package import inner\nfrom package.inner import total\n")
        (package / "inner.py").write_text("import numpy as np\n\ndef total(v):\n    return np.sum(v)\n")
        main = "from package import inner, total\n" + step("loss = tf.constant(inner.total(w)) + tf.constant(total(w))")
        model = self.program(tmp_path, "", main)
        assert model.complete
        assert {Path(cut.spot.filename).name for cut in model.cuts} == {"inner.py"}

    def test_a_module_of_another_repository_is_not_read(self, tmp_path):
        inner = tmp_path / "inner"
        inner.mkdir()
        (tmp_path / "stray.py").write_text("import numpy as np\ndef total(v):\n    return np.sum(v)\n")
        main = "from stray import total\n" + step("loss = tf.constant(total(w))")
        assert self.program(inner, "", main).cuts == []


class TestLayers:
    LAYER = """
    class Net(tf.keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.dense = tf.keras.layers.Dense(3)

        def call(self, inputs):
            h = self.dense(inputs)
            return {result}
    """

    @pytest.mark.parametrize("result", ["tf.constant(h.numpy())", "tf.round(h)", "tf.stop_gradient(h)"])
    def test_nobody_calls_it_and_it_cuts(self, result):
        assert len(cuts_of(self.LAYER.format(result=result))) == 1

    @pytest.mark.parametrize("result", ["tf.nn.relu(h)", "h * tf.cast(inputs > 0, h.dtype)", "(h, tf.argmax(h, -1))"])
    def test_nobody_calls_it_and_it_does_not(self, result):
        assert cuts_of(self.LAYER.format(result=result)) == []

    def test_another_backend_is_not_run(self):
        result = "torch.relu(h) if keras.backend.backend() == 'torch' else h"
        assert cuts_of("import keras, torch\n" + textwrap.dedent(self.LAYER).format(result=result)) == []


class TestWhatIsLookedAt:
    def test_a_file_that_asks_for_nothing_is_not_run(self):
        assert not model_of("y = np.mean(w * x)\n").looked

    def test_a_layer_that_can_lose_nothing_is_not_run(self):
        layer = textwrap.dedent(TestLayers.LAYER).format(result="tf.nn.relu(h)")
        assert not model_of(layer, head="import tensorflow as tf\n").looked

    def test_unless_a_person_wants_to_know(self):
        document = Document("program.py", (HEAD + "y = w * x\n").encode())
        model = understand(document, thorough=True)
        assert any("carries the gradient of w" in line for line in model.explain(6))

    def test_explain_names_the_cut(self):
        lines = model_of(step("loss = tf.constant(np.sum(w * x))")).explain(7)
        assert "cut here (numpy-call): the gradient of w is lost" in lines

    @pytest.mark.parametrize("text", ["import torch\n", "import tensorflow as tf\nx = tf.ones(3)\n", ""])
    def test_bytes_that_hold_no_finding(self, text):
        assert not may_hold_findings(text.encode())

    def test_graph_code_is_told_apart(self):
        assert is_graph_code(b"with tf.Session() as s: s.run(train)\n")
        assert not is_graph_code(b"with tf.GradientTape() as tape: pass\nx = tf.compat.v1.placeholder\n")

    def test_a_file_that_does_not_parse_and_would_be_run(self):
        with pytest.raises(UnreadableDocument, match=r"program\.py:"):
            model_of(step("loss = np.sum(w)") + "def (:\n")

    def test_a_budget_that_is_spent(self):
        document = Document("program.py", (HEAD + step("loss = tf.constant(np.sum(w * x))")).encode())
        assert not understand(document, budget=5).complete
