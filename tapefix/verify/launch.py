"""Starts runs. Everything of the user's is executed below the one process that `start` starts."""

from __future__ import annotations

import array
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapefix.errors import TapefixError
from tapefix.verify.options import Limits

INSIDE = Path(__file__).parent / "inside"
PROBE = Path(__file__).parent.parent / "probe"
#: what is kept of a run's output, in bytes: so much of its beginning, so much of its end
_HEAD, _TAIL = 16 << 10, 64 << 10
_WARM_UP = 180.0  # seconds that importing TensorFlow may take


@dataclass(frozen=True)
class Exited:
    """The run ended itself with this exit status."""

    code: int


@dataclass(frozen=True)
class Signalled:
    """A signal ended it: a crash in compiled code, or the CPU limit (SIGXCPU)."""

    number: int


@dataclass(frozen=True)
class TimedOut:
    """It was still running after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class OutOfMemory:
    """Its processes together held more than so many bytes."""

    limit: int


@dataclass(frozen=True)
class Flooded:
    """It wrote more than so many bytes to its output."""

    limit: int


@dataclass(frozen=True)
class Lost:
    """The process that watches over the run died with it."""


End = Exited | Signalled | TimedOut | OutOfMemory | Flooded | Lost


@dataclass(frozen=True)
class Ended:
    """How a run ended, what it wrote, how long it took (seconds), how many processes it left (they were killed)."""

    end: End
    output: str
    seconds: float
    stragglers: int


@dataclass(frozen=True)
class PlainRun:
    """A command in a process of its own."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class ForkedRun:
    """A job of the probe's (its file) in a fork of the warm process; `path` goes in front of sys.path."""

    job: Path
    run: Mapping[str, Any]
    path: tuple[str, ...]


class NotWarm(Exception):
    """There is no warm process to be had; the message says why."""


def start(interpreter: str, warm: bool, environ: Mapping[str, str]) -> Keeper:
    """Starts the process below which the user's code runs. The only place where that happens; a sandbox goes here.

    Raises NotWarm where TensorFlow cannot be imported beforehand.
    """
    if os.name != "posix":
        raise TapefixError("verify needs a POSIX system (Linux, macOS, WSL): it limits runs by process groups")
    ours, theirs = socket.socketpair()
    how = ["warm", str(PROBE)] if warm else ["plain"]
    with theirs:
        process = subprocess.Popen(
            [interpreter if warm else sys.executable, "-u", str(INSIDE / "keeper.py"), str(theirs.fileno()), *how],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
            env=dict(environ),
        )
    keeper = Keeper(process, ours)
    ready = keeper.answer(_WARM_UP)
    if ready is None or not ready.get("ready"):
        keeper.close()
        reason = "importing TensorFlow took too long or ended the process" if ready is None else ready["message"]
        raise NotWarm(reason) if warm else TapefixError(f"the run could not be started: {reason}")
    keeper.modules = frozenset(ready.get("modules", ())) - {"guard", "load"}
    return keeper


class Keeper:
    """Our end of a keeper process (tapefix/verify/inside/keeper.py). One run at a time; close it when done."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket):
        self._process, self._channel = process, channel
        self._text = b""
        #: the top-level modules that a fork finds imported already
        self.modules: frozenset[str] = frozenset()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the keeper and whatever it has started."""
        self._channel.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def run(self, what: PlainRun | ForkedRun, cwd: Path, environ: Mapping[str, str], limits: Limits) -> Ended:
        """Runs to the end, or to a limit; nothing of the run is left when this returns."""
        request: dict[str, Any] = {
            "cwd": str(cwd),
            "env": dict(environ),
            "limits": {
                "wall": limits.wall, "cpu": limits.cpu, "memory": limits.memory, "file_size": limits.file_size,
            },
        }  # fmt: skip
        if isinstance(what, PlainRun):
            request["argv"] = list(what.argv)
        else:
            request.update(job=str(what.job), run=dict(what.run), path=list(what.path))
        read, write = os.pipe()
        started = time.monotonic()
        output = _Output(read, limits.output)
        try:
            try:
                self._send(request, write)
            except OSError:
                return Ended(Lost(), "", 0.0, 0)
            finally:
                os.close(write)
            answer = self._follow(output)
        finally:
            os.close(read)
        seconds = time.monotonic() - started
        if answer is None:
            self.close()
            return Ended(Lost(), output.text(), seconds, 0)
        return Ended(_end(answer, limits), output.text(), seconds, int(answer.get("stragglers", 0)))

    def _send(self, message: Mapping[str, Any], fd: int | None = None) -> None:
        data = json.dumps(message).encode() + b"\n"
        if fd is not None:
            rights = array.array("i", [fd])
            sent = self._channel.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            data = data[sent:]
        self._channel.sendall(data)

    def _follow(self, output: _Output) -> dict[str, Any] | None:
        """Collects output until the answer is there; asks for an end when there is too much of it."""
        told = False
        while True:
            ready, _, _ = select.select([self._channel.fileno(), output.fd], [], [])
            if output.fd in ready and not output.read():
                return self.answer(None)
            if output.flooded and not told:
                self._send({"kill": "output"})
                told = True
            if self._channel.fileno() in ready:
                answer = self.answer(None)
                os.set_blocking(output.fd, False)
                while output.read():
                    pass
                return answer

    def answer(self, seconds: float | None) -> dict[str, Any] | None:
        """The keeper's next message; None if it has died, or said nothing for so long."""
        self._channel.settimeout(seconds)
        try:
            while b"\n" not in self._text:
                data = self._channel.recv(65536)
                if not data:
                    return None
                self._text += data
        except OSError:  # a timeout, a reset
            return None
        finally:
            self._channel.settimeout(None)
        line, self._text = self._text.split(b"\n", 1)
        found = json.loads(line)
        assert isinstance(found, dict)
        return found


class _Output:
    """A run's output: beginning and end are kept, the middle is counted and dropped."""

    def __init__(self, fd: int, limit: int):
        self.fd, self._limit = fd, limit
        self._head, self._tail, self._count = b"", b"", 0

    @property
    def flooded(self) -> bool:
        return self._count > self._limit

    def read(self) -> bool:
        """Takes in what is there; False at the end of it."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return False
        self._count += len(data)
        room = _HEAD - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:])[-_TAIL:]
        return bool(data)

    def text(self) -> str:
        dropped = self._count - len(self._head) - len(self._tail)
        middle = f"\n[... {dropped} bytes ...]\n".encode() if dropped else b""
        return (self._head + middle + self._tail).decode("utf-8", "replace")


def _end(answer: Mapping[str, Any], limits: Limits) -> End:
    if "timeout" in answer:
        return TimedOut(float(answer["timeout"]))
    if "memory" in answer:
        return OutOfMemory(int(answer["memory"]))
    if "killed" in answer:
        return Flooded(limits.output)
    if "signal" in answer:
        return Signalled(int(answer["signal"]))
    return Exited(int(answer.get("code", 1)))


def has_gpu() -> bool:
    """True where a CUDA device is present: then address space cannot be limited, and a fork is not safe."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def command_of(interpreter: str, argv: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The command with `python` and installed tools (`pytest`) taken from the interpreter's own environment."""
    import shutil

    first = os.path.basename(argv[0])
    if first.startswith("python") and os.sep not in argv[0]:
        return (interpreter, *argv[1:])
    beside = Path(interpreter).parent / argv[0]
    if os.sep not in argv[0] and beside.exists():
        return (str(beside), *argv[1:])
    if os.sep not in argv[0] and first in ("pytest", "py.test"):
        return (interpreter, "-m", "pytest", *argv[1:])
    if os.sep not in argv[0] and shutil.which(argv[0], path=environ.get("PATH")) is None:
        raise TapefixError(f"{argv[0]}: no such command, neither beside {interpreter} nor on PATH")
    return tuple(argv)
