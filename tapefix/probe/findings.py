"""What `check` has found in the files of the run, by place."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

Place = Tuple[str, int]
_NO_CUTS = "TAP6"  # wrong sources, unused layers: a gradient that is there is not touched by these


class Findings:
    """The static findings. `shown` gives a file's path as the user knows it, which is how findings name it."""

    def __init__(self, findings: Sequence[Mapping[str, Any]], shown: Callable[[str], str]) -> None:
        self._shown = shown
        self._by_file: Dict[str, List[Mapping[str, Any]]] = {}
        self._cuts: Dict[object, bool] = {}
        for finding in findings:
            self._by_file.setdefault(str(finding.get("file")), []).append(finding)

    def _of(self, file: str) -> List[Mapping[str, Any]]:
        return self._by_file.get(file) or self._by_file.get(self._shown(file)) or []

    def near(self, place: Place) -> Optional[Mapping[str, Any]]:
        """The finding at a place, or within a line of it."""
        file, line = place
        near: List[Tuple[int, Mapping[str, Any]]] = []
        for finding in self._of(file):
            first, last = _lines(finding)
            if first - 1 <= line <= last + 1:
                near.append((min(abs(line - first), abs(line - last)), finding))
        return min(near, key=lambda pair: pair[0])[1] if near else None

    def __contains__(self, place: object) -> bool:
        """True for a place at which a gradient is cut."""
        if place not in self._cuts and isinstance(place, tuple):
            here = (finding for finding in self._of(place[0]) if not str(finding.get("code")).startswith(_NO_CUTS))
            self._cuts[place] = any(first <= place[1] <= last for first, last in map(_lines, here))
        return self._cuts.get(place, False)


def _lines(finding: Mapping[str, Any]) -> Tuple[int, int]:
    first = int(finding.get("line") or 0)
    return first, int(finding.get("end_line") or first)
