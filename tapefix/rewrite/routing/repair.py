"""From a cut at an operation without a gradient to its repair: the value stays, the gradient is a soft one's."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Cut, Model
from tapefix.rewrite.build import BadTemplate
from tapefix.rewrite.edits import EditConflict
from tapefix.rewrite.leaving import finished
from tapefix.rewrite.routing.numbers import CASTS, Soften
from tapefix.rewrite.routing.order import ORDERING, weigh_by_scores
from tapefix.rewrite.routing.sinks import Sinks, is_entry
from tapefix.rewrite.routing.site import Site, Unclear, joined


def attempt(site: Site, rewrite: Callable[[], tuple[str, tuple[str, ...]]]) -> Fix | Refusal:
    """Runs a rewriter, which returns its message and alternatives; a rewrite that is not clear becomes a refusal."""
    try:
        message, alternatives = rewrite()
        return finished(site.edits, message, alternatives, safe=False)
    except Unclear as reason:
        return Refusal(str(reason))
    except EditConflict as conflict:
        return Refusal(str(conflict))
    except BadTemplate as problem:
        return Refusal(f"the new code can't be built ({problem})")


def made_straight_through(
    model: Model, cut: Cut, threshold: str, what: str, alternatives: tuple[str, ...]
) -> Fix | Refusal:
    """Each number that comes of the cut value gets the gradient of its soft counterpart."""
    site = Site(model, model.document_of(cut.spot), threshold)
    node = cut.spot.node
    if not isinstance(node, ast.expr):
        return Refusal("the place is no expression")

    def rewrite() -> tuple[str, tuple[str, ...]]:
        from tapefix.rewrite.routing.branches import Branches
        from tapefix.rewrite.routing.dispatch import called_entry
        from tapefix.rewrite.routing.selection import weigh_rows

        soften = Soften(site)
        if isinstance(node, ast.Call) and site.operation(node) in ORDERING:
            try:
                weigh_by_scores(site, soften, node)
            except Unclear:
                if site.edits or site.operation(node) != "top_k":
                    raise
            else:
                return message(site, "the scores' softmax, as a weight of one on what they pick", alternatives)
        sinks = Sinks(soften)
        for end in sinks.of(node):
            if isinstance(end, ast.Subscript) and is_entry(sinks, end):
                called_entry(Branches(site), end)
                continue
            if isinstance(end, ast.Subscript) or site.operation(end) == "boolean_mask":
                weigh_rows(site, soften, end)
                continue
            soft = _typed(site, end, soften.number(end))
            around = stopped_around(site, end)
            if around is None:
                site.straight_through(end, soft)
            else:  # an estimator whose bracket is misplaced: the whole of it is stopped
                site.straight_through(around, soft)
        return message(site, what, alternatives)

    return attempt(site, rewrite)


def stopped_around(site: Site, node: ast.expr) -> ast.Call | None:
    """The stop_gradient that the expression stands in, if so."""
    for above in site.syntax.ancestors(node):
        if isinstance(above, ast.stmt):
            return None
        if isinstance(above, ast.Call) and site.operation(above) == "stop_gradient":
            return above
    return None


def message(site: Site, what: str, alternatives: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if site.soft:
        return f"{what}, in place of the hard value (soft, as configured)", (
            "the hard value with that gradient (straight-through)",
            *alternatives,
        )
    return f"keep the value and give it the gradient of {what} (straight-through)", (
        f"{what} alone, which changes the forward value",
        *alternatives,
    )


def _typed(site: Site, end: ast.expr, soft: str) -> str:
    """The soft value in the element type that a cast asks for, where a document has more than one."""
    if site.mixed and isinstance(end, ast.Call) and site.operation(end) in CASTS:
        wanted = site.argument(end, 1, "dtype")
        if wanted is not None:
            return joined("tf.cast({soft}, {dtype})", soft=soft, dtype=site.text(wanted))
    return soft
