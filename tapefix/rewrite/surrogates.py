"""Differentiable stand-ins for operations without a gradient, as plain TensorFlow.

A straight-through one keeps the forward value and takes another function's gradient; a soft one changes the
forward value, and is named so. None is the only sensible way: each names its alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tapefix.rewrite import build


@dataclass(frozen=True)
class Surrogate:
    """One repair. `template` is an expression for `build.expression`; it says `tf` for TensorFlow."""

    template: str
    effect: str  # what it does to the value and the gradient, one sentence
    alternatives: tuple[str, ...]
    keeps_value: bool  # the forward value is that of the operation it stands for
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> frozenset[str]:
        """The names that have to be given, or may be."""
        return frozenset(re.findall(r"(?<!\{)\{(\w+)\}", self.template))

    @property
    def repeated(self) -> frozenset[str]:
        """The parts that are evaluated more than once: give them names first."""
        found = re.findall(r"(?<!\{)\{(\w+)\}", self.template)
        return frozenset(name for name in found if found.count(name) > 1)

    def text(self, **parts: str) -> str:
        """The expression. Raises KeyError for a part that is missing or that the template does not have."""
        unknown = set(parts) - self.parts
        if unknown:
            raise KeyError(f"no part {sorted(unknown)[0]!r} in this surrogate")
        return build.expression(self.template, **{**self.defaults, **parts})


_ONE_HOT = "lambda p: tf.one_hot(tf.argmax(p, axis=-1), tf.shape(p)[-1], dtype=p.dtype)"
_GUMBEL = "-tf.math.log(-tf.math.log(tf.random.uniform(tf.shape({logits}), 1e-20, 1.0, {logits}.dtype)))"
_LOGISTIC = "tf.math.log(1.0 / tf.random.uniform(tf.shape({logits}), 1e-6, 1.0, {logits}.dtype) - 1.0)"
_SOFT_ROUTE = "a soft weight, `tf.sigmoid(x / temperature)`, which changes the forward value"
_CROSS_ENTROPY = "the cross-entropy, the usual loss to train for this score"


def _through(function: str, to: str = "{x}") -> str:
    """The value of `function`, the gradient of its argument."""
    return f"tf.grad_pass_through({function})({to})"


def _rounding(name: str) -> Surrogate:
    return Surrogate(
        _through(f"tf.{name}"),
        f"the value stays that of {name}; the gradient is that of the number before it (straight-through)",
        ("leave the rounding out while training", "x - tf.sin(2 * pi * x) / (2 * pi), a smooth staircase"),
        keeps_value=True,
    )


SURROGATES: dict[str, Surrogate] = {
    "round": _rounding("round"),
    "floor": _rounding("floor"),
    "ceil": _rounding("math.ceil"),
    "truncate": Surrogate(
        _through("lambda v: tf.cast(tf.cast(v, tf.int32), v.dtype)"),
        "the value stays that of the integer, as a float; the gradient is that of the number before it",
        ("leave the cast out while training",),
        keeps_value=True,
    ),
    "sign": Surrogate(
        _through("tf.sign", "tf.clip_by_value({x}, -1.0, 1.0)"),
        "the value stays the sign; the gradient is that of x between -1 and 1, and zero outside (straight-through)",
        ("tf.tanh(x / temperature), which changes the forward value", "tf.grad_pass_through(tf.sign)(x), never zero"),
        keeps_value=True,
    ),
    "threshold": Surrogate(
        _through("lambda v: tf.cast(v > {threshold}, v.dtype)"),
        "the value stays 0 or 1; the gradient is that of the number that is compared (straight-through)",
        (_SOFT_ROUTE, "a relaxed Bernoulli draw"),
        keeps_value=True,
        defaults={"threshold": "0.5"},
    ),
    "threshold_sigmoid": Surrogate(
        "tf.grad_pass_through(lambda p: tf.cast(p > 0.5, p.dtype))(tf.sigmoid(({x} - {threshold}) / {temperature}))",
        "the value stays 0 or 1; the gradient is that of a sigmoid around the threshold (straight-through)",
        (_SOFT_ROUTE, "the gradient of the number itself, which does not fade far from the threshold"),
        keeps_value=True,
        defaults={"threshold": "0.0", "temperature": "1.0"},
    ),
    "hard_and_soft": Surrogate(
        "tf.stop_gradient({hard}) + ({soft} - tf.stop_gradient({soft}))",
        "the value stays the hard one; the gradient is that of the soft one (straight-through)",
        ("the soft value alone",),
        keeps_value=True,
    ),
    "one_hot_argmax": Surrogate(
        _through(_ONE_HOT, "tf.nn.softmax({logits} / {temperature})"),
        "the value stays the one-hot vector of the largest; the gradient is that of the softmax (straight-through)",
        ("tf.nn.softmax(logits / temperature), which changes the forward value", "a Gumbel-softmax draw"),
        keeps_value=True,
        defaults={"temperature": "1.0"},
    ),
    "one_hot_argmax_of_probabilities": Surrogate(
        _through(_ONE_HOT, "{probabilities}"),
        "the value stays the one-hot vector of the likeliest; the gradient is that of the probabilities",
        ("the probabilities themselves, which changes the forward value", "a Gumbel-softmax draw"),
        keeps_value=True,
    ),
    "argmax": Surrogate(
        "tf.grad_pass_through(tf.round)(tf.reduce_sum("
        + _through(_ONE_HOT, "tf.nn.softmax({x} / {temperature})")
        + " * tf.cast(tf.range(tf.shape({x})[-1]), {x}.dtype), axis=-1))",
        "the value stays the position of the largest, as a float; the gradient is that of the expected position",
        ("the expected position itself (soft-argmax)", "a lookup by one-hot weights instead of a position"),
        keeps_value=True,
        defaults={"temperature": "1.0"},
    ),
    "soft_argmax": Surrogate(
        "tf.reduce_sum(tf.nn.softmax({x} / {temperature}) * tf.cast(tf.range(tf.shape({x})[-1]), {x}.dtype), axis=-1)",
        "the expected position under the softmax in place of the position of the largest: near it where one stands out",
        ("the same straight-through, which keeps the forward value", "a lower temperature"),
        keeps_value=False,
        defaults={"temperature": "1.0"},
    ),
    "soft_lookup": Surrogate(
        "tf.tensordot(tf.nn.softmax({logits} / {temperature}), {table}, axes=1)",
        "the average of the table's rows under the softmax in place of the row of the likeliest",
        ("the row of the likeliest, straight-through",),
        keeps_value=False,
        defaults={"temperature": "1.0"},
    ),
    "hard_lookup": Surrogate(
        f"tf.tensordot({_through(_ONE_HOT, 'tf.nn.softmax({logits} / {temperature})')}, {{table}}, axes=1)",
        "the row of the likeliest stays; the gradient is that of the average under the softmax (straight-through)",
        ("the average itself, which changes the forward value",),
        keeps_value=True,
        defaults={"temperature": "1.0"},
    ),
    "top_k_mask": Surrogate(
        _through(
            "lambda p: tf.reduce_sum("
            "tf.one_hot(tf.math.top_k(p, {k}).indices, tf.shape(p)[-1], dtype=p.dtype), axis=-2)",
            "tf.nn.softmax({x} / {temperature})",
        ),
        "the value stays 1 at the k largest; the gradient is that of the softmax (straight-through)",
        ("softmax weights for all", "a draw with Gumbel noise added to x"),
        keeps_value=True,
        defaults={"temperature": "1.0"},
    ),
    "gumbel_softmax": Surrogate(
        f"tf.nn.softmax(({{logits}} + ({_GUMBEL})) / {{temperature}})",
        "a draw from a softened categorical distribution: weights in place of one class",
        ("the same straight-through, which stays one-hot", "the score-function estimator (REINFORCE)"),
        keeps_value=False,
        defaults={"temperature": "1.0"},
    ),
    "gumbel_one_hot": Surrogate(
        _through(_ONE_HOT, f"tf.nn.softmax(({{logits}} + ({_GUMBEL})) / {{temperature}})"),
        "a draw of one class as a one-hot vector; the gradient is that of the softened draw (straight-through)",
        ("the softened draw itself", "the score-function estimator (REINFORCE)"),
        keeps_value=False,
        defaults={"temperature": "1.0"},
    ),
    "relaxed_bernoulli": Surrogate(
        f"tf.sigmoid(({{logits}} - {_LOGISTIC}) / {{temperature}})",
        "a draw between 0 and 1 in place of 0 or 1; the lower the temperature, the nearer to them",
        ("the same straight-through, which stays 0 or 1", "the probability itself"),
        keeps_value=False,
        defaults={"temperature": "1.0"},
    ),
    "bernoulli": Surrogate(
        _through("lambda p: tf.cast(p > 0.5, p.dtype)", f"tf.sigmoid(({{logits}} - {_LOGISTIC}) / {{temperature}})"),
        "a draw of 0 or 1 with the same probability; the gradient is that of the relaxed draw (straight-through)",
        ("the relaxed draw itself", "the score-function estimator (REINFORCE)"),
        keeps_value=False,
        defaults={"temperature": "1.0"},
    ),
    "normal_draw": Surrogate(
        "{mean} + {scale} * tf.random.normal(tf.shape({mean}), dtype={mean}.dtype)",
        "a draw from the same normal distribution, through which mean and scale get their gradients",
        ("the mean itself",),
        keeps_value=False,
    ),
    "count_above": Surrogate(
        f"tf.reduce_sum({_through('lambda v: tf.cast(v > {threshold}, v.dtype)')})",
        "the value stays the count, as a float; each element gets the same gradient (straight-through)",
        ("a soft count, `tf.reduce_sum(tf.sigmoid((x - threshold) / temperature))`",),
        keeps_value=True,
        defaults={"threshold": "0.0"},
    ),
    "soft_count_above": Surrogate(
        "tf.reduce_sum(tf.sigmoid(({x} - {threshold}) / {temperature}))",
        "each element counts by a sigmoid of its distance to the threshold",
        ("the hard count, straight-through", "a lower temperature"),
        keeps_value=False,
        defaults={"threshold": "0.0", "temperature": "1.0"},
    ),
    "soft_histogram": Surrogate(
        "tf.reduce_sum(tf.nn.softmax(-tf.square(tf.reshape({x}, [-1, 1]) - {centers}) / {temperature}), axis=0)",
        "each value counts into all bins, the more the nearer their centres",
        ("the moments of the values in place of their histogram", "sorted values in place of their histogram"),
        keeps_value=False,
        defaults={"temperature": "0.1"},
    ),
    "soft_rank": Surrogate(
        "tf.reduce_sum(tf.sigmoid(({x}[..., :, None] - {x}[..., None, :]) / {temperature}), axis=-1) - 0.5",
        "the expected rank (from 0, the smallest first) in place of the rank",
        ("a loss on pairs, `tf.nn.softplus(-(x_i - x_j))`", "a lower temperature"),
        keeps_value=False,
        defaults={"temperature": "1.0"},
    ),
    "soft_dice": Surrogate(
        "(2.0 * tf.reduce_sum({y_true} * {y_pred}) + {smooth})"
        " / (tf.reduce_sum({y_true}) + tf.reduce_sum({y_pred}) + {smooth})",
        "the Dice score of the probabilities in place of that of the hard decisions",
        (_CROSS_ENTROPY, "the hard score, straight-through"),
        keeps_value=False,
        defaults={"smooth": "1e-6"},
    ),
    "soft_f1": Surrogate(
        "2.0 * tf.reduce_sum({y_true} * {y_pred}) / (tf.reduce_sum({y_true} + {y_pred}) + {smooth})",
        "the F1 score of expected counts in place of hard ones",
        (_CROSS_ENTROPY, "the hard score, straight-through"),
        keeps_value=False,
        defaults={"smooth": "1e-7"},
    ),
    "soft_iou": Surrogate(
        "tf.reduce_sum({y_true} * {y_pred}) / (tf.reduce_sum({y_true} + {y_pred} - {y_true} * {y_pred}) + {smooth})",
        "the intersection over union of the probabilities in place of that of the hard decisions",
        (_CROSS_ENTROPY, "the hard score, straight-through", "the Lovász extension"),
        keeps_value=False,
        defaults={"smooth": "1e-7"},
    ),
    "soft_accuracy": Surrogate(
        "tf.reduce_mean({y_true} * {y_pred} + (1.0 - {y_true}) * (1.0 - {y_pred}))",
        "the expected accuracy of draws with these probabilities in place of that of the hard decisions",
        (_CROSS_ENTROPY, "the hard accuracy, straight-through"),
        keeps_value=False,
    ),
    "soft_categorical_accuracy": Surrogate(
        "tf.reduce_mean(tf.reduce_sum({y_true} * {y_pred}, axis=-1))",
        "the mean probability of the right class in place of the share of right decisions",
        (_CROSS_ENTROPY,),
        keeps_value=False,
    ),
    "soft_sparse_accuracy": Surrogate(
        "tf.reduce_mean(tf.gather({y_pred}, {labels}, axis=-1, batch_dims=1))",
        "the mean probability of the right class in place of the share of right decisions",
        (_CROSS_ENTROPY,),
        keeps_value=False,
    ),
}
