"""A sketch of what carries a gradient in one file: names, attributes and calls, without running anything."""

from __future__ import annotations

from tapefix.flow.worth.sketch.walk import Losing, losing_rows

__all__ = ["Losing", "losing_rows"]
