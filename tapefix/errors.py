"""What goes wrong in a way a person can do something about."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TapefixError(Exception):
    """The call, the input or the tool failed: one line that says what, and what to do about it (exit status 2)."""


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or nothing where no known word is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
