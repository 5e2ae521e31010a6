"""Compares the forward values (losses) of two versions of a program."""

from __future__ import annotations

from collections.abc import Sequence

from tapefix.verify.outcome import Forward, Gradient

#: data type -> (relative tolerance, machine epsilon)
_PRECISION = {
    "float64": (1e-10, 2.2e-16),
    "float32": (1e-5, 1.2e-7),
    "float16": (1e-2, 9.8e-4),
    "bfloat16": (1e-2, 7.8e-3),
}
#: losses that differ by so many units in the last place of numbers of order one are the same: a sum of such
#: numbers taken in another order moves by that much, and cancellation can leave nothing but that
_LAST_DIGITS = 8


def tolerance(gradients: Sequence[Gradient]) -> tuple[float, float]:
    """(relative, absolute) tolerance for the least precise type among the sources; float32 where none is known."""
    known = {v.dtype for g in gradients for v in g.variables} & _PRECISION.keys()
    relative, epsilon = max((_PRECISION[name] for name in known), default=_PRECISION["float32"])
    return relative, min(_LAST_DIGITS * epsilon, relative)


def same(a: float, b: float, relative: float, absolute: float) -> bool:
    """Whether two losses are equal within the tolerance; NaN equals nothing."""
    return a == b or abs(a - b) <= max(relative * max(abs(a), abs(b)), absolute)


def compare(before: Sequence[Gradient], after: Sequence[Gradient]) -> Forward | None:
    """The first losses at each place, in the order of the run; None where there is nothing to compare.

    Once a place has other gradients than before (which is what a repair is for) the weights that are updated from
    them differ, and what comes later cannot be compared: the comparison ends with that place.
    """
    relative, absolute = tolerance([*before, *after])
    largest, compared, differing = 0.0, 0, []
    for old, new in zip(before, after, strict=False):
        if old.loss is not None and new.loss is not None:
            compared += 1
            largest = max(largest, abs(old.loss - new.loss))
            if not same(old.loss, new.loss, relative, absolute):
                differing.append((old.file, old.line, old.loss, new.loss))
        if not _same_gradients(old, new, relative):
            break
    if not compared:
        return None
    return Forward(not differing, largest, compared, relative, tuple(differing))


def _same_gradients(old: Gradient, new: Gradient, relative: float) -> bool:
    """Whether both have the same sources with gradients of the same size."""
    if len(old.variables) != len(new.variables):
        return False
    for a, b in zip(old.variables, new.variables, strict=True):
        if (a.status == "none") != (b.status == "none"):
            return False
        if a.norm is not None and b.norm is not None and abs(a.norm - b.norm) > 100 * relative * max(a.norm, b.norm):
            return False
    return True
