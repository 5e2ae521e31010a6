"""What planning gives: edits that repair, or the reason why there are none."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tapefix.codemod import Applicability, Refusal
from tapefix.documents.document import Edit


class Rung(enum.IntEnum):
    """The ladder, from the plainest rewrite to the most general one."""

    LIST = 1  # a list, then tf.stack
    TENSOR_ARRAY = 2
    SLOTS = 3  # a list of slots, rebound
    FUNCTIONAL = 4  # each write makes a new tensor


@dataclass(frozen=True)
class Plan:
    """A rewrite of one or more buffers that are filled together."""

    applicability: Applicability
    edits: tuple[Edit, ...]
    message: str
    rung: Rung | None = None
    alternatives: tuple[str, ...] = ()


class NotProven(Exception):
    """A rung does not apply; the message is a sentence that names the line that prevents it."""

    @property
    def refusal(self) -> Refusal:
        return Refusal(str(self))


__all__ = ["Applicability", "NotProven", "Plan", "Refusal", "Rung"]
