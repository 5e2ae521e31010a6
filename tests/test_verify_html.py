"""The page of a verification: well-formed, self-contained, every word of the user's only text in it."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from tapefix.report.verify_html import render
from tapefix.verify import Verdict
from tapefix.verify.outcome import Cause, Forward, Gradient, Numeric, Problem, Report, Variable

HOSTILE = "</td><script>alert('x')</script>&amp;\"<img src=x onerror=alert(1)>\x1b[31m\x00\udc80"


class Page(HTMLParser):
    """The elements of a page, and the text below each kind of them."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((tuple(self.open), data))

    def said(self, tag):
        return [data.strip() for path, data in self.texts if path and path[-1] == tag]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text("import numpy\n\nhidden = encoder(x).numpy()\nb = 1\n", encoding="utf-8")
    return tmp_path


def variable(name, status, cause=None, **given):
    norm = 1.5 if status == "ok" else None
    return Variable(f"{name}/kernel", name, (2, None), "float32", status, norm, cause, **given)


def cut(folder, **given):
    file = str(folder / "train.py")
    related = ((file, 2, "it comes from here"),)
    return dataclasses.replace(Cause("TAP201", file, 3, 10, "the value leaves", related, repair="safe"), **given)


def report(folder, *sources, **given):
    file = str(folder / "train.py")
    whole = Report(
        target=file, python="/env/bin/python", chosen="--python", tensorflow="2.21.0", keras="3.15.1",
        isolation="scratch copy", verdict=Verdict.NONE, error=None,
        gradients=(Gradient(file, 9, "gradient", 3, 1.4233, sources),),
        causes=tuple(dict.fromkeys(v.cause for v in sources if v.cause)),
    )  # fmt: skip
    return dataclasses.replace(whole, **given)


def test_a_cut_has_its_line_of_code_why_what_it_cuts_and_the_repair(folder):
    page = Page(render(report(folder, variable("encoder", "none", cut(folder)), variable("decoder", "ok")), folder))
    assert page.said("h1") == ["train.py: gradients are None"]
    assert page.said("b") == ["3  hidden = encoder(x).numpy()"]
    assert page.said("span") == ["1  import numpy", "2", "4  b = 1", "5"]
    assert "Why: the value leaves" in page.said("p")
    assert "train.py:2: it comes from here" in page.said("p")
    assert "Cuts: encoder/kernel" in page.said("p")
    assert page.said("code") == ["tapefix apply --verify --select TAP201 train.py"]


def test_each_source_of_a_call_is_a_row(folder):
    sources = (
        variable("encoder", "none", cut(folder)),
        variable("decoder", "ok"),
        variable("gate", "zero", note="odd"),
    )
    page = Page(render(report(folder, *sources), folder))
    cells = page.said("td")
    assert cells[:5] == ["encoder/kernel", "2x?", "float32", "None", "train.py:3 TAP201"]
    assert cells[5:10] == ["decoder/kernel", "2x?", "float32", "there", "1.5"]
    assert cells[10:] == ["gate/kernel", "2x?", "float32", "zero (odd)"]


@pytest.mark.parametrize(
    ("status", "whole", "crosses", "lost"),
    [("ok", 1, 0, 0), ("none", 0, 1, 1), ("partial", 1, 1, 0)],
)
def test_the_picture_shows_whole_and_cut_paths(folder, status, whole, crosses, lost):
    cause = None if status == "ok" else cut(folder)
    page = Page(render(report(folder, variable("encoder", status, cause)), folder))
    kinds = [dict(page.attributes[i : i + 2]) for i, (key, _) in enumerate(page.attributes) if key == "d"]
    drawn = [kind["class"] for kind in kinds]
    assert (drawn.count("ok"), drawn.count("lost")) == (whole, lost)
    assert sum(kind["class"] == "cut" and " l12 " in kind["d"] for kind in kinds) == crosses
    assert ("train.py:3 TAP201" in page.said("text")) == bool(crosses)
    assert "loss 1.4233" in page.said("text")


def test_nothing_of_the_user_s_is_more_than_text(folder):
    file = str(folder / "train.py")
    (folder / "train.py").write_text(f"{HOSTILE}\n" * 4, encoding="utf-8", errors="replace")
    cause = cut(folder, message=HOSTILE, code=HOSTILE, related=((HOSTILE, 1, HOSTILE),), repair="")
    sources = (variable(HOSTILE, "none", cause, note=HOSTILE), Variable(HOSTILE, "", None, HOSTILE, "ok", 1.0))
    hostile = report(
        folder, *sources, target=HOSTILE, python=HOSTILE, chosen=HOSTILE, keras=HOSTILE, isolation=HOSTILE,
        error=Problem(HOSTILE, HOSTILE, HOSTILE, 1), notes=(HOSTILE,), numeric=(Numeric(HOSTILE, 1, 1.0, 2.0, False),),
        forward=Forward(False, 1.0, 1, 1e-5, ((file, 1, 1.0, 2.0),)),
    )  # fmt: skip
    hostile = dataclasses.replace(hostile, against=hostile)
    text = render(hostile, folder)
    text.encode("utf-8")
    page = Page(text)
    assert not {"script", "img", "a", "link", "iframe"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href")]
    assert not re.search("[\x00-\x08\x0e-\x1f]", text)
    assert not re.search(r"url\(|@import|https?:", text)
    assert sum("alert('x')" in data for _, data in page.texts) > 10


def test_the_version_before_is_drawn_beside_the_one_after(folder):
    before = report(folder, variable("encoder", "none", cut(folder)))
    after = report(folder, variable("encoder", "ok"), verdict=Verdict.OK, against=before)
    page = Page(render(after, folder))
    assert page.said("h3") == ["before: gradients are None", "after: every gradient is there"]
    assert page.tags.count("svg") == 2


def test_a_run_without_gradients_says_what_to_do(folder):
    page = Page(render(report(folder, gradients=(), verdict=Verdict.NO_GRADIENT_CALL), folder))
    assert any(said.startswith("What to do: name a target that trains") for said in page.said("p"))
    assert "svg" not in page.tags
