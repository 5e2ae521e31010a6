"""A verification report as one page: a picture of every gradient call, its sources, and each cut with its repair.

The page needs no network and runs no script. It is built as a tree of elements, so that whatever the program under
test is named or prints is text in it and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from tapefix.report.verify_picture import picture
from tapefix.report.verify_words import SAID, STATUS, count, full_name, relative_name, remedy, repair, source_line
from tapefix.verify.outcome import Cause, Gradient, Report, Variable

_AROUND = 2  # lines of code shown before and after a cut
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
#: characters that no page may hold: control characters, and halves of surrogate pairs from undecodable file names
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_STYLE = """
:root { --ok: #1a7f37; --cut: #cf222e; --odd: #9a6700; --line: #d0d7de; --soft: #f6f8fa; --text: #1f2328; --page: #fff }
@media (prefers-color-scheme: dark) {
  :root { --ok: #3fb950; --cut: #f85149; --odd: #d29922; --line: #3d444d; --soft: #151b23; --text: #f0f6fc; --page: #0d1117 }
}
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; padding: 0 1em; max-width: 62em }
table { border-collapse: collapse; margin: .5em 0 1.5em } td, th { border-bottom: 1px solid var(--line); padding: .2em .9em .2em 0; text-align: left }
code, pre, svg { font-family: ui-monospace, monospace; font-size: 13px }
pre { background: var(--soft); border-left: 3px solid var(--line); overflow-x: auto; padding: .6em }
pre b { color: var(--cut) } svg { display: block; max-width: 100% } svg text { fill: var(--text) } svg .label { fill: var(--cut) }
svg path { fill: none; stroke-width: 2 } .ok path, path.ok { stroke: var(--ok) } path.cut { stroke: var(--cut) } path.odd { stroke: var(--odd) }
path.lost { stroke: var(--line); stroke-dasharray: 4 4 } rect { fill: var(--soft); stroke: var(--line) }
.ok { color: var(--ok) } .cut, .none, .partial, .nonfinite { color: var(--cut) } .zero, .odd { color: var(--odd) }
.beside { display: flex; flex-wrap: wrap; gap: 2em }
"""  # noqa: E501


def render(report: Report, folder: Path) -> str:
    """The whole page; file names as a person in `folder` would write them."""
    page = Element("html", lang="en")
    head = SubElement(page, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    title = f"{relative_name(report.target, folder)}: {SAID[report.verdict]}"
    SubElement(head, "title").text = title
    SubElement(head, "style").text = _STYLE
    body = SubElement(page, "body")
    SubElement(body, "h1", {"class": "ok" if report.exit_status == 0 else "cut"}).text = title
    for part in _parts(report, folder):
        body.append(part)
    for element in page.iter():
        if element.text:
            element.text = _UNPRINTABLE.sub("�", element.text)
    return "<!DOCTYPE html>\n" + tostring(page, encoding="unicode", method="html") + "\n"


def _parts(report: Report, folder: Path) -> Iterator[Element]:
    if report.error is not None:
        where = f"{relative_name(report.error.file, folder)}:{report.error.line}: " if report.error.file else ""
        yield _text("pre", f"{where}{report.error.type}: {report.error.message}")
    if remedy(report):
        yield _text("p", f"What to do: {remedy(report)}")
    if report.against is not None:
        yield _text("h2", "Before and after")
        yield _beside(report.against, report, folder)
    for gradient in report.gradients:
        yield _text("h2", f"{relative_name(gradient.file, folder)}:{gradient.line}")
        yield _text("p", _summary(gradient))
        if report.against is None:
            yield picture(gradient, folder)
        yield _sources(gradient, folder)
    if report.causes:
        yield _text("h2", count(len(report.causes), "cut", "cuts"))
    for cause in report.causes:
        yield _cut(cause, report, folder)
    yield _facts(report, folder)


def _summary(gradient: Gradient) -> str:
    loss = "" if gradient.loss is None else f", loss {gradient.loss:.6g}"
    return f"{gradient.kind} of {count(len(gradient.variables), 'source', 'sources')}, " + (
        f"{count(gradient.times, 'call', 'calls')}{loss}"
    )


def _beside(before: Report, after: Report, folder: Path) -> Element:
    """The pictures of both versions, each version in a column."""
    both = Element("div", {"class": "beside"})
    for name, report in (("before", before), ("after", after)):
        column = SubElement(both, "div")
        SubElement(column, "h3").text = f"{name}: {SAID[report.verdict]}"
        for gradient in report.gradients:
            column.append(picture(gradient, folder))
    return both


def _sources(gradient: Gradient, folder: Path) -> Element:
    table = Element("table")
    _row(table, "th", ["source", "shape", "type", "gradient", "norm", "cut at"])
    for variable in gradient.variables:
        cause = variable.cause
        place = "" if cause is None else f"{relative_name(cause.file, folder)}:{cause.line} {cause.code}"
        norm = "" if variable.norm is None else f"{variable.norm:.4g}"
        cells = [full_name(variable), _shape(variable), variable.dtype, _status(variable), norm, place]
        _row(table, "td", cells).set("class", variable.status)
    return table


def _row(table: Element, kind: str, cells: list[str]) -> Element:
    row = SubElement(table, "tr")
    for cell in cells:
        SubElement(row, kind).text = cell
    return row


def _shape(variable: Variable) -> str:
    return "" if variable.shape is None else "x".join("?" if n is None else str(n) for n in variable.shape) or "scalar"


def _status(variable: Variable) -> str:
    word = STATUS.get(variable.status, "there")
    return f"{word} ({variable.note})" if variable.note else word


def _cut(cause: Cause, report: Report, folder: Path) -> Element:
    """One cut: its place, its code, why, what it cuts, and the repair."""
    part = Element("section")
    place = f"{relative_name(cause.file, folder)}:{cause.line}:{cause.column}"
    SubElement(part, "h3").text = f"{place} {cause.code}".rstrip()
    SubElement(part, "p").text = f"Why: {'' if cause.sure else 'probably '}{cause.message}"
    code = _code(cause)
    if code is not None:
        part.append(code)
    for file, line, message in cause.related:
        SubElement(part, "p").text = f"{relative_name(file, folder)}:{line}: {message}"
    lost = list(dict.fromkeys(full_name(v) for v in report.variables() if v.cause == cause))
    if lost:
        SubElement(part, "p").text = f"Cuts: {', '.join(lost)}"
    done = SubElement(part, "p")
    done.text = "Repair: "
    SubElement(done, "code").text = repair(cause, folder)
    return part


def _code(cause: Cause) -> Element | None:
    """The line that cuts, marked, among its neighbours."""
    if not source_line(cause.file, cause.line):
        return None
    block = Element("pre")
    for number in range(max(1, cause.line - _AROUND), cause.line + _AROUND + 1):
        text = f"{number:>5}  {source_line(cause.file, number)}\n"
        SubElement(block, "b" if number == cause.line else "span").text = text
    return block


def _facts(report: Report, folder: Path) -> Element:
    """Values compared, numerical checks, notes, and what it was run with."""
    facts = Element("ul")
    if report.forward is not None:
        f = report.forward
        said = "unchanged" if f.equal else f"changed by up to {f.max_abs_diff:.3g}"
        compared = count(f.compared, "loss", "losses")
        _item(facts, f"forward values {said} ({compared} compared, tolerance {f.tolerance:g})")
    for n in report.numeric:
        said = "agrees" if n.agrees else "does not agree"
        place = f"{relative_name(n.file, folder)}:{n.line}"
        _item(facts, f"numeric check {said}: {place}: by the tape {n.tape:.6g}, by differences {n.differences:.6g}")
    for note in report.notes:
        _item(facts, f"note: {relative_name(note, folder)}")
    _item(facts, f"{report.python} (from {report.chosen}), TensorFlow {report.tensorflow}, Keras {report.keras or '?'}")
    _item(facts, report.isolation)
    return facts


def _item(facts: Element, text: str) -> None:
    SubElement(facts, "li").text = text


def _text(kind: str, text: str) -> Element:
    element = Element(kind)
    element.text = text
    return element
