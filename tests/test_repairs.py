"""What `apply` makes of each fixture really trains: every gradient is there, the first loss is what it was.

`fixtures/unrepaired.toml` names the cases that are known not to be repaired yet, each with the reason; a case that is
repaired after all must be taken off the list.
"""

from __future__ import annotations

import math
import pathlib
import shutil
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from program_runner import ProgramRunner, Record
from tapefix.config import Config
from tapefix.documents.workspace import Workspace
from tapefix.engine import fix_documents, is_safe
from tapefix.runner import load_tools
from test_fixtures_programs import (
    CASES,
    FIXTURES,
    HEALTHY,
    assert_trains,
    facts,
    first_calls,
    first_loss,
    named,
    runs_programs,
    skip_without_packages,
    tomllib,
)

UNREPAIRED: dict[str, str] = tomllib.loads((FIXTURES / "unrepaired.toml").read_text(encoding="utf-8"))["cases"]
REPAIRABLE = [case for case in CASES if facts(case)["fix"] != "report-only"]


@pytest.fixture(scope="module")
def runner() -> Iterator[ProgramRunner]:
    with ProgramRunner() as ready:
        yield ready


def repaired(program: pathlib.Path, folder: pathlib.Path, unsafe: bool) -> pathlib.Path:
    """A copy of the program in `folder`, with all wanted fixes applied."""
    copy = folder / program.name
    shutil.copy(program, copy)
    tools = load_tools(Config(root=folder, unsafe_fixes=unsafe))
    fixed = fix_documents(Workspace(), [str(copy)], tools, lambda proposal: unsafe or is_safe(proposal))
    copy.write_bytes(fixed.workspace.open(str(copy)).data)
    return copy


def test_the_list_names_cases_that_exist() -> None:
    assert set(UNREPAIRED) <= {named(case) for case in REPAIRABLE}


@pytest.mark.parametrize("program", HEALTHY, ids=named)
def test_healthy_program_stays_as_it_is(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert repaired(program, tmp_path, unsafe=True).read_bytes() == program.read_bytes()


@runs_programs
@pytest.mark.parametrize("case", REPAIRABLE, ids=named)
def test_repaired_program_trains(case: pathlib.Path, tmp_path: pathlib.Path, runner: ProgramRunner) -> None:
    problem = what_is_wrong(case, tmp_path, runner)
    if named(case) in UNREPAIRED:
        assert problem, "it is repaired: take it off fixtures/unrepaired.toml"
        assert "harm" not in problem, problem
        pytest.xfail(UNREPAIRED[named(case)])
    assert not problem, problem


def what_is_wrong(case: pathlib.Path, folder: pathlib.Path, runner: ProgramRunner) -> str:
    """Why the repair is none; "" where it is one."""
    said = facts(case)
    safe = said["fix"] == "safe"
    program = repaired(case / "before.py", folder, unsafe=not safe)
    if program.read_bytes() == (case / "before.py").read_bytes():
        return "not changed"
    expert = runner.run(case / "fixed.py")
    skip_without_packages(said, expert)
    after = runner.run(program)
    if after["error"] is not None:
        new = after["error"] != runner.run(case / "before.py")["error"]
        return f"{'harm: ' if new else ''}{after['error']}"
    try:
        assert_trains(after)
    except AssertionError as missing:
        return f"still None: {missing}"
    if said["forward_equal"] and not math.isclose(first_loss(after), first_loss(expert), rel_tol=2e-4, abs_tol=1e-5):
        return f"{'harm: ' if safe else ''}the loss moved from {first_loss(expert)} to {first_loss(after)}"
    if safe and said["forward_equal"] and other_gradients(after, expert):
        return "other gradients than the person's repair has"
    return ""


def other_gradients(after: Record, expert: Record) -> bool:
    """The norms as sets, since repairs may list their sources in another order."""
    for one, other in zip(first_calls(after), first_calls(expert), strict=False):
        ours, theirs = sorted(one["norms"]), sorted(other["norms"])
        if len(ours) != len(theirs):
            return True
        if any(not math.isclose(a, b, rel_tol=5e-3, abs_tol=1e-6) for a, b in zip(ours, theirs, strict=True)):
            return True
    return False
