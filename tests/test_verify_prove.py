"""What a repair must show by running before it counts as proven."""

from pathlib import Path

import pytest

from tapefix.verify.outcome import Cause, Gradient, NotProven, NotRun, Problem, Proven, Report, Variable, Verdict
from tapefix.verify.prove import changed_lines, weigh

HERE = Cause("TAP201", "/p/a.py", 5, 1, "cut")
ELSEWHERE = Cause("TAP101", "/p/a.py", 50, 1, "cut")
CHANGED = {"/p/a.py": [range(5, 6)]}


def variable(name, status="ok", cause=None, owner="m"):
    return Variable(name, owner, (2,), "float32", status, 1.0 if status == "ok" else None, cause)


def place(*variables, loss=1.0, line=10):
    return Gradient("/p/a.py", line, "gradient", 1, loss, variables)


def report(*gradients, verdict=None, error=None):
    status = {v.status for g in gradients for v in g.variables}
    worst = next((s for s in ("none", "partial", "nonfinite") if s in status), None)
    found = worst or ("error" if error else "ok" if gradients else "no-gradient-call")
    return Report(
        "a.py", "python", "own", "2", "3", "copy", Verdict(verdict or found), error, gradients, (), seconds=7.0
    )


ERROR = Problem("ValueError", "bad shape (3, 4)", "/p/a.py", 12)
BROKEN = report(place(variable("k", "none", HERE), variable("b")))
WHOLE = report(place(variable("k"), variable("b")))


def weighed(before, after, **options):
    return weigh(before, after, CHANGED, **options)


def test_a_gradient_that_came_back_with_the_same_loss_is_proven():
    assert weighed(BROKEN, WHOLE) == Proven(BROKEN, WHOLE)


def test_a_partial_gradient_that_became_whole_is_proven():
    before = report(place(variable("k", "partial", HERE)))
    assert isinstance(weighed(before, report(place(variable("k")))), Proven)


def test_a_gradient_that_is_still_none_is_not_proven_and_its_cause_is_told():
    after = report(place(variable("k", "none", ELSEWHERE), variable("b")))
    evidence = weighed(BROKEN, after)
    assert isinstance(evidence, NotProven)
    assert evidence.reason == "/p/a.py:10: the gradient of m (k) is still None: cut at /p/a.py:50 (TAP101)"


def test_another_cut_that_the_repair_is_not_about_may_stay():
    before = report(place(variable("k", "none", HERE), variable("b", "none", ELSEWHERE)))
    after = report(place(variable("k"), variable("b", "none", ELSEWHERE)))
    assert isinstance(weighed(before, after), Proven)


def test_a_repair_that_brings_nothing_back_is_not_proven():
    before = report(place(variable("k", "none", ELSEWHERE)))
    assert isinstance(weighed(before, before), NotProven)


def test_a_lost_gradient_is_not_proven():
    evidence = weighed(BROKEN, report(place(variable("k"), variable("b", "none"))))
    assert isinstance(evidence, NotProven)
    assert evidence.reason == "/p/a.py:10: the gradient of m (b) was there and is None"


def test_a_gradient_that_became_infinite_is_not_proven():
    evidence = weighed(BROKEN, report(place(variable("k", "nonfinite"), variable("b", "nonfinite"))))
    assert isinstance(evidence, NotProven)
    assert "not finite" in evidence.reason


def test_a_moved_loss_is_not_proven_unless_the_fix_says_that_it_moves():
    after = report(place(variable("k"), variable("b"), loss=1.1))
    evidence = weighed(BROKEN, after)
    assert isinstance(evidence, NotProven)
    assert evidence.reason == "the loss at /p/a.py:10 was 1 and is 1.1 (tolerance 1e-05)"
    told = weighed(BROKEN, after, forward_may_change=True)
    assert isinstance(told, Proven)
    assert told.note == "the loss at /p/a.py:10 was 1 and is 1.1, as this fix says it may"


def test_a_new_error_is_not_proven():
    after = report(place(variable("k"), variable("b")), error=ERROR)
    evidence = weighed(BROKEN, after)
    assert isinstance(evidence, NotProven)
    assert "raises ValueError at /p/a.py:12: bad shape (3, 4)" in evidence.reason


def test_the_error_that_a_none_raised_may_give_way_to_none_at_all():
    before = report(place(variable("k", "none", HERE)), error=Problem("ValueError", "No gradients", "/p/a.py", 11))
    assert isinstance(weighed(before, report(place(variable("k")))), Proven)


def test_an_error_that_was_there_before_may_stay():
    moved = Problem("ValueError", "bad shape (5, 6)", "/p/a.py", 14)
    before = report(place(variable("k", "none", HERE)), error=ERROR)
    assert isinstance(weighed(before, report(place(variable("k")), error=moved)), Proven)


def test_an_original_that_does_not_run_leaves_the_values_uncompared():
    evidence = weighed(report(error=ERROR), WHOLE)
    assert isinstance(evidence, Proven)
    assert evidence.note == (
        "the original does not run (ValueError at /p/a.py:12: bad shape (3, 4)): values could not be compared"
    )


def test_an_original_that_does_not_run_needs_a_repair_that_is_whole():
    assert isinstance(weighed(report(error=ERROR), BROKEN), NotProven)


def test_a_program_without_gradient_calls_shows_nothing():
    assert isinstance(weighed(report(), report()), NotRun)
    same_error = report(error=ERROR)
    evidence = weighed(same_error, same_error)
    assert isinstance(evidence, NotRun)
    assert evidence.reason.startswith("it fails before any gradient call, repaired or not: ValueError")


def test_a_repair_that_asks_for_no_gradient_any_more_is_not_proven():
    assert isinstance(weighed(BROKEN, report()), NotProven)


def test_a_run_that_does_not_end_is_not_run():
    evidence = weighed(BROKEN, report(place(variable("k")), verdict="timeout"))
    assert isinstance(evidence, NotRun)


def test_sources_that_the_repair_removes_are_matched_by_name():
    before = report(place(variable("dense/k", "none", HERE), variable("dense_1/k"), variable("dense_2/k")))
    after = report(place(variable("dense/k"), variable("dense_1/k")))
    assert isinstance(weighed(before, after), Proven)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (b"a\nb\nc\n", b"a\nx\nc\n", [range(2, 3)]),
        (b"a\nb\nc\n", b"a\nc\n", [range(2, 3)]),
        (b"a\nc\n", b"a\nb\nc\n", [range(2, 3)]),
        (b"a\n", b"a\n", []),
    ],
)
def test_changed_lines_are_those_of_the_original(old, new, lines):
    assert changed_lines({Path("/p/a.py"): old}, {Path("/p/a.py"): new}) == {"/p/a.py": lines}
