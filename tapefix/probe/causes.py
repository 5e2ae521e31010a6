"""Emits causes: each place once, a few in all, in the words of the static finding where there is one."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Set, Tuple

from . import codes
from .codes import Verdict
from .events import Events
from .findings import Findings

Place = Tuple[str, int]
_MANY = 4  # lines named in one run; more would not help a person


class Causes:
    """The causes told so far."""

    def __init__(self, events: Events, findings: Sequence[Mapping[str, Any]]) -> None:
        self.events, self.findings = events, Findings(findings, events.shown)
        self.told: Dict[Tuple[Place, bool], str] = {}
        self.untold: Set[Place] = set()

    def tell(
        self,
        verdict: Verdict,
        place: Place,
        variables: Sequence[Mapping[str, Any]] = (),
        gradient: Optional[Place] = None,
        partial: bool = False,
        related: Sequence[Mapping[str, Any]] = (),
        sure: bool = True,
    ) -> None:
        """Emits one cause, unless its place has been told or there are too many."""
        file, line = place
        if (place, partial) in self.told:
            return
        if len({known for known, _ in self.told} | {place}) > _MANY:
            self.untold.add(place)
            return
        finding = self.findings.near(place)
        if finding is not None:
            code, how = finding.get("code") or verdict.code, finding.get("how") or verdict.how
            verdict = verdict._replace(code=str(code), how=str(how))
        self.told[(place, partial)] = verdict.code
        self.events.emit(
            "cause",
            file=file,
            line=line,
            column=codes.column(file, line),
            code=verdict.code,
            how=verdict.how,
            message=verdict.message,
            variables=[described["name"] for described in variables],
            owners=list(dict.fromkeys(described["owner"] for described in variables)),
            gradient={"file": gradient[0], "line": gradient[1]} if gradient else None,
            partial=partial,
            related=list(related),
            sure=sure,
        )

    def finish(self) -> None:
        """Tells how many places were left out."""
        if self.untold:
            lines = ", ".join(str(line) for _, line in sorted(self.untold)[:20])
            self.events.emit("note", message=f"the gradient is also cut at {len(self.untold)} further lines: {lines}")
