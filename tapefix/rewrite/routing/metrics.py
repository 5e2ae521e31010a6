"""Metrics that are used as losses: the value stays, the gradient is that of the expected metric."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Cut, Model
from tapefix.rewrite.routing.repair import attempt, message
from tapefix.rewrite.routing.site import Site, Unclear, joined

_AGREEMENT = "tf.reduce_mean(1.0 - tf.abs({y} - {p}){axis})"
_RIGHT = "tf.reduce_sum({y} * {p}, axis=-1)"
_SPARSE = (
    "tf.reduce_sum(tf.one_hot(tf.reshape(tf.cast({y}, tf.int32), tf.shape({p})[:-1]), tf.shape({p})[-1])"
    " * {p}, axis=-1)"
)
#: metric -> its soft counterpart; `axis` is filled where the metric gives a value for each sample
SOFT = {
    "binary_accuracy": _AGREEMENT,
    "categorical_accuracy": _RIGHT,
    "top_k_categorical_accuracy": _RIGHT,
    "sparse_categorical_accuracy": _SPARSE,
    "sparse_top_k_categorical_accuracy": _SPARSE,
    "BinaryAccuracy": _AGREEMENT,
    "CategoricalAccuracy": f"tf.reduce_mean({_RIGHT})",
    "TopKCategoricalAccuracy": f"tf.reduce_mean({_RIGHT})",
    "SparseCategoricalAccuracy": f"tf.reduce_mean({_SPARSE})",
    "Precision": "tf.reduce_sum({y} * {p}) / (tf.reduce_sum({p}) + 1e-7)",
    "Recall": "tf.reduce_sum({y} * {p}) / (tf.reduce_sum({y}) + 1e-7)",
    "F1Score": "2.0 * tf.reduce_sum({y} * {p}) / (tf.reduce_sum({y} + {p}) + 1e-7)",
    "BinaryIoU": "tf.reduce_sum({y} * {p}) / (tf.reduce_sum({y} + {p} - {y} * {p}) + 1e-7)",
    "MeanIoU": "tf.reduce_sum({y} * {p}) / (tf.reduce_sum({y} + {p} - {y} * {p}) + 1e-7)",
    "IoU": "tf.reduce_sum({y} * {p}) / (tf.reduce_sum({y} + {p} - {y} * {p}) + 1e-7)",
    "AUC": (
        "tf.reduce_sum(tf.reshape({y}, [-1, 1]) * (1.0 - tf.reshape({y}, [1, -1]))"
        " * tf.sigmoid(tf.reshape({p}, [-1, 1]) - tf.reshape({p}, [1, -1])))"
        " / (tf.reduce_sum({y}) * tf.reduce_sum(1.0 - {y}) + 1e-7)"
    ),
}
#: metrics of numbers that have a gradient themselves: what is lost is that they are summed up in Variables
SUMMED = {
    "Mean": "tf.reduce_mean({v})",
    "Sum": "tf.reduce_sum({v})",
}
_SUMMED_ADVICE = (
    "the metric sums up what it is given over all calls, in Variables; put the values themselves into the loss, and "
    "report the metric beside"
)
ALTERNATIVES = (
    "the cross-entropy, the usual loss to train for such a score, with the metric reported beside it",
    "the expected metric alone",
)


def repair_metric(model: Model, cut: Cut, threshold: str) -> Fix | Refusal:
    """The metric's value with the gradient of its expectation under the predicted probabilities."""
    site = Site(model, model.document_of(cut.spot), threshold)
    node = cut.spot.node

    def rewrite() -> tuple[str, tuple[str, ...]]:
        name = cut.detail.rpartition(".")[2]
        if isinstance(node, ast.Call) and name in SUMMED:
            return _summed(site, node, SUMMED[name])
        if not isinstance(node, ast.Call) or name not in SOFT:
            raise Unclear(
                "the metric has no soft counterpart that is known; train on the cross-entropy and report it beside"
            )
        labels, predictions = site.argument(node, 0, "y_true"), site.argument(node, 1, "y_pred")
        if labels is None or predictions is None or len(node.args) + len(node.keywords) > 3:
            raise Unclear("the labels or predictions can't be told")
        y, p = labels, predictions
        truth, guess = site.once(y, "labels"), site.once(p, "predictions")
        soft = joined(SOFT[name].replace("{axis}", ", axis=-1" if name.islower() else ""), y=truth, p=guess)
        ends = [node] if _is_value(site, node) else results(site, node)
        if not ends:
            raise Unclear("where the metric's result is used can't be followed")
        for end in ends:
            site.straight_through(end, soft)
        return message(site, "the expected metric under the predicted probabilities", ALTERNATIVES)

    return attempt(site, rewrite)


def _summed(site: Site, node: ast.Call, own: str) -> tuple[str, tuple[str, ...]]:
    """The metric's value with the gradient of what it was given last."""
    values = site.argument(node, 0, "values")
    if values is None or len(node.args) + len(node.keywords) != 1:
        raise Unclear(_SUMMED_ADVICE)
    ends: list[ast.expr] = [node]
    if not _is_value(site, node):
        ends = results(site, node)
        if not ends or _is_fed_again(site, node) or not all(_follows(site, node, end) for end in ends):
            raise Unclear(_SUMMED_ADVICE)
    if not all(site.holds(values, end) for end in ends):
        raise Unclear(f"`{site.brief(values)}` means something else where the result is used; {_SUMMED_ADVICE}")
    soft = joined(own, v=site.once(values, "values"))
    for end in ends:
        site.straight_through(end, soft)
    return message(
        site, "the values themselves", ("the values alone in the metric's place, with the metric reported beside them",)
    )


def _is_value(site: Site, node: ast.Call) -> bool:
    return not (isinstance(node.func, ast.Attribute) and node.func.attr == "update_state")


def _is_fed_again(site: Site, update: ast.Call) -> bool:
    """Whether the same function feeds the metric in another place too."""
    assert isinstance(update.func, ast.Attribute)
    owner = ast.unparse(update.func.value)
    scope = site.syntax.function(update) or site.syntax.tree
    fed = {owner, f"{owner}.update_state"}
    return any(isinstance(n, ast.Call) and n is not update and ast.unparse(n.func) in fed for n in ast.walk(scope))


def _follows(site: Site, update: ast.Call, result: ast.expr) -> bool:
    """Whether the result is surely that of this very update: the block that feeds the metric goes on to it."""
    block = site.syntax.block(site.syntax.statement(update))
    return any(above in block for above in site.syntax.ancestors(result) if isinstance(above, ast.stmt))


def results(site: Site, update: ast.Call) -> list[ast.expr]:
    """The `result()` calls of the metric that `update` feeds, in the same function and after it."""
    assert isinstance(update.func, ast.Attribute)
    owner = ast.unparse(update.func.value)
    scope = site.syntax.function(update) or site.syntax.tree
    found: list[ast.expr] = [
        n
        for n in ast.walk(scope)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "result"
        and ast.unparse(n.func.value) == owner
        and site.syntax.before(update, n)
        and site.alive_or_lost(n)
    ]
    return found
