"""Starts the runs of a verification, limits them, and leaves nothing of them behind.

    python keeper.py FD plain            starts commands
    python keeper.py FD warm PROBE       imports TensorFlow once, then forks for each job (PROBE: the probe's folder)

FD is one end of a Unix stream socket. Messages are JSON objects, one a line. A request comes with one file
descriptor, the run's standard output and error; the answer tells how the run ended. One run at a time.
When the other end closes, for whatever reason, everything started here is killed.

On Linux the keeper is a "child subreaper" (prctl(2)): what a run forks, however detached, stays below the keeper
and is found. Elsewhere only the run's process group is killed. Runs with Python 3.8 and newer, standard library only.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from typing import Any, Dict, List, Optional, Set, Tuple

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_TICK = 0.25  # seconds between two looks at a run's memory
_HERE = os.path.dirname(os.path.abspath(__file__))
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Channel:
    """Messages over the socket, with file descriptors."""

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self._text = b""
        self._fds: List[int] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, **message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Optional[Tuple[Dict[str, Any], List[int]]]:
        """The next message and the descriptors that came with it; None when the other end has closed."""
        while b"\n" not in self._text:
            data, extra, _, _ = self.socket.recvmsg(65536, socket.CMSG_LEN(4 * array.array("i").itemsize))
            for level, kind, payload in extra:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds = array.array("i")
                    fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                    self._fds += list(fds)
            if not data:
                return None
            self._text += data
        line, self._text = self._text.split(b"\n", 1)
        fds_now, self._fds = self._fds, []
        return json.loads(line), fds_now


def main(argv: List[str]) -> None:
    channel = Channel(int(argv[1]))
    os.set_inheritable(channel.fileno(), False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    probe = None
    if argv[2] == "warm":
        probe = _warm_up(channel, argv[3])
        if probe is None:
            return
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    channel.send(ready=True, modules=sorted({name.partition(".")[0] for name in sys.modules}))
    while True:
        message = channel.receive()
        if message is None:
            return
        request, fds = message
        if "limits" not in request:
            continue  # a "kill" that came after the run had ended
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            _become(request, fds[0], [channel.fileno(), wake_read, wake_write], probe)
        os.close(fds[0])
        answer = _watch(pid, request["limits"], channel, wake_read)
        answer["stragglers"] = _clear(pid)
        channel.send(**answer)
        if answer.get("closed"):
            return


def _warm_up(channel: Channel, folder: str) -> Any:
    """Imports TensorFlow, runs no operation; None (after saying so) where that is not to be had."""
    try:
        import load  # type: ignore[import-not-found]
        import tensorflow as tf  # type: ignore[import-untyped,unused-ignore]

        _ = tf.keras.layers.Dense  # Keras is loaded on first use
        return load.load_probe(folder, everything=True)
    except BaseException as error:
        channel.send(ready=False, message="%s: %s" % (type(error).__name__, error))
        return None


def _become(request: Dict[str, Any], output: int, close: List[int], probe: Any) -> None:
    """In the fork: takes on the limits, the environment and the output, and runs. Does not return."""
    status = 1
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        for fd in {null, output, *close} - {0, 1, 2}:
            os.close(fd)
        os.chdir(request["cwd"])
        _limit(request["limits"])
        if "argv" in request:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            try:
                os.execvpe(request["argv"][0], request["argv"], request["env"])
            except OSError as error:
                print("%s: %s" % (request["argv"][0], error.strerror), file=sys.stderr)
                status = 127
        else:
            status = _run_job(request, probe)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):  # closed, or nobody reads any more
                pass
        os._exit(status)


def _run_job(request: Dict[str, Any], probe: Any) -> int:
    """Runs a job of the probe's in this forked process; the exit status."""
    import guard  # type: ignore[import-not-found]

    for name in ("guard", "load"):  # the user may have modules of these names
        sys.modules.pop(name, None)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # as found before the fork; AutoGraph writes there, and the guard would refuse it
    with open(request["job"], encoding="utf-8") as file:
        job = json.load(file)
    sys.path[:0] = request["path"]
    guard.install(request["run"])
    try:
        return int(probe.run(job) or 0)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1


def _limit(limits: Dict[str, Any]) -> None:
    for name, key in (("RLIMIT_AS", "memory"), ("RLIMIT_CPU", "cpu"), ("RLIMIT_FSIZE", "file_size")):
        if limits.get(key) is not None:
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            most = limits[key] if hard == resource.RLIM_INFINITY else min(limits[key], hard)
            resource.setrlimit(number, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is then an OSError that names it


def _watch(pid: int, limits: Dict[str, Any], channel: Channel, wake: int) -> Dict[str, Any]:
    """Waits for the run; kills it when its time or memory is used up, or when asked to."""
    deadline = time.monotonic() + limits["wall"]
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            signalled = os.WIFSIGNALED(status)
            return {"signal": os.WTERMSIG(status)} if signalled else {"code": os.WEXITSTATUS(status)}
        left = deadline - time.monotonic()
        if left <= 0:
            return {"timeout": limits["wall"]}
        if limits.get("memory") is not None and _memory(limits["memory"]) > limits["memory"]:
            return {"memory": limits["memory"]}
        ready, _, _ = select.select([channel.fileno(), wake], [], [], min(left, _TICK))
        if wake in ready:
            os.read(wake, 4096)
        if channel.fileno() in ready:
            message = channel.receive()
            return {"killed": message[0].get("kill")} if message else {"closed": True}


def _clear(pid: int) -> int:
    """Kills the run's process group and everything that descends from it; how many outlived the run itself."""
    found: Set[int] = set()
    for _ in range(400):
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        below = _descendants(os.getpid())
        for other in below:
            try:
                os.kill(other, signal.SIGKILL)
            except ProcessLookupError:
                pass
        found |= set(below) - {pid}
        if not _reap() and not below:
            break
        select.select([], [], [], 0.005)
    return len(found)


def _reap() -> bool:
    """Collects the dead; True while there are children left."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return True
        except ChildProcessError:
            return False


def _processes() -> Dict[int, Tuple[int, str]]:
    """Process id -> (parent, state); empty where there is no /proc."""
    found = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    fields = file.read().rsplit(b")", 1)[1].split()
            except (OSError, IndexError):  # it ended meanwhile
                continue
            found[int(name)] = int(fields[1]), fields[0].decode()
    return found


def _descendants(ancestor: int) -> List[int]:
    """The living processes below `ancestor`."""
    processes = _processes()
    below = {ancestor}
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in processes.items() if parent in below} - below
        grown = bool(more)
        below |= more
    return [pid for pid in below - {ancestor} if processes.get(pid, (0, "Z"))[1] != "Z"]


def _memory(limit: int) -> int:
    """Bytes that the run and what descends from it hold. Pages that forks share are told apart only where needed."""
    below = _descendants(os.getpid())
    resident = sum(_resident(pid) for pid in below)
    return resident if resident <= limit else sum(_proportional(pid) for pid in below)


def _resident(pid: int) -> int:
    try:
        with open("/proc/%d/statm" % pid, "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    """The resident bytes, each page divided by the number of processes that share it."""
    try:
        with open("/proc/%d/smaps_rollup" % pid, "rb") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    except OSError:
        return _resident(pid)


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
        except (OSError, AttributeError):  # another C library: the process group remains
            pass


if __name__ == "__main__":
    main(sys.argv)
