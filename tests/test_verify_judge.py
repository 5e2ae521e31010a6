"""The verdict is the first that holds, in the order of the contract, and so is the exit status."""

import dataclasses

import pytest

from tapefix.verify.judge import judge
from tapefix.verify.launch import Ended, Exited, Flooded, OutOfMemory, Signalled, TimedOut
from tapefix.verify.options import StaticFinding
from tapefix.verify.outcome import Report, Verdict
from tapefix.verify.trace import SeenCall, SeenCause, SeenError, SeenVariable, Trace


def call(*statuses, line=10, kind="gradient", loss=1.0, names="abcdef"):
    variables = tuple(
        SeenVariable(f"{name}/kernel", name, (2, 2), "float32", status, 0.0 if status == "zero" else 1.0)
        for name, status in zip(names, statuses, strict=False)
    )
    return SeenCall("/p/train.py", line, kind, loss, variables)


def cause(line=5, names=(), partial=False, sure=True, code="TAP201", at=("/p/train.py", 10)):
    return SeenCause(code, "/p/train.py", line, 1, "cut", "", tuple(names), at, partial, (), sure)


def trace(*calls, error=None, finished="finished"):
    return Trace(tensorflow="2", processes=1, calls=list(calls), error=error, finished=finished)


DONE = Exited(0)


def judged(record, causes=(), end=DONE, findings=(), output=""):
    return judge(record, Ended(end, output, 1.0, 0), list(causes), findings)


def report(judgement):
    return Report(
        "t", "p", "c", "2", "3", "i", judgement.verdict, judgement.error, judgement.gradients, judgement.causes
    )


RAISED = SeenError("ValueError", "no gradients", "/p/train.py", 12)


@pytest.mark.parametrize(
    ("record", "causes", "end", "verdict", "status"),
    [
        (trace(call("ok", "ok")), (), Exited(0), "ok", 0),
        (trace(call("ok", "none")), (), Exited(0), "none", 1),
        (trace(call("none"), error=RAISED), (), Exited(1), "none", 1),
        (trace(call("none")), (), TimedOut(3.0), "timeout", 2),
        (trace(call("ok")), (cause(names=["a/kernel"], partial=True),), Exited(0), "partial", 1),
        (trace(call("ok", "nonfinite")), (cause(names=["a/kernel"], partial=True),), Exited(0), "partial", 1),
        (trace(call("zero", "nonfinite")), (cause(names=["a/kernel"]),), Exited(0), "nonfinite", 1),
        (trace(call("zero")), (cause(names=["a/kernel"]),), Exited(0), "zero", 1),
        (trace(call("zero"), error=RAISED), (cause(names=["a/kernel"]),), Exited(1), "zero", 1),
        (trace(call("zero")), (), Exited(0), "ok", 0),
        (trace(call("zero"), error=RAISED), (), Exited(1), "error", 2),
        (trace(error=RAISED), (cause(at=None),), Exited(1), "error", 1),
        (trace(error=RAISED), (), Exited(1), "error", 2),
        (trace(), (), Exited(0), "no-gradient-call", 2),
        (trace(), (), Exited(3), "error", 2),
        (trace(call("ok")), (), Signalled(11), "error", 2),
        (trace(call("ok")), (), OutOfMemory(1 << 30), "error", 2),
        (trace(call("ok")), (), Flooded(1 << 20), "error", 2),
        (trace(call()), (), Exited(0), "none", 1),
        (trace(call(kind="fit")), (), Exited(0), "ok", 0),
    ],
)
def test_the_first_verdict_that_holds(record, causes, end, verdict, status):
    found = judged(record, causes, end)
    assert found.verdict is Verdict(verdict)
    assert report(found).exit_status == status


def test_a_variable_that_is_none_in_one_call_of_several_is_none():
    (gradient,) = judged(trace(call("ok", "ok"), call("none", "ok"), call("ok", "ok"))).gradients
    assert [v.status for v in gradient.variables] == ["none", "ok"]
    assert gradient.variables[0].note == "None in 1 of 3 calls"
    assert gradient.times == 3


def test_a_variable_is_zero_only_when_it_is_zero_in_every_call():
    (gradient,) = judged(trace(call("zero", "zero"), call("ok", "zero"))).gradients
    assert [v.status for v in gradient.variables] == ["ok", "zero"]
    assert gradient.variables[1].note == "the gradient is all zero"


def test_sources_of_one_name_are_told_apart_by_their_order():
    (gradient,) = judged(trace(call("ok", "none", names="aa"), call("ok", "none", names="aa"))).gradients
    assert [v.status for v in gradient.variables] == ["ok", "none"]


def test_a_cause_goes_to_the_variables_it_names_at_its_gradient_call():
    causes = [cause(5, ["a/kernel"]), cause(7, ["a/kernel"], at=("/p/train.py", 20))]
    found = judged(trace(call("none", "none"), call("none", line=20)), causes)
    first, second = found.gradients
    assert [v.cause and v.cause.line for v in first.variables] == [5, None]
    assert [v.cause and v.cause.line for v in second.variables] == [7]


@pytest.mark.parametrize(("graph", "verdict", "listed"), [(True, "ok", 0), (False, "partial", 1)])
def test_a_float_in_a_graph_is_a_cast_and_no_partial_cut(graph, verdict, listed):
    seen = dataclasses.replace(cause(names=["a/kernel"], partial=True), how="python-number")
    found = judged(trace(dataclasses.replace(call("ok"), graph=graph)), [seen])
    assert (found.verdict, len(found.causes)) == (Verdict(verdict), listed)


def test_each_cause_is_listed_once_and_the_sure_ones_come_first():
    causes = [cause(9, ["a/kernel"], sure=False), cause(5, ["a/kernel"]), cause(5, ["b/kernel"])]
    found = judged(trace(call("none", "none")), causes)
    assert [(c.line, c.sure) for c in found.causes] == [(5, True), (9, False)]


def test_a_finding_at_the_cause_gives_it_the_repair():
    finding = StaticFinding("TAP201", "/p/train.py", 4, 5, repair="safe")
    elsewhere = StaticFinding("TAP201", "/p/train.py", 40, 40, repair="unsafe")
    found = judged(trace(call("none")), [cause(5, ["a/kernel"])], findings=[elsewhere, finding])
    assert found.causes[0].repair == "safe"
    assert found.gradients[0].variables[0].cause == found.causes[0]


def test_the_first_loss_that_is_a_number_counts():
    (gradient,) = judged(trace(call("ok", loss=None), call("ok", loss=0.25))).gradients
    assert gradient.loss == 0.25
    assert gradient.losses == (None, 0.25)


def test_a_command_that_fails_without_an_exception_tells_its_last_line():
    error = judged(trace(), end=Exited(2), output="one\nERROR not found: tests\n\n").error
    assert error is not None
    assert error.message == "the process ended with exit status 2: ERROR not found: tests"


def test_a_run_ended_by_the_probe_is_no_error():
    assert judged(trace(call("ok"), finished="steps"), end=Exited(1)).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("record", "note"),
    [
        (Trace(), "no Python process of this run could be observed"),
        (trace(finished="exit"), "the program left by sys.exit or os._exit before any gradient call"),
        (Trace(processes=1, finished="finished"), "the program never imported TensorFlow"),
    ],
)
def test_no_gradient_call_says_what_may_be_the_reason(record, note):
    assert judged(record).notes == (note,)


def test_owners_are_counted_over_all_places():
    found = judged(trace(call("ok", "none"), call("none", "none", line=20, names="ac")))
    assert report(found).owners() == {"a": (0, 1), "b": (0, 1), "c": (0, 1)}
