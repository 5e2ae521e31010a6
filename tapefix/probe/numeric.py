"""Compares a gradient with a numerical directional derivative, where the target can be computed again.

The direction is the gradient's own, mixed with a random one, so that a path which the tape has lost shows too. The
loss is computed at both ends of a short way along it: (L(w + h d) - L(w - h d)) / 2h, beside the sum of g * d.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional, Sequence

#: half lengths of the way; the first that agrees counts (a kink wants a small one, rounding a large one)
_STEPS = {"float64": (1e-6, 1e-4), "float32": (1e-2, 2e-3, 5e-2)}
#: relative tolerance, and the rounding error of a loss of order one
_PRECISION = {"float64": (1e-5, 2e-15), "float32": (3e-2, 1e-6)}
_STRAIGHT_THROUGH = re.compile(r"stop_gradient|custom_gradient|straight.?through|quantize_and_dequantize|fake_quant")


def check(
    loss: Callable[[], Optional[float]], sources: Sequence[Any], gradients: Sequence[Any], text: str
) -> Dict[str, Any]:
    """Fields of a `numeric` event, or {"message": why not} where the target cannot be computed again.

    `loss` computes the target with the sources as they are now (None: it could not); `gradients` are arrays or None;
    `text` is the source that computes it, searched for estimators whose gradient is not meant to be the derivative.
    """
    import numpy as np

    if not sources or not all(hasattr(source, "assign") for source in sources):
        return {"message": "no numeric check: a source is no variable"}
    base = [np.array(source) if not hasattr(source, "numpy") else np.array(source.numpy()) for source in sources]
    first, again = loss(), loss()
    if first is None or again is None:
        return {"message": "no numeric check: computed again, the target has other sources or none"}
    kind = "float64" if all(value.dtype == np.float64 for value in base) else "float32"
    relative, rounding = _PRECISION[kind]
    if abs(first - again) > 1e3 * rounding * max(1.0, abs(first)):
        return {"message": "no numeric check: the target differs from one computation to the next"}
    grads = [np.zeros_like(v) if g is None else np.asarray(g) for g, v in zip(gradients, base)]
    direction = _direction(grads)
    by_tape = float(sum(np.sum(g.astype(np.float64) * d) for g, d in zip(grads, direction)))
    best: List[float] = []
    try:
        for step in _STEPS[kind]:
            slope = _slope(loss, sources, base, direction, step)
            if slope is None:
                continue
            allowed = relative * max(abs(slope), abs(by_tape)) + 4 * rounding * max(1.0, abs(first)) / step
            best.append(slope)
            if abs(slope - by_tape) <= allowed:
                return {"tape": by_tape, "differences": slope, "agrees": True, "note": kind}
    finally:
        for source, value in zip(sources, base):
            source.assign(value)
    if not best:
        return {"message": "no numeric check: the target could not be computed near the weights"}
    slope = min(best, key=lambda s: abs(s - by_tape))
    named = _STRAIGHT_THROUGH.search(text)
    if named:
        note = f"{kind}; `{named.group()}` is meant to give another gradient than the derivative"
        return {"tape": by_tape, "differences": slope, "agrees": True, "note": note}
    return {"tape": by_tape, "differences": slope, "agrees": False, "note": kind}


def _direction(gradients: Sequence[Any]) -> List[Any]:
    """A unit vector over all sources: half the gradient's, half a random one (of a fixed seed)."""
    import numpy as np

    chance = np.random.RandomState(0)
    random = [chance.standard_normal(g.shape) for g in gradients]
    mixed = [_unit(gradients), _unit(random)]
    return _unit([a + b for a, b in zip(*mixed)])


def _unit(parts: Sequence[Any]) -> List[Any]:
    import numpy as np

    length = float(np.sqrt(sum(np.sum(np.square(part, dtype=np.float64)) for part in parts)))
    return [part.astype(np.float64) / (length or 1.0) for part in parts]


def _slope(
    loss: Callable[[], Optional[float]],
    sources: Sequence[Any],
    base: Sequence[Any],
    direction: Sequence[Any],
    step: float,
) -> Optional[float]:
    ends = []
    for sign in (1.0, -1.0):
        for source, value, d in zip(sources, base, direction):
            source.assign((value + sign * step * d).astype(value.dtype))
        ends.append(loss())
    if ends[0] is None or ends[1] is None:
        return None
    return (ends[0] - ends[1]) / (2 * step)
