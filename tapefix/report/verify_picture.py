"""The picture of one gradient call: a path from each owner of sources to the loss, and where it is cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from tapefix.report.verify_words import STATUS, relative_name
from tapefix.verify.outcome import Cause, Gradient, Variable

_ROW, _TOP = 40, 12  # heights
_NAME, _CUT, _LOSS, _WIDTH = 220, 390, 560, 700  # where names end, cuts are marked, the loss begins, the picture ends
_MARK = 6  # half the size of the cross at a cut
_LONGEST = 28  # characters of a name


def picture(gradient: Gradient, folder: Path) -> Element:
    """An SVG element: whole paths, cut ones with a cross and the line that cuts, and partial ones as both."""
    owners: dict[str, list[Variable]] = {}
    for variable in gradient.variables:
        owners.setdefault(variable.owner or variable.name, []).append(variable)
    height = 2 * _TOP + _ROW * max(1, len(owners))
    svg = Element("svg", viewBox=f"0 0 {_WIDTH} {height}", width=str(_WIDTH), role="img")
    SubElement(svg, "title").text = f"paths to the loss at {relative_name(gradient.file, folder)}:{gradient.line}"
    middle = height / 2
    for row, (owner, variables) in enumerate(owners.items()):
        _path(svg, owner, variables, _TOP + _ROW * (row + 0.5), middle, folder)
    SubElement(svg, "rect", x=str(_LOSS), y=f"{middle - 14:g}", width=str(_WIDTH - _LOSS - 2), height="28", rx="5")
    loss = "loss" if gradient.loss is None else f"loss {gradient.loss:.5g}"
    _label(svg, _LOSS + 10, middle + 5, loss)
    return svg


def _path(svg: Element, owner: str, variables: Sequence[Variable], y: float, middle: float, folder: Path) -> None:
    """An owner, how many of its gradients are there, and its way to the loss."""
    there = sum(v.there for v in variables)
    name = owner if len(owner) <= _LONGEST else "…" + owner[1 - _LONGEST :]
    _label(svg, 4, y + 5, f"{name} {there}/{len(variables)}")
    bad = [v for v in variables if not v.whole]
    if there:
        odd = any(v.status in ("zero", "nonfinite") for v in variables)
        _curve(svg, (_NAME, y), (_LOSS, middle), "odd" if odd else "ok")
    if bad:
        low = y + (10 if there else 0)
        _curve(svg, (_NAME, low), (_CUT, low), "cut")
        if not there:
            _curve(svg, (_CUT, low), (_LOSS, middle), "lost")
        _cross(svg, _CUT, low)
        _label(svg, _CUT + 10, low + (14 if there else -8), _why(bad, folder), "label")


def _why(bad: Sequence[Variable], folder: Path) -> str:
    """Where the path is cut, or what is wrong with the gradient where that is not known."""
    causes: list[Cause] = list(dict.fromkeys(v.cause for v in bad if v.cause is not None))
    if not causes:
        return STATUS[bad[0].status]
    more = f" and {len(causes) - 1} more" if len(causes) > 1 else ""
    return f"{relative_name(causes[0].file, folder)}:{causes[0].line} {causes[0].code}".rstrip() + more


def _curve(svg: Element, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
    half = (start[0] + end[0]) / 2
    shape = f"M{start[0]:g} {start[1]:g} C{half:g} {start[1]:g} {half:g} {end[1]:g} {end[0]:g} {end[1]:g}"
    SubElement(svg, "path", {"d": shape, "class": kind})


def _cross(svg: Element, x: float, y: float) -> None:
    shape = f"M{x - _MARK:g} {y - _MARK:g} l12 12 M{x - _MARK:g} {y + _MARK:g} l12 -12"
    SubElement(svg, "path", {"d": shape, "class": "cut"})


def _label(svg: Element, x: float, y: float, text: str, kind: str = "") -> None:
    label = SubElement(svg, "text", {"x": f"{x:g}", "y": f"{y:g}", **({"class": kind} if kind else {})})
    label.text = text
