"""Finds which of many repairs can be proven: all together first, then by halves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Evidence = TypeVar("Evidence")


def provable(
    items: Sequence[Item],
    prove: Callable[[Sequence[Item]], Mapping[Item, Evidence]],
    is_proof: Callable[[Evidence], bool],
) -> tuple[list[Item], dict[Item, Evidence]]:
    """The items that were proven, as one set, and for all items the evidence that decided.

    `prove` weighs a set that is applied as a whole. What stands alone in failing is left out; the rest was proven in
    the very set that is returned.
    """
    evidence: dict[Item, Evidence] = {}

    def grow(base: list[Item], more: list[Item]) -> list[Item]:
        """Those of `more` that can be added to `base`, a set that is proven (or empty)."""
        if not more:
            return []
        shown = prove([*base, *more])
        failed = [item for item in more if item not in shown or not is_proof(shown[item])]
        lost = [item for item in base if item not in shown or not is_proof(shown[item])]
        if not failed and not lost:
            evidence.update(shown)
            return more
        if len(more) == 1:
            evidence.update({item: shown[item] for item in more if item in shown and failed})
            evidence.update({item: shown[lost[0]] for item in more if not failed and lost[0] in shown})
            return []
        good = [item for item in more if item not in failed]
        first, second = (good, failed) if good and not lost else (more[: len(more) // 2], more[len(more) // 2 :])
        kept = grow(base, first)
        return kept + grow([*base, *kept], second)

    return grow([], list(items)), evidence
