"""The fixture programs are what they say: the broken ones lose a gradient, the repaired and the healthy ones train.

A case is a folder `fixtures/TAPnnn/<name>/` with before.py, fixed.py (a person's repair) and case.toml:

    title          one sentence
    lines          the statements of before.py where the gradient is lost
    fix            "safe" | "judgement" | "report-only"
    forward_equal  the repair keeps the value of the first loss
    partial        nothing is None: another path keeps a gradient alive, so that it is there and wrong
    graph          the cut happens in a graph (tf.function, fit)
    note           what a reader should know
    also           (optional) other codes that speak of the same cut
    raises         (optional) part of the error that ends before.py
    misused        (optional) the gradients of before.py are there; what raises is what is done with them
    numeric        (optional) false where a numerical derivative says nothing (random draws, hard decisions); why is
                   said in the note
    requires       (optional) packages besides TensorFlow and NumPy that the programs import; skipped without one

`fixtures/healthy/<family>/*.py` are programs that look broken and are not.
"""

from __future__ import annotations

import ast
import math
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from program_runner import ProgramRunner, Record, close, interpreter

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
CASES = sorted(path.parent for path in FIXTURES.glob("TAP*/*/case.toml"))
HEALTHY = sorted(FIXTURES.glob("healthy/*/*.py"))
NEEDED = {"title": str, "lines": list, "fix": str, "forward_equal": bool, "partial": bool, "graph": bool, "note": str}
OPTIONAL = {"also": list, "raises": str, "misused": bool, "numeric": bool, "requires": list}
#: the families of rules: the first digits of their codes, and the folder of the programs that look alike
FAMILIES = {
    "TAP1": "written_in_place",
    "TAP2": "leaving_tensorflow",
    "TAP3": "control_and_operations",
    "TAP4": "control_and_operations",
    "TAP5": "the_tape",
    "TAP6": "weights_and_sources",
}
ENOUGH = 30


def named(path: pathlib.Path) -> str:
    return path.relative_to(FIXTURES).with_suffix("").as_posix()


def facts(case: pathlib.Path) -> dict[str, Any]:
    return tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))


each_case = pytest.mark.parametrize("case", CASES, ids=named)
runs = [
    pytest.mark.slow,
    pytest.mark.tensorflow,
    pytest.mark.skipif(interpreter() is None or sys.platform == "win32", reason="needs TensorFlow and fork"),
]


def runs_programs(function: Any) -> Any:
    for mark in runs:
        function = mark(function)
    return function


@pytest.fixture(scope="module")
def runner() -> Iterator[ProgramRunner]:
    with ProgramRunner() as ready:
        yield ready


@each_case
def test_case_is_described(case: pathlib.Path) -> None:
    said = facts(case)
    for key, kind in NEEDED.items():
        assert isinstance(said.get(key), kind), f"{key} is missing or no {kind.__name__}"
    unknown = set(said) - set(NEEDED) - set(OPTIONAL)
    assert not unknown
    assert all(isinstance(said[key], kind) for key, kind in OPTIONAL.items() if key in said)
    assert said["fix"] in ("safe", "judgement", "report-only")
    before = (case / "before.py").read_text(encoding="utf-8")
    statements = {node.lineno for node in ast.walk(ast.parse(before)) if isinstance(node, (ast.stmt, ast.expr))}
    assert said["lines"]
    assert set(said["lines"]) <= statements, "a line of `lines` holds no code"
    fixed = (case / "fixed.py").read_text(encoding="utf-8")
    assert ast.dump(ast.parse(fixed)) != ast.dump(ast.parse(before))
    assert "unconnected_gradients" not in fixed, "zeros in place of None are no repair"


def test_every_rule_is_of_a_family() -> None:
    assert {case.parent.name[:4] for case in CASES} == set(FAMILIES)


@pytest.mark.parametrize(("codes", "folder"), FAMILIES.items())
def test_family_has_enough_of_both_kinds(codes: str, folder: str) -> None:
    cuts = [case for case in CASES if case.parent.name.startswith(codes)]
    look_alikes = [program for program in HEALTHY if program.parent.name == folder]
    assert min(len(cuts), len(look_alikes)) >= ENOUGH, f"{len(cuts)} cuts, {len(look_alikes)} look-alikes"


@runs_programs
@each_case
def test_before_loses_a_gradient_and_fixed_has_them_all(case: pathlib.Path, runner: ProgramRunner) -> None:
    said = facts(case)
    before, fixed = runner.run(case / "before.py"), runner.run(case / "fixed.py")
    skip_without_packages(said, before)
    assert_trains(fixed)
    if "raises" in said:
        assert said["raises"] in (before["error"] or "no error")
        reached = [call for call in before["calls"] if call["line"]]
        refused = "GradientTape" in said["raises"] or said.get("misused", False)  # the tape itself gives none
        assert not reached or refused or any(call["none"] for call in reached), "the error is not the lost gradient's"
    else:
        assert before["error"] is None
        lost = [name for call in before["calls"] for name in call["none"]]
        if said["partial"]:
            assert not lost
            assert norms_differ(before, fixed), "the gradients of before.py are those of fixed.py"
        else:
            assert lost or zeros_come_alive(before, fixed), "before.py gets every gradient"
    if said["forward_equal"]:
        first, second = first_loss(before), first_loss(fixed)
        assert math.isclose(first, second, rel_tol=2e-5, abs_tol=1e-7)


@runs_programs
@each_case
def test_fixed_gradient_is_the_numerical_derivative(case: pathlib.Path, runner: ProgramRunner) -> None:
    if not facts(case).get("numeric", True):
        pytest.skip("case.toml: no numerical derivative")
    if "requires" in facts(case):
        skip_without_packages(facts(case), runner.run(case / "fixed.py"))
    try:
        slope, differences = runner.slope(case / "fixed.py")
    except LookupError:
        pytest.skip("the sources are watched tensors")
    assert any(close(slope, difference) for difference in differences), f"gradient {slope}, differences {differences}"


@runs_programs
@pytest.mark.parametrize("program", HEALTHY, ids=named)
def test_healthy_program_trains(program: pathlib.Path, runner: ProgramRunner) -> None:
    assert_trains(runner.run(program))


def skip_without_packages(said: dict[str, Any], record: Record) -> None:
    missing = [name for name in said.get("requires", []) if f"No module named '{name}" in (record["error"] or "")]
    if missing:
        pytest.skip(f"needs {missing[0]}")


def assert_trains(record: Record) -> None:
    assert record["error"] is None
    assert record["calls"], "no gradient call"
    assert not [(call["line"], call["none"]) for call in record["calls"] if call["none"]]
    assert all(math.isfinite(norm) for call in record["calls"] for norm in call["norms"])


def first_loss(record: Record) -> float:
    return next(float(call["loss"]) for call in record["calls"] if call["loss"] is not None)


def norms_differ(before: Record, fixed: Record) -> bool:
    """Whether any gradient differs in the first call of a place that asks for gradients."""
    return any(
        not math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-7)
        for one, other in zip(first_calls(before), first_calls(fixed), strict=False)
        for a, b in zip(one["norms"], other["norms"], strict=False)
    )


def zeros_come_alive(before: Record, fixed: Record) -> bool:
    """Whether a gradient that is zero in before.py (`sign`, an untaken branch of a graph) is another in fixed.py."""
    return any(
        a == 0.0 and b != 0.0
        for one, other in zip(first_calls(before), first_calls(fixed), strict=False)
        for a, b in zip(one["norms"], other["norms"], strict=False)
    )


def first_calls(record: Record) -> list[dict[str, Any]]:
    """The first call of each line that has numbers, in order of appearance: a graph is traced without any."""
    seen: dict[int, dict[str, Any]] = {}
    for call in record["calls"]:
        if call["norms"] or call["none"]:
            seen.setdefault(call["line"], call)
    return list(seen.values())
