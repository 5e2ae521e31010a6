"""What the probe computes from values: how a gradient is, how large it is, what a loss is. NumPy is the user's."""

from __future__ import annotations

import math
from typing import Any, Optional


def dense(gradient: Any) -> Any:
    """A gradient as a NumPy array; of IndexedSlices, the rows that are not zero, each once."""
    import numpy as np

    if hasattr(gradient, "indices") and hasattr(gradient, "values"):
        return summed_rows(np.asarray(gradient.values), np.asarray(gradient.indices))
    return np.asarray(gradient)


def summed_rows(values: Any, indices: Any) -> Any:
    """The rows of a sparse gradient, those of one index added up."""
    import numpy as np

    _, place = np.unique(indices.reshape(-1), return_inverse=True)
    rows = np.zeros((int(place.max()) + 1 if place.size else 0, *values.shape[1:]), dtype=np.float64)
    np.add.at(rows, place.reshape(-1), values)
    return rows


def norm(array: Any) -> float:
    """The Euclidean norm of a gradient; inf or nan where it is not finite."""
    import numpy as np

    flat = (np.abs(array) if array.dtype.kind == "c" else array).reshape(-1)
    if flat.dtype.kind != "f":
        flat = flat.astype(np.float64)
    found = math.sqrt(np.dot(flat, flat))
    if not math.isfinite(found) or not found or flat.dtype.itemsize < 4:  # overflow, underflow or half precision
        flat = flat.astype(np.float64)
        found = math.sqrt(np.dot(flat, flat))
    return found


def total(values: Any) -> Optional[float]:
    """The sum over all elements of all targets."""
    import numpy as np

    try:
        return float(sum(np.sum(np.asarray(value).astype(np.float64)) for value in values))
    except Exception:  # complex or string targets have no such sum
        return None
