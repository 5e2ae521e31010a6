"""The stand-ins run: those that keep the value give the hard one, and every one has a gradient."""

from __future__ import annotations

from typing import Any

import pytest

from tapefix.rewrite.surrogates import SURROGATES

np = pytest.importorskip("numpy")
tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

_random = np.random.default_rng(5)
X = _random.normal(size=(4, 6)).astype(np.float32) * 2
P = _random.uniform(0.05, 0.95, size=(4, 6)).astype(np.float32)
TABLE = _random.normal(size=(6, 3)).astype(np.float32)
LABELS = np.array([0, 5, 2, 3])
HARD = (P > 0.4).astype(np.float32)
ONE_HOT = np.eye(6, dtype=np.float32)[X.argmax(-1)]

#: name -> (parts, the trained value, the hard value where it is kept)
CASES: dict[str, tuple[dict[str, str], Any, Any]] = {
    "round": ({"x": "v"}, X, np.round(X)),
    "floor": ({"x": "v"}, X, np.floor(X)),
    "ceil": ({"x": "v"}, X, np.ceil(X)),
    "truncate": ({"x": "v"}, X, np.trunc(X)),
    "sign": ({"x": "v"}, X, np.sign(X)),
    "threshold": ({"x": "v"}, P, P > 0.5),
    "threshold_sigmoid": ({"x": "v", "threshold": "0.3"}, X, X > 0.3),
    "hard_and_soft": ({"hard": "tf.cast(v > 0.4, tf.float32)", "soft": "v"}, P, P > 0.4),
    "one_hot_argmax": ({"logits": "v"}, X, ONE_HOT),
    "one_hot_argmax_of_probabilities": ({"probabilities": "v"}, P, np.eye(6)[P.argmax(-1)]),
    "argmax": ({"x": "v"}, X, X.argmax(-1)),
    "soft_argmax": ({"x": "v", "temperature": "0.5"}, X, None),
    "soft_lookup": ({"logits": "v", "table": "table"}, X, None),
    "hard_lookup": ({"logits": "v", "table": "table"}, X, TABLE[X.argmax(-1)]),
    "top_k_mask": ({"x": "v", "k": "2"}, X, (np.sort(X)[:, -2:-1] <= X)),
    "gumbel_softmax": ({"logits": "v"}, X, None),
    "gumbel_one_hot": ({"logits": "v"}, X, None),
    "relaxed_bernoulli": ({"logits": "v"}, X, None),
    "bernoulli": ({"logits": "v"}, X, None),
    "normal_draw": ({"mean": "v", "scale": "0.5"}, X, None),
    "count_above": ({"x": "v", "threshold": "0.2"}, X, np.sum(X > 0.2)),
    "soft_count_above": ({"x": "v"}, X, None),
    "soft_histogram": ({"x": "v", "centers": "tf.constant([-1.0, 0.0, 1.0])"}, X, None),
    "soft_rank": ({"x": "v"}, X, None),
    "soft_dice": ({"y_true": "hard", "y_pred": "v"}, P, None),
    "soft_f1": ({"y_true": "hard", "y_pred": "v"}, P, None),
    "soft_iou": ({"y_true": "hard", "y_pred": "v"}, P, None),
    "soft_accuracy": ({"y_true": "hard", "y_pred": "v"}, P, None),
    "soft_categorical_accuracy": ({"y_true": "one_hot", "y_pred": "v"}, P, None),
    "soft_sparse_accuracy": ({"y_pred": "v", "labels": "labels"}, P, None),
}


def value(name: str, parts: dict[str, str], v: Any) -> Any:
    names = {"tf": tf, "v": v, "table": TABLE, "labels": LABELS, "hard": HARD, "one_hot": ONE_HOT}
    return eval(SURROGATES[name].text(**parts), names)


def test_every_surrogate_has_a_case() -> None:
    assert set(CASES) == set(SURROGATES)


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("kind", ["tensor", "variable"])
def test_it_runs_with_a_gradient(name: str, graph: bool, kind: str) -> None:
    parts, start, hard = CASES[name]
    v = tf.Variable(start) if kind == "variable" else tf.constant(start)
    weights = np.random.default_rng(2).normal(size=100).astype(np.float32)

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(v)
            result = value(name, parts, v)
            flat = tf.reshape(result, [-1])
            target = tf.reduce_sum(flat * weights[: flat.shape[0]])
        return result, tape.gradient(target, v)

    result, gradient = tf.function(step)() if graph else step()
    assert gradient is not None
    gradient = tf.convert_to_tensor(gradient).numpy()
    assert np.all(np.isfinite(gradient))
    assert np.abs(gradient).max() > 1e-5
    assert result.dtype == tf.float32
    assert SURROGATES[name].keeps_value == (hard is not None)
    if hard is not None:
        np.testing.assert_array_equal(result.numpy(), hard.astype(np.float32))


def test_soft_values_tend_to_the_hard_ones() -> None:
    cold = {"temperature": "1e-3"}
    v = tf.constant(X)
    np.testing.assert_allclose(value("soft_argmax", {"x": "v", **cold}, v), X.argmax(-1), atol=1e-3)
    np.testing.assert_allclose(value("soft_count_above", {"x": "v", **cold}, v), np.sum(X > 0), atol=1e-2)
    np.testing.assert_allclose(value("soft_rank", {"x": "v", **cold}, v), X.argsort(-1).argsort(-1), atol=1e-2)
    np.testing.assert_allclose(
        value("soft_histogram", {"x": "v", "centers": "tf.constant([-1.0, 0.0, 1.0])", **cold}, v),
        np.bincount(np.abs(X.reshape(-1, 1) - [-1, 0, 1]).argmin(1), minlength=3),
        atol=1e-2,
    )
    hard = tf.constant(np.roll(HARD, 1))
    agree = float(np.mean(np.roll(HARD, 1) == HARD))
    both, either = float(np.sum(np.roll(HARD, 1) * HARD)), float(np.sum(np.maximum(np.roll(HARD, 1), HARD)))
    parts = {"y_true": "hard", "y_pred": "v"}
    assert float(value("soft_accuracy", parts, hard)) == pytest.approx(agree)
    assert float(value("soft_iou", parts, hard)) == pytest.approx(both / either, rel=1e-5)
    assert float(value("soft_f1", parts, hard)) == pytest.approx(2 * both / (2 * HARD.sum()), rel=1e-5)
    assert float(value("soft_dice", parts, hard)) == pytest.approx(2 * both / (2 * HARD.sum()), rel=1e-5)


def test_draws_follow_their_distribution() -> None:
    tf.random.set_seed(1)
    logits = np.tile(np.log([[0.5, 0.3, 0.2]]).astype(np.float32), (20_000, 1))
    shares = np.mean(value("gumbel_one_hot", {"logits": "v"}, tf.constant(logits)), axis=0)
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.02)
    odds = np.full(20_000, np.log(0.3 / 0.7), np.float32)
    assert float(np.mean(value("bernoulli", {"logits": "v"}, tf.constant(odds)))) == pytest.approx(0.3, abs=0.02)


def test_parts() -> None:
    assert SURROGATES["soft_argmax"].repeated == {"x"}
    assert SURROGATES["round"].repeated == frozenset()
    assert SURROGATES["round"].text(x="a + b") == "tf.grad_pass_through(tf.round)(a + b)"
    with pytest.raises(KeyError, match="'y'"):
        SURROGATES["round"].text(y="a")
    with pytest.raises(KeyError, match="'x'"):
        SURROGATES["round"].text()
