"""Programs that run for real: what verification says of them, and that it leaves them and their files alone."""

import os
import sys
import textwrap
from pathlib import Path

import pytest

from tapefix.errors import TapefixError
from tapefix.report.verify_text import render, render_evidence
from tapefix.verify import Limits, NotProven, NotRun, Proven, StaticFinding, Verdict, VerifyOptions, prove, verify
from tapefix.verify.interpreter import choose
from tapefix.verify.runner import Runner
from verify_programs import CUT, CUT_LINE, WHOLE, written

pytestmark = pytest.mark.tensorflow
pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def runner():
    """One warm process for all tests of this file."""
    options = VerifyOptions()
    with Runner(choose(sys.executable, "", Path.cwd(), options.environ), options) as shared:
        yield shared


@pytest.fixture
def check(runner, tmp_path):
    """Verifies a program (its text, or a target) in tmp_path with the shared warm process."""

    def run(program, **given):
        options = VerifyOptions(cwd=tmp_path, **given)
        runner.options = options
        if isinstance(program, str) and "\n" in program:
            program = written(tmp_path, program)
        return verify(program, options, runner)

    return run


def names(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


# ---------------------------------------------------------------------- what is there and what is not
def test_a_program_whose_gradients_are_there_is_ok(check):
    report = check(WHOLE + "step()\n")
    assert (report.verdict, report.exit_status, report.causes) == (Verdict.OK, 0, ())
    assert report.owners() == {"encoder": (2, 2), "decoder": (2, 2)}
    assert report.loss is not None
    assert "warm process" in report.isolation


@pytest.mark.parametrize(
    ("logged", "modes"),
    [("pass", ["record"]), ("print(float(loss))", ["record", "explain"])],
    ids=["kept", "taken out"],
)
def test_a_run_is_explained_only_where_a_value_may_have_been_lost(check, runner, monkeypatch, logged, modes):
    made, observe = [], runner.observe
    monkeypatch.setattr(runner, "observe", lambda *given: made.append(given[2]) or observe(*given))
    text = WHOLE.replace("    return tape", f"        {logged}\n    return tape")
    assert check(text + "step()\n").verdict is Verdict.OK
    assert made == modes


def test_a_finding_in_what_ran_is_looked_into(check, runner, tmp_path, monkeypatch):
    made, observe = [], runner.observe
    monkeypatch.setattr(runner, "observe", lambda *given: made.append(given[2]) or observe(*given))
    found = StaticFinding("TAP407", str(tmp_path / "train.py"), 3, 3)
    assert check(WHOLE + "step()\n", find=lambda files, changed=(): [found]).verdict is Verdict.OK
    assert made == ["record", "explain"]


def test_a_cut_gradient_is_none_and_explained(check, tmp_path):
    report = check(CUT + "step()\n")
    assert (report.verdict, report.exit_status) == (Verdict.NONE, 1)
    assert report.owners() == {"encoder": (0, 2), "decoder": (2, 2)}
    assert [(c.file, c.line) for c in report.causes] == [(str(tmp_path / "train.py"), CUT_LINE)]
    assert all((v.cause is not None) == (v.owner == "encoder") for v in report.variables())


def test_a_training_loop_is_ended_after_the_steps(check):
    report = check(WHOLE + "while True:\n    step()\n", steps=2)
    assert report.verdict is Verdict.OK
    assert report.gradients[0].times == 2


@pytest.mark.parametrize("decorator", ["", "@tf.function\n"])
def test_a_later_call_that_comes_to_less_than_the_first_counts(check, decorator):
    text = f"""
import tensorflow as tf

w = tf.Variable(2.0)


{decorator}def step(scale):
    with tf.GradientTape() as tape:
        loss = w * scale
    return tape.gradient(loss, w)


for scale in (1.0, 1.0, float("nan")):
    step(tf.constant(scale))
"""
    report = check(text, explain="never")
    assert report.verdict is Verdict.NONFINITE
    (gradient,) = report.gradients
    assert (gradient.times, gradient.losses) == (3, (2.0, 2.0, None))
    assert gradient.variables[0].norm == 1.0


def test_an_error_after_a_none_is_a_none(check):
    report = check(CUT + "grads = step()\nprint(grads[0].numpy())\n")
    assert report.verdict is Verdict.NONE
    assert report.error is not None
    assert report.error.type == "AttributeError"


def test_an_error_before_any_gradient_call_tells_the_user_s_line(check, tmp_path):
    text = WHOLE + "raise ValueError('no data')\n"
    report = check(text)
    assert (report.verdict, report.exit_status) == (Verdict.ERROR, 2)
    assert report.error is not None
    assert (report.error.type, report.error.message) == ("ValueError", "no data")
    assert (report.error.file, report.error.line) == (str(tmp_path / "train.py"), text.count("\n"))
    assert str(tmp_path / "train.py") in report.output


def test_paths_and_imports_are_those_of_a_copy_that_looks_like_the_project(check, tmp_path):
    written(tmp_path, "value = 7\n", "helper.py")
    written(tmp_path, "12", "data/number.txt")
    program = WHOLE + (
        "import helper\n"
        "assert helper.value == 7\n"
        "assert open('data/number.txt').read() == '12'\n"
        "assert os.path.basename(__file__) == 'train.py' and __name__ == '__main__'\n"
        "assert os.path.dirname(os.path.abspath(__file__)) == os.getcwd()\n"
        "assert sys.argv[1:] == ['--fast']\n"
        "step()\n"
    )
    report = check(program, args=("--fast",))
    assert report.verdict is Verdict.OK, report.error
    assert report.loaded == {str(tmp_path / "train.py"), str(tmp_path / "helper.py")}


# ---------------------------------------------------------------------- programs that mean harm, or do it
@pytest.mark.parametrize("warm", [True, False])
def test_autograph_converts_the_program_s_functions(check, warm):
    text = """
import tensorflow as tf

weight = tf.Variable(1.5)


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        y = weight * x
        if x > 1.0:
            y = y * y
    return tape.gradient(y, weight)


assert float(step(tf.constant(2.0))) == 12.0
"""
    report = check(text, warm=warm, explain="never")
    assert (report.verdict, report.error) == (Verdict.OK, None)


@pytest.mark.parametrize("warm", [True, False])
def test_a_program_that_rewrites_its_source_changes_only_the_copy(check, tmp_path, warm):
    text = WHOLE + "open(__file__, 'w').write('gone')\nopen('new', 'w').write('x')\nos.mkdir('made')\nstep()\n"
    report = check(text, warm=warm, explain="auto" if warm else "never")
    assert report.verdict is Verdict.OK, report.error
    assert names(tmp_path) == ["train.py"]
    assert (tmp_path / "train.py").read_text() == text


@pytest.mark.parametrize(
    "deed",
    ["open(path, 'w')", "os.remove(path)", "os.rename(path, 'here')", "os.chmod(path, 0)", "os.truncate(path, 0)"],
)
def test_what_lies_outside_the_copy_is_not_written(check, tmp_path, deed):
    outside = written(tmp_path, "precious", "model.h5")
    report = check(WHOLE + f"path = {str(outside)!r}\n{deed}\nstep()\n")
    assert report.verdict is Verdict.ERROR
    assert report.error is not None
    assert report.error.type == "PermissionError"
    assert outside.read_text() == "precious"


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        ("os._exit(0)", Verdict.NO_GRADIENT_CALL),
        ("sys.exit(0)", Verdict.NO_GRADIENT_CALL),
        ("sys.exit(5)", Verdict.ERROR),
        ("os.abort()", Verdict.ERROR),
        ("import ctypes; ctypes.string_at(0)", Verdict.ERROR),
        ("step(); os._exit(0)", Verdict.OK),
        ("step(); sys.exit(0)", Verdict.OK),
    ],
)
def test_a_program_that_leaves_early_is_judged_by_what_it_did(check, end, verdict):
    report = check(WHOLE + f"{end}\nstep()\n")
    assert report.verdict is verdict
    if verdict is Verdict.NO_GRADIENT_CALL:
        assert report.notes == ("the program left by sys.exit or os._exit before any gradient call",)


def test_a_program_that_hangs_is_a_timeout(check):
    report = check("while True:\n    pass\n", limits=Limits(wall=1.0))
    assert (report.verdict, report.exit_status) == (Verdict.TIMEOUT, 2)


def test_a_program_that_eats_memory_is_an_error(check):
    report = check(
        "held = []\nwhile True:\n    held.append(bytearray(1 << 26))\n", limits=Limits(memory=2 << 30), explain="never"
    )
    assert report.verdict is Verdict.ERROR
    assert report.error is not None
    assert report.error.type in ("MemoryError", "memory limit")


def test_a_program_that_floods_its_output_is_an_error(check):
    report = check("while True:\n    print('x' * 10000)\n", limits=Limits(output=1 << 22))
    assert report.error is not None
    assert (report.verdict, report.error.type) == (Verdict.ERROR, "output limit")


def test_the_warm_process_survives_what_its_runs_do(check, runner):
    check(WHOLE + "os.kill(os.getppid(), 0)\nos.abort()\n")
    before = runner._warm
    assert check(WHOLE + "step()\n").verdict is Verdict.OK
    assert runner._warm is before


def test_a_run_that_kills_the_warm_process_costs_only_itself(check, runner):
    report = check(WHOLE + "import signal\nos.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()\n", explain="never")
    assert report.verdict is Verdict.ERROR
    assert check(WHOLE + "step()\n").verdict is Verdict.OK


# ---------------------------------------------------------------------- other targets
def test_a_setting_that_comes_before_the_import_needs_a_process_of_its_own(check):
    report = check("import os\nos.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'\n" + WHOLE + "step()\n", explain="never")
    assert report.verdict is Verdict.OK
    assert "process of its own" in report.isolation


def test_a_module_named_like_one_of_tensorflow_s_is_the_user_s(check, tmp_path):
    written(tmp_path, "mine = True\n", "termcolor.py")
    written(tmp_path, "mine = True\n", "guard.py")
    report = check(WHOLE + "import guard, termcolor\nassert guard.mine and termcolor.mine\nstep()\n", explain="never")
    assert report.verdict is Verdict.OK, report.error
    assert "process of its own" in report.isolation


MODULE = """
import tensorflow as tf


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.first = tf.keras.layers.Dense(3)
        self.second = tf.keras.layers.Dense(2)

    def call(self, x):
        return self.second(self.first(x).numpy())


NET = Net()
X = tf.random.normal([4, 5])
NET(X)


def train():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(NET(X) ** 2)
    return tape.gradient(loss, NET.trainable_variables)
"""
MODULE_CUT = 1 + next(i for i, line in enumerate(MODULE.splitlines()) if ".numpy()" in line)


@pytest.mark.parametrize(("target", "shapes"), [("pkg.net:train", None), ("pkg.net:Net", ((4, 5),))])
def test_a_callable_and_a_model_class_are_run_in_the_copy(check, tmp_path, target, shapes):
    path = written(tmp_path, MODULE, "pkg/net.py")
    report = check(target, input_shapes=shapes)
    assert report.verdict is Verdict.NONE, (report.error, report.output)
    assert [(c.file, c.line) for c in report.causes] == [(str(path), MODULE_CUT)]
    assert sorted(report.owners().values()) == [(0, 2), (2, 2)]


def test_a_command_is_observed_with_its_children_and_a_sitecustomize_of_theirs_still_runs(check, tmp_path):
    written(tmp_path, MODULE, "pkg/net.py")
    written(tmp_path, "import os\nos.environ['OWN_SITE'] = 'was here'\n", "site/sitecustomize.py")
    written(
        tmp_path,
        "import os, subprocess, sys\nassert os.environ['OWN_SITE'] == 'was here'\n"
        "subprocess.run([sys.executable, '-c', 'from pkg.net import train; train()'], check=True)\n",
        "pkg/main.py",
    )
    report = check(["python", "-m", "pkg.main"], environ={**os.environ, "PYTHONPATH": str(tmp_path / "site")})
    assert report.verdict is Verdict.NONE, (report.error, report.output)
    assert [c.line for c in report.causes] == [MODULE_CUT]
    assert names(tmp_path) == ["pkg", "pkg/main.py", "pkg/net.py", "site", "site/sitecustomize.py"]


def test_a_test_suite_is_a_target(check, tmp_path):
    written(tmp_path, MODULE, "pkg/net.py")
    written(tmp_path, "from pkg.net import train\n\ndef test_it():\n    assert train()\n", "tests/test_net.py")
    report = check(["python", "-m", "pytest", "-q", "tests"], explain="never")
    assert report.verdict is Verdict.NONE, (report.error, report.output)
    assert str(tmp_path / "tests" / "test_net.py") in report.loaded


def test_what_is_installed_from_the_project_comes_from_the_copy(check, tmp_path):
    written(tmp_path, "value = 1\n", "lib/helper.py")
    program = WHOLE + "import helper\nassert not helper.__file__.startswith(%r), helper.__file__\nstep()\n"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "lib")}
    report = check(program % str(tmp_path), environ=environ, warm=False, explain="never")
    assert report.verdict is Verdict.OK, report.error


# ---------------------------------------------------------------------- comparing
NUMERIC = """
import tensorflow as tf

w = tf.Variable(tf.random.normal([5, 3]))
x = tf.random.normal([4, 5])


def whole():
    return tf.reduce_sum(tf.tanh(x @ w) ** 2)


@tf.custom_gradient
def halved(value):
    return value, lambda upstream: 0.5 * upstream


def trains():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.tanh(x @ w) ** 2)
    gradient = tape.gradient(loss, w)
    w.assign_sub(gradient)
    return gradient


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(3, activation="tanh")

    def call(self, value):
        return self.dense(value)
"""


@pytest.mark.parametrize(("name", "precision"), [("whole", "float32"), ("trains", "float32"), ("Net", "float64")])
def test_a_right_gradient_agrees_with_differences(check, tmp_path, name, precision):
    written(tmp_path, NUMERIC, "lib.py")
    report = check(f"lib:{name}", numeric=True, input_shapes=((4, 5),) if name == "Net" else None, explain="never")
    assert report.verdict is Verdict.OK, (report.error, report.output)
    (numeric,) = report.numeric
    assert numeric.agrees
    assert numeric.note == precision
    assert numeric.tape == pytest.approx(numeric.differences, rel=1e-5 if precision == "float64" else 1e-2)
    assert abs(numeric.tape) > 1e-3


def test_a_wrong_gradient_does_not_agree_unless_it_is_meant_to_be_another(check, tmp_path):
    hidden = "from other import halved\n" + NUMERIC.replace("tf.tanh(x @ w)", "halved(tf.tanh(x @ w))")
    inside = hidden.index("@tf.custom_gradient")
    cut = hidden.index("def trains")
    written(tmp_path, "import tensorflow as tf\n" + hidden[inside:cut], "other.py")
    written(tmp_path, hidden[:inside] + hidden[cut:], "lib.py")
    report = check("lib:whole", numeric=True, explain="never")
    assert (report.verdict, report.exit_status) == (Verdict.PARTIAL, 1), (report.error, report.output)
    (numeric,) = report.numeric
    assert numeric.differences == pytest.approx(2 * numeric.tape, rel=1e-2)
    written(
        tmp_path, NUMERIC.replace("tf.tanh(x @ w)", "halved(tf.tanh(x @ w))").replace("def whole", "def told"), "own.py"
    )
    report = check("own:told", numeric=True, explain="never")
    assert report.verdict is Verdict.OK
    assert "`custom_gradient` is meant to give another gradient" in report.numeric[0].note


def test_a_script_has_no_numeric_check_and_says_so(check):
    report = check(WHOLE + "step()\n", numeric=True, explain="never")
    assert report.numeric == ()
    assert any(note.startswith("no numeric check: a script") for note in report.notes)


def test_against_another_version_compares_the_losses(check, tmp_path):
    written(tmp_path, CUT + "step()\n", "old.py")
    report = check(WHOLE + "step()\n", against="old.py")
    assert report.forward is not None
    assert (report.forward.equal, report.forward.compared, report.forward.tolerance) == (True, 1, 1e-5)
    written(tmp_path, WHOLE.replace("** 2", "** 2 + 1.0") + "step()\n", "old.py")
    report = check(WHOLE + "step()\n", against="old.py")
    assert report.forward is not None
    assert not report.forward.equal
    assert report.forward.max_abs_diff == pytest.approx(1.0, rel=1e-4)


def test_against_nothing_known_is_an_error(check):
    with pytest.raises(TapefixError, match="neither a file nor a Git revision"):
        check(WHOLE + "step()\n", against="v1.0")


def test_a_static_finding_at_the_cause_names_the_repair(check, tmp_path):
    asked = []

    def find(files):
        asked.extend(files)
        return [StaticFinding("TAP201", str(tmp_path / "train.py"), CUT_LINE, CUT_LINE, "to-numpy", "cut", "safe")]

    report = check(CUT + "step()\n", find=find)
    assert asked == [tmp_path / "train.py"]
    assert [(c.code, c.repair) for c in report.causes] == [("TAP201", "safe")]
    assert "= fix: tapefix apply --verify --select TAP201 train.py" in render(report, tmp_path)


def test_what_the_trace_has_lost_is_guessed_from_the_findings(check, tmp_path):
    through_a_file = """
    import numpy as np

    def forward():
        np.save("code.npy", encoder(x))
        return decoder(np.load("code.npy"))

    """
    text = WHOLE.replace("\n\ndef step", textwrap.dedent(through_a_file) + "\ndef step")
    text = text.replace("decoder(encoder(x))", "forward()")
    line = 1 + text.splitlines().index("import sys")
    finding = StaticFinding("TAP208", str(tmp_path / "train.py"), line, line)
    report = check(text + "step()\n", find=lambda files: [finding])
    assert report.verdict is Verdict.NONE
    assert ("TAP208", line, False) in [(c.code, c.line, c.sure) for c in report.causes]
    assert len(report.causes) <= 4


def test_a_check_that_fails_costs_neither_the_verdict_nor_the_causes(check):
    def find(files):
        raise RecursionError("too deep")

    report = check(CUT + "step()\n", find=find)
    assert report.verdict is Verdict.NONE
    assert [c.line for c in report.causes] == [CUT_LINE]
    assert any("check failed" in note and "too deep" in note for note in report.notes)


# ---------------------------------------------------------------------- proving
@pytest.fixture
def proves(runner, tmp_path):
    def run(before, after, targets=(), **given):
        options = VerifyOptions(cwd=tmp_path, **given)
        runner.options = options
        old = {written(tmp_path, text, name): text.encode() for name, text in before.items()}
        new = {tmp_path / name: text.encode() for name, text in after.items()}
        proof = prove(old, new, targets, options, runner)
        assert {name: (tmp_path / name).read_text() for name in before} == before
        return {Path(name).relative_to(tmp_path).as_posix(): evidence for name, evidence in proof.files.items()}

    return run


def test_a_repair_is_proven_and_shown_before_and_after(proves):
    (evidence,) = proves({"train.py": CUT + "step()\n"}, {"train.py": WHOLE + "step()\n"}).values()
    assert isinstance(evidence, Proven)
    assert evidence.before.loss == pytest.approx(evidence.after.loss, rel=1e-6)
    loss = f"{evidence.after.loss:.5g}"
    assert render_evidence(evidence) == [
        f"  before   encoder 0/2   decoder 2/2   loss {loss}",
        f"  after    encoder 2/2   decoder 2/2   loss {loss} (unchanged)",
    ]


def test_a_repair_that_moves_the_loss_is_not_proven(proves):
    moved = WHOLE.replace("encoder(x))", "2.0 * encoder(x))")
    before, after = {"train.py": CUT + "step()\n"}, {"train.py": moved + "step()\n"}
    (evidence,) = proves(before, after).values()
    assert isinstance(evidence, NotProven)
    assert evidence.reason.startswith("the loss at ")
    (evidence,) = proves(before, after, forward_may_change=True).values()
    assert isinstance(evidence, Proven)


def test_files_are_judged_by_the_targets_that_load_them(proves):
    main = "from lib import step\nimport other\nstep()\n"
    before = {"lib.py": CUT, "main.py": main, "other.py": "a = 1\n", "alone.py": "b = 1\n"}
    after = {"lib.py": WHOLE, "other.py": "a = 2\n", "alone.py": "b = 2\n"}
    shown = proves(before, {"main.py": main, **after}, ["main.py"])
    assert {name: type(evidence) for name, evidence in shown.items()} == {
        "lib.py": Proven,
        "other.py": Proven,
        "alone.py": NotRun,
    }


def test_a_file_that_asks_for_no_gradient_is_not_verified(proves):
    (evidence,) = proves({"lib.py": CUT}, {"lib.py": WHOLE}).values()
    assert isinstance(evidence, NotRun)
    assert "name a target that trains" in evidence.reason


def test_an_original_that_does_not_trace_is_compared_by_nothing(proves):
    traced = WHOLE.replace("def step():", "@tf.function\ndef step():")
    broken = traced.replace("decoder(encoder(x))", "decoder(encoder(x).numpy())")
    (evidence,) = proves({"train.py": broken + "step()\n"}, {"train.py": traced + "step()\n"}).values()
    assert isinstance(evidence, Proven)
    assert "values could not be compared" in evidence.note


def test_the_original_is_run_once_for_many_repairs_of_it(runner, tmp_path):
    path = written(tmp_path, CUT + "step()\n")
    runner.options = options = VerifyOptions(cwd=tmp_path)
    before = {path: path.read_bytes()}
    shown = [
        prove(before, {path: (text + "step()\n").encode()}, (), options, runner).files[str(path)]
        for text in (WHOLE, CUT.replace("** 2", "** 2 "))
    ]
    assert [type(evidence) for evidence in shown] == [Proven, NotProven]
    assert shown[0].before is shown[1].before


def test_a_repair_is_weighed_with_the_findings_of_its_own_text(proves, tmp_path):
    scaled = WHOLE.replace("decoder(encoder(x))", "decoder(encoder(x) / tf.norm(encoder(x)).numpy())")

    def find(files, changed=None):
        for path in files:
            text = changed[path] if changed else path.read_bytes()
            for line, code in enumerate(text.decode().splitlines(), 1):
                if ".numpy()" in code:
                    yield StaticFinding("TAP201", str(path), line, line)

    def evidence_on(after):
        return proves({"train.py": scaled + "step()\n"}, {"train.py": after + "step()\n"}, find=find)["train.py"]

    assert isinstance(evidence_on(scaled.replace(".numpy()", "")), Proven)
    moved = evidence_on(scaled.replace(" / tf", "  / tf"))
    assert isinstance(moved, NotProven)
    assert "is still partial" in moved.reason
