"""Partial cuts as the command line verifies them, trace and findings together, and look-alikes that stay silent."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path

import pytest

from tapefix.cli.verify import options_of
from tapefix.config import load_config
from tapefix.runner import load_tools
from tapefix.verify import Verdict, verify
from tapefix.verify.interpreter import choose
from tapefix.verify.runner import Runner

PROGRAMS = Path(__file__).parent / "partial_programs"
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]
pytest.importorskip("tensorflow")


def programs(kind):
    return [pytest.param(path, id=path.stem) for path in sorted((PROGRAMS / kind).glob("*.py"))]


@pytest.fixture(scope="module")
def runner():
    """One warm process for all programs, with the options of the command line."""
    config = load_config(PROGRAMS)
    options = options_of(config, load_tools(config))
    with Runner(choose(sys.executable, "", PROGRAMS, options.environ), options) as shared:
        yield shared


@pytest.fixture
def report_on(runner, tmp_path):
    """Verifies a copy of a program, in a project of its own."""

    def run(path):
        options = dataclasses.replace(runner.options, cwd=tmp_path)
        return verify(Path(shutil.copy(path, tmp_path)), options, runner)

    return run


@pytest.mark.parametrize("path", programs("cut"))
def test_a_partial_cut_is_named_at_its_line(report_on, path):
    lines = path.read_text().splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if "# cut here" in text]
    report = report_on(path)
    assert (report.verdict, report.exit_status) == (Verdict.PARTIAL, 1)
    assert line in [cause.line for cause in report.causes]
    assert len(report.causes) <= 4


@pytest.mark.parametrize("path", programs("whole"))
def test_a_program_that_detaches_on_purpose_is_whole(report_on, path):
    report = report_on(path)
    assert (report.verdict, report.causes) == (Verdict.OK, ())


def test_there_are_twenty_of_each():
    assert all(len(programs(kind)) >= 20 for kind in ("cut", "whole"))
