"""A run ends at its limits, in whatever way it tries not to, and leaves nothing running. (No TensorFlow here.)"""

import os
import signal
import sys
from pathlib import Path

import pytest

from tapefix.errors import TapefixError
from tapefix.verify.launch import (
    Exited,
    Flooded,
    NotWarm,
    OutOfMemory,
    PlainRun,
    Signalled,
    TimedOut,
    command_of,
    start,
)
from tapefix.verify.options import Limits

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and prctl(2)")
MIB = 1 << 20


@pytest.fixture(scope="module")
def keeper():
    with start(sys.executable, False, os.environ) as keeper:
        yield keeper


@pytest.fixture
def run(keeper, tmp_path):
    def runs(program, **limits):
        given = {"wall": 60.0, "memory": None, **limits}
        return keeper.run(PlainRun((sys.executable, "-c", program)), tmp_path, os.environ, Limits(**given))

    return runs


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_status_is_told(run, code):
    assert run(f"import sys; sys.exit({code})").end == Exited(code)


def test_a_crash_tells_its_signal(run):
    assert run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").end == Signalled(signal.SIGSEGV)


def test_a_command_that_does_not_exist_is_said(keeper, tmp_path):
    ended = keeper.run(PlainRun(("/no/such/program",)), tmp_path, os.environ, Limits())
    assert ended.end == Exited(127)
    assert "No such file" in ended.output


def test_output_and_errors_are_captured_in_order(run):
    program = "import sys; print('one', flush=True); print('two', file=sys.stderr, flush=True); print('three')"
    assert run(program).output == "one\ntwo\nthree\n"


def test_standard_input_is_empty(run):
    assert run("import sys; print(repr(sys.stdin.read()))").output == "''\n"


def test_a_run_that_hangs_is_ended(run):
    ended = run("while True: pass", wall=0.5)
    assert ended.end == TimedOut(0.5)


def test_a_run_that_ignores_signals_is_ended(run):
    program = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass"
    assert run(program, wall=0.5).end == TimedOut(0.5)


def test_cpu_time_is_limited(run):
    assert run("while True: pass", cpu=1).end in (Signalled(signal.SIGXCPU), Signalled(signal.SIGKILL))


def test_a_flood_is_ended_and_its_beginning_and_end_kept(run):
    ended = run("print('first')\nwhile True: print('x' * 1000)", output=5 * MIB)
    assert ended.end == Flooded(5 * MIB)
    assert ended.output.startswith("first\nxxx")
    assert len(ended.output) < 100_000


def test_much_output_below_the_limit_is_only_cut(run):
    ended = run("print('first'); print('x' * 1_000_000); print('last')")
    assert ended.end == Exited(0)
    assert ended.output.startswith("first\n")
    assert ended.output.endswith("\nlast\n")
    assert " bytes ...]" in ended.output


@LINUX
def test_the_address_space_of_a_process_is_limited(run):
    ended = run("bytearray(600 << 20)", memory=500 * MIB)
    assert ended.end == Exited(1)
    assert "MemoryError" in ended.output


@LINUX
def test_the_memory_of_all_processes_together_is_limited(run):
    program = (
        "import os\nfor _ in range(3): os.fork()\n"
        "held = bytearray(100 << 20)\nheld[::4096] = bytes(len(held[::4096]))\nwhile True: pass"
    )
    assert run(program, memory=400 * MIB).end == OutOfMemory(400 * MIB)


@LINUX
def test_pages_that_forks_share_count_once(run):
    program = (
        "import os\nheld = bytearray(b'x') * (100 << 20)\n"
        "children = [os.fork() for _ in range(3)]\n"
        "import time\nend = time.monotonic() + 0.8\nwhile time.monotonic() < end: pass"
    )
    assert run(program, memory=600 * MIB).end == Exited(0)


def test_the_size_of_a_file_is_limited(run, tmp_path):
    ended = run("f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 16))", file_size=MIB)
    assert ended.end == Exited(1)
    assert "File too large" in ended.output
    assert (tmp_path / "big").stat().st_size <= MIB


@LINUX
def test_processes_that_detach_themselves_are_ended_with_the_run(run, tmp_path):
    program = """
import os, signal
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open("pid", "w") as file:
            file.write(str(os.getpid()))
        os.write(write, b"x")
        while True:
            signal.pause()
    os._exit(0)
os.read(read, 1)
"""
    ended = run(program)
    assert ended.end == Exited(0)
    assert ended.stragglers == 1
    assert not alive(int((tmp_path / "pid").read_text()))


@LINUX
def test_closing_the_keeper_ends_a_run_that_is_going_on(tmp_path):
    program = """
import os, signal
os.write(1, b"%d" % os.getpid())
signal.pause()
"""
    keeper = start(sys.executable, False, os.environ)
    read, write = os.pipe()
    try:
        limits = {"wall": 60, "cpu": None, "memory": None, "file_size": None}
        argv = [sys.executable, "-c", program]
        keeper._send({"argv": argv, "cwd": str(tmp_path), "env": dict(os.environ), "limits": limits}, write)
        os.close(write)
        pid = int(os.read(read, 100))
        assert alive(pid)
        keeper.close()
        assert os.read(read, 100) == b""
        assert not alive(pid)
    finally:
        os.close(read)


def test_one_keeper_starts_many_runs(run):
    assert [run(f"print({i})").output for i in range(5)] == [f"{i}\n" for i in range(5)]


def test_no_warm_process_without_tensorflow(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('libcudart is missing')")
    with pytest.raises(NotWarm, match="ImportError: libcudart is missing"):
        start(sys.executable, True, {**os.environ, "PYTHONPATH": str(tmp_path)})


def test_tools_come_from_the_environment_of_the_interpreter(tmp_path):
    for name in ("python", "pytest"):
        (tmp_path / name).touch()
    python = str(tmp_path / "python")
    assert command_of(python, ["python3", "-m", "pkg"], {}) == (python, "-m", "pkg")
    assert command_of(python, ["pytest", "-q"], {}) == (str(tmp_path / "pytest"), "-q")
    (tmp_path / "pytest").unlink()
    assert command_of(python, ["pytest", "-q"], {}) == (python, "-m", "pytest", "-q")
    assert command_of(python, ["sh", "-c", "x"], os.environ) == ("sh", "-c", "x")
    with pytest.raises(TapefixError, match="no-such-tool: no such command"):
        command_of(python, ["no-such-tool"], os.environ)
