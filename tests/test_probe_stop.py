"""When a run is over: each place seen often enough, and no other known of."""

from __future__ import annotations

import sys
import types

import pytest

from tapefix.probe.frames import UserCode
from tapefix.probe.stop import EndOfFit, EndOfRun, Stopper

PROGRAM = "grads = tape.gradient(loss, w)\nother = tape.gradient(\n    loss,\n    v,\n)\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    module = types.ModuleType("program")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "program", module)
    return str(path)


def stopper(program, steps=2, patience=60.0):
    ended = []
    return Stopper(UserCode(program.rpartition("/")[0]), steps, patience, ended.append)


def see(stop, program, line, times):
    for count in range(1, times + 1):
        stop.reached((program, line), count)


def test_a_run_goes_on_while_a_place_has_not_been_seen(program):
    stop = stopper(program)
    see(stop, program, 1, 5)
    stop.check()
    assert not stop.ending


def test_a_run_ends_when_every_place_has_been_seen_often_enough(program):
    stop = stopper(program)
    see(stop, program, 1, 2)
    see(stop, program, 3, 2)  # a line inside the second call
    with pytest.raises(EndOfRun):
        stop.check()


def test_a_run_ends_when_nothing_new_comes(program):
    stop = stopper(program, patience=-1.0)
    see(stop, program, 1, 2)
    assert stop.ending


def test_a_place_in_a_graph_that_has_not_run_is_waited_for(program):
    stop = stopper(program)
    stop.traced((program, 3))
    see(stop, program, 1, 2)
    assert not stop.ending


def test_only_the_fit_ends_when_other_places_are_to_come(program):
    stop = stopper(program)
    with stop.fitting((program, 7)):
        see(stop, program, 1, 2)
        with pytest.raises(EndOfFit):
            stop.check()
    assert not stop.ending


def test_the_run_end_is_no_exception_that_a_program_would_catch():
    assert not issubclass(EndOfRun, Exception)
    assert not issubclass(EndOfFit, Exception)


def test_looking_for_unseen_places_is_not_done_at_every_call(program, monkeypatch):
    stop = stopper(program)
    looks = []
    monkeypatch.setattr(stop, "done", lambda: bool(looks.append(1)))
    see(stop, program, 1, 500)
    assert 1 <= len(looks) <= 3
