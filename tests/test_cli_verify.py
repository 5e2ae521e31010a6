"""`tapefix verify` and `apply --verify` from outside: what a person sees, and what is written."""

import json

import pytest

CUT = """\
import tensorflow as tf

w = tf.Variable(tf.ones(3), name="w")
with tf.GradientTape() as tape:
    out = tf.Variable(tf.zeros((2, 3)))
    for i in range(2):
        out[i].assign(w * float(i + 1))
    loss = tf.reduce_sum(out)
gradient = tape.gradient(loss, w)
"""
TWO_FIXES = CUT.replace("    loss = tf.reduce_sum(out)", "    loss = tf.reduce_sum(out) + tf.add(2.0, 1.0)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify"], "tapefix: nothing to run: name a script"),
        (["verify", "gone.py"], "tapefix: gone.py: "),
        (
            ["verify", "gone.py", "--output-format", "jsn"],
            "tapefix: unknown output format 'jsn' (did you mean 'json'?)",
        ),
        (["verify", "x.py", "--", "pytest"], "tapefix: give a target or a command after `--`, not both"),
        (["verify", "a.b:C", "--input-shape", "four"], "tapefix: --input-shape wants numbers such as 4,10,49"),
        (["verify", "a.b:C", "--timeout", "0"], "tapefix: --timeout wants a number of seconds above 0"),
        (["verify", "x.py", "--html", "gone/out.html"], "tapefix: --html gone/out.html: there is no such folder"),
        (["apply", "-", "--verify"], "tapefix: standard input goes with --dry-run or alone"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_status_2(tapefix, arguments, message):
    ran = tapefix(*arguments)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith(message)
    assert ran.err.count("\n") == 1


def test_an_interpreter_without_tensorflow_is_told_with_the_remedy(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(CUT)
    (tmp_path / "bare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bare").chmod(0o755)
    ran = tapefix("verify", "train.py", "--python", "./bare")
    assert ran.status == 2
    assert ran.out == ""
    assert "bare" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.tensorflow
def test_verify_names_the_line_and_the_status_says_that_a_gradient_is_missing(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(CUT)
    ran = tapefix("verify", "train.py", "--output-format", "json", "--html", "out.html")
    assert "out[i].assign(w * float(i + 1))" in (tmp_path / "out.html").read_text()
    report = json.loads(ran.out)
    assert ran.status == 1
    assert report["verdict"] == "none"
    assert report["causes"][0]["line"] == 7
    (gradient,) = report["gradients"]
    assert [variable["status"] for variable in gradient["variables"]] == ["none"]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_apply_writes_what_is_proven_and_tells_what_is_not(tapefix, tmp_path, toy_plugin):
    path = tmp_path / "train.py"
    path.write_text(TWO_FIXES)
    ran = tapefix("apply", "--verify", "train.py")
    assert ran.status == 1, ran.err
    text = path.read_text()
    assert "tf.add(2.0, 1.0)" in text
    assert ".assign(" not in text
    assert "train.py  TAP101 fixed" in ran.out
    assert "train.py  TOY106 left out: `tf.add(2.0, 1.0)`" in ran.out
    assert "w 0/1" in ran.out
    assert "w 1/1" in ran.out
    assert "(unchanged)" in ran.out
    assert "not proven: the loss at" in ran.out


@pytest.mark.slow
@pytest.mark.tensorflow
def test_apply_writes_nothing_that_cannot_be_run(tapefix, tmp_path):
    path = tmp_path / "train.py"
    text = "data = open('no such data.csv').read()\n" + CUT
    path.write_text(text)
    ran = tapefix("apply", "--verify", "train.py")
    assert ran.status == 1
    assert path.read_text() == text
    assert "not verified:" in ran.out


@pytest.mark.slow
@pytest.mark.tensorflow
def test_apply_with_a_command_proves_by_that_command(tapefix, tmp_path):
    (tmp_path / "model.py").write_text("def train():\n" + "".join(f"    {line}\n" for line in CUT.splitlines()))
    (tmp_path / "run.py").write_text("import model\nmodel.train()\n")
    ran = tapefix("apply", "--verify", "model.py", "--", "python", "run.py")
    assert ran.status == 0, ran.out + ran.err
    assert ".assign(" not in (tmp_path / "model.py").read_text()
