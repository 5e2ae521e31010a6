"""The probe on whole programs: each cut at its line, nothing on healthy ones, whatever the version of TensorFlow."""

from __future__ import annotations

import functools
import json
import pathlib
import subprocess
import sys

import pytest

from program_runner import interpreter

PROGRAMS = pathlib.Path(__file__).parent / "probe_programs"
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.slow,
    pytest.mark.skipif(interpreter() is None, reason="no interpreter with TensorFlow"),
]


def programs(kind):
    return sorted(path.name for path in (PROGRAMS / kind).glob("*.py"))


@functools.cache
def runs(mode, kind):
    """All programs of one kind in one process."""
    paths = [str(path) for path in sorted((PROGRAMS / kind).glob("*.py"))]
    done = subprocess.run(
        [interpreter() or sys.executable, str(PROGRAMS / "run_all.py"), mode, *paths],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {pathlib.Path(row["program"]).name: row["events"] for row in map(json.loads, done.stdout.splitlines())}


def wanted(kind, name):
    """The lines of the cuts; and where weights are made that nothing uses, which is told beside the gradient call."""
    lines = (PROGRAMS / kind / name).read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if "# cut here" in line or "# made here" in line}


def of(events, kind):
    return [event for event in events if event["event"] == kind]


def statuses(events):
    return {variable["status"] for call in of(events, "gradient") for variable in call["variables"]}


@pytest.mark.parametrize("name", programs("partial"))
def test_partial_cut_is_named_at_its_line(name):
    events = runs("explain", "partial")[name]
    causes = of(events, "cause")
    assert {cause["line"] for cause in causes} == wanted("partial", name)
    assert all(cause["partial"] for cause in causes)
    assert of(events, "gradient")
    assert "none" not in statuses(events)


@pytest.mark.parametrize("name", programs("missing"))
def test_missing_gradient_is_named_at_its_line(name):
    causes = of(runs("explain", "missing")[name], "cause")
    assert {cause["line"] for cause in causes} == wanted("missing", name)


@pytest.mark.parametrize("name", programs("healthy"))
def test_healthy_program_has_no_cause(name):
    events = runs("explain", "healthy")[name]
    assert of(events, "cause") == []
    assert of(events, "error") == []
    assert of(events, "gradient")
    assert "none" not in statuses(events)


def test_every_hook_works():
    hooks = of(runs("explain", "healthy")["logging_by_float_and_numpy.py"], "start")[0]["hooks"]
    assert {name: works for name, works in hooks.items() if works is not True} == {}
    assert {"op-callbacks", "numpy", "buffer", "variable-handle", "tapes", "gradient-function"} <= set(hooks)


def test_record_mode_sees_the_same_losses_as_explain():
    for name, events in runs("record", "healthy").items():
        recorded = [call["loss"] for call in of(events, "gradient")]
        explained = [call["loss"] for call in of(runs("explain", "healthy")[name], "gradient")]
        assert recorded, name
        assert explained[0] == pytest.approx(recorded[0], rel=1e-4, abs=1e-6), name


def test_record_mode_runs_graphs_as_graphs_and_still_has_values():
    events = runs("record", "healthy")["dataset_with_augmentation.py"]
    calls = of(events, "gradient")
    assert all(call["graph"] and call["loss"] is not None for call in calls)
    assert all(variable["norm"] > 0 for call in calls for variable in call["variables"])


def test_no_partial_program_passes_for_whole_without_an_explanation():
    ends = {name: of(events, "end")[-1]["whole"] for name, events in runs("record", "partial").items()}
    assert {name for name, whole in ends.items() if whole} == set()


def test_healthy_programs_pass_for_whole_where_no_value_leaves():
    ends = {name: of(events, "end")[-1]["whole"] for name, events in runs("record", "healthy").items()}
    assert ends["batch_norm_trained_and_used.py"]
    assert ends["dataset_with_augmentation.py"]
    assert ends["slope_penalty.py"]
    assert not ends["logging_by_float_and_numpy.py"]


def test_variables_are_named_by_their_owner():
    events = runs("record", "partial")["train_step_with_two_heads.py"]
    owners = {variable["owner"] for variable in of(events, "gradient")[0]["variables"]}
    assert owners == {"self.trunk", "self.age", "self.sex"}
