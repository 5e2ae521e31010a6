"""Text and JSON say the same of a report: exact lines, and the shape that the schema promises."""

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest

import tapefix.report
from tapefix.report.verify_json import as_dict, to_json
from tapefix.report.verify_text import before_and_after, render, render_evidence
from tapefix.verify import NotProven, NotRun, Proven, Verdict
from tapefix.verify.outcome import Cause, Forward, Gradient, Numeric, Problem, Report, Variable

SCHEMA = json.loads((Path(tapefix.report.__file__).parent / "schemas" / "verify.json").read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text("import numpy\n\nhidden = encoder(x).numpy()\n", encoding="utf-8")
    return tmp_path


def variables(owner, cause, *statuses):
    return tuple(
        Variable(f"{owner}/{name}", owner, (2, None), "float32", status, 1.5 if status == "ok" else None, cause)
        for name, status in zip(("kernel", "bias"), statuses, strict=False)
    )


def report(folder, **changes):
    file = str(folder / "train.py")
    cause = Cause(
        "TAP201", file, 3, 10, "the value leaves TensorFlow", ((file, 2, "it comes from here"),), repair="safe"
    )
    sources = (*variables("encoder", cause, "none", "none"), *variables("decoder", None, "ok", "ok"))
    whole = Report(
        target=file,
        python="/env/bin/python",
        chosen="VIRTUAL_ENV",
        tensorflow="2.21.0",
        keras="3.15.1",
        isolation="scratch copy",
        verdict=Verdict.NONE,
        error=None,
        gradients=(Gradient(file, 9, "gradient", 3, 1.4233, sources, (1.4233, 1.2, 1.1)),),
        causes=(cause,),
    )
    return dataclasses.replace(whole, **changes)


def healthy(folder, **changes):
    file = str(folder / "train.py")
    sources = (*variables("encoder", None, "ok", "ok"), *variables("decoder", None, "ok", "ok"))
    gradients = (Gradient(file, 9, "gradient", 3, 1.4233, sources),)
    return report(folder, **{"verdict": Verdict.OK, "gradients": gradients, "causes": (), **changes})


def test_a_cut_is_shown_with_its_line_its_reason_and_the_command(folder):
    assert render(report(folder), folder) == (
        "train.py: gradients are None\n"
        "  encoder 0/2   None: encoder/kernel, encoder/bias   loss 1.4233   (train.py:9, 3 calls)\n"
        "  decoder 2/2\n"
        "\n"
        "train.py:3:10 TAP201 the value leaves TensorFlow\n"
        "  |\n"
        "3 | hidden = encoder(x).numpy()\n"
        "  |\n"
        "  = and: train.py:2: it comes from here\n"
        "  = cuts: encoder/kernel, encoder/bias\n"
        "  = fix: tapefix apply --verify --select TAP201 train.py\n"
        "\n"
        "  /env/bin/python (from VIRTUAL_ENV), TensorFlow 2.21.0, Keras 3.15.1\n"
    )


def test_when_all_is_well_each_model_has_one_line(folder):
    assert render(healthy(folder), folder) == (
        "train.py: every gradient is there\n"
        "  encoder 2/2   loss 1.4233   (train.py:9, 3 calls)\n"
        "  decoder 2/2\n"
        "  /env/bin/python (from VIRTUAL_ENV), TensorFlow 2.21.0, Keras 3.15.1\n"
    )


@pytest.mark.parametrize(
    ("repair", "code", "line"),
    [
        ("unsafe", "TAP201", "  = fix: tapefix apply --verify --unsafe-fixes --select TAP201 train.py\n"),
        ("", "TAP201", "  = fix: by hand; what to do: tapefix rule TAP201\n"),
        ("", "", "  = fix: by hand: keep this value a tensor on its way to the loss\n"),
    ],
)
def test_the_repair_is_the_one_there_is(folder, repair, code, line):
    broken = report(folder)
    cause = dataclasses.replace(broken.causes[0], repair=repair, code=code)
    assert line in render(dataclasses.replace(broken, causes=(cause,)), folder)


@pytest.mark.parametrize(
    ("verdict", "error", "remedy"),
    [
        (
            Verdict.NO_GRADIENT_CALL,
            None,
            "name a target that trains: a script, `package.module:callable`, or a command",
        ),
        (Verdict.TIMEOUT, Problem("timeout", "still running after 3 s", None, None), "give more time (--timeout)"),
        (
            Verdict.ERROR,
            Problem("ModuleNotFoundError", "No module named 'x'", None, None),
            "make it run by itself first",
        ),
    ],
)
def test_what_cannot_be_judged_says_what_to_do(folder, verdict, error, remedy):
    text = render(report(folder, verdict=verdict, error=error, gradients=(), causes=()), folder)
    assert f"  = do: {remedy}" in text
    if error is not None:
        assert f"  {error.type}: {error.message}\n" in text


def test_forward_values_numbers_and_notes_are_told(folder):
    file = str(folder / "train.py")
    text = render(
        healthy(
            folder,
            forward=Forward(False, 0.25, 2, 1e-5, ((file, 9, 1.0, 1.25),)),
            numeric=(Numeric(file, 9, 1.0, 2.0, False, "float64"),),
            notes=("a note",),
        ),
        folder,
    )
    assert "  forward values changed by up to 0.25 (2 losses compared, tolerance 1e-05)\n" in text
    assert "    train.py:9: 1 is now 1.25\n" in text
    assert "  numeric check DOES NOT AGREE: train.py:9: by the tape 1, by differences 2 (float64)\n" in text
    assert "  note: a note\n" in text


def test_before_and_after_stand_below_each_other(folder):
    assert before_and_after(report(folder), healthy(folder)) == [
        "  before   encoder 0/2   decoder 2/2   loss 1.4233",
        "  after    encoder 2/2   decoder 2/2   loss 1.4233 (unchanged)",
    ]


def test_a_partial_gradient_is_there_and_marked(folder):
    file = str(folder / "train.py")
    cause = report(folder).causes[0]
    sources = (*variables("encoder", cause, "partial", "partial"), *variables("decoder", cause, "none", "none"))
    before = report(folder, verdict=Verdict.PARTIAL, gradients=(Gradient(file, 9, "gradient", 1, 1.0, sources),))
    assert before.owners() == {"encoder": (2, 2), "decoder": (0, 2)}
    assert before_and_after(before, healthy(folder))[0] == "  before   encoder 2/2 (2 partial)   decoder 0/2   loss 1"
    assert "  encoder 2/2   partial: encoder/kernel, encoder/bias" in render(before, folder)


def test_an_original_that_does_not_run_has_its_error_for_a_loss(folder):
    error = Problem("TypeError", "no", None, None)
    before = report(folder, verdict=Verdict.ERROR, error=error, gradients=(), causes=())
    assert before_and_after(before, healthy(folder))[0].endswith("   does not run: TypeError")


def test_evidence_is_proven_not_proven_or_not_verified(folder):
    before, after = report(folder), healthy(folder)
    assert render_evidence(Proven(before, after, "values could not be compared"))[-1] == (
        "  note: values could not be compared"
    )
    assert render_evidence(NotProven("still None", before, after))[-1] == "  not proven: still None"
    assert render_evidence(NotRun("nothing to run")) == ["  not verified: nothing to run"]


@pytest.mark.parametrize("kind", [report, healthy])
def test_json_follows_its_schema(folder, kind):
    made = kind(
        folder,
        error=Problem("ValueError", "no", None, None),
        forward=Forward(True, float("nan"), 1, 1e-5),
        numeric=(Numeric("a.py", 1, 1.0, float("inf"), False),),
        notes=("a note",),
    )
    text = to_json(made)
    jsonschema.validate(json.loads(text), SCHEMA, cls=jsonschema.Draft202012Validator)
    assert json.loads(text) == as_dict(made)
    assert json.loads(text)["forward"]["max_abs_diff"] is None


def test_the_schema_is_strict_where_it_matters(folder):
    wrong = as_dict(report(folder))
    wrong["verdict"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)
    del wrong["verdict"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)
