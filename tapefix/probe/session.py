"""One run of the user's program under observation, from the job to the last event."""

from __future__ import annotations

import atexit
import os
import platform
import random
import sys
import traceback
from types import ModuleType
from typing import Any, Callable, Dict, Mapping, Optional

from . import library, targets
from .causes import Causes
from .codes import Verdict
from .errors import explain_error
from .events import Events
from .frames import UserCode
from .gradients import Recorder
from .imports import AfterImport
from .instrument import compile_instrumented
from .stop import EndOfFit, EndOfRun, Stopper
from .tracer import Tracer
from .whole import Whole

_PATIENCE = 20.0  # seconds without a new gradient call before a run that has seen something is ended


class Session:
    """Installs the hooks, runs the target and tells how it ended."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = job
        self.target: Mapping[str, Any] = job["target"]
        self.explains = job.get("mode") == "explain"
        self.root = os.path.abspath(job.get("root") or os.getcwd())
        self.steps = int(job.get("steps") or 3)
        self.events = Events(job["out"], job.get("paths"))
        self.code = UserCode(self.root)
        self.stopper = Stopper(self.code, self.steps, float(job.get("patience") or _PATIENCE), self.finish)
        self.recorder: Optional[Recorder] = None
        self.causes = Causes(self.events, job.get("findings") or ())
        self.tracer: Optional[Tracer] = None
        self.whole = Whole(self.code)
        self.hooks: Dict[str, Any] = {}
        self.pid = os.getpid()
        self._started = self._ended = False

    # ------------------------------------------------------------------ start and end
    def install(self) -> None:
        """Seeds, then hooks: now for what is imported, later for what is not."""
        seed = self.job.get("seed")
        if seed is not None:
            random.seed(int(seed))
        if self.explains:
            self.tracer = Tracer(self.events, self.code, self.causes)
            self.tracer.instrument()
        callbacks: Dict[str, Callable[[ModuleType], None]] = {"tensorflow": self._tensorflow}
        callbacks.update(dict.fromkeys(library.KERAS, self._keras))
        if seed is not None:
            callbacks["numpy"] = self._numpy
        AfterImport(callbacks).install()
        leave = os._exit

        def told_exit(status: int) -> Any:
            if os.getpid() == self.pid:
                self.finish("exit")
            leave(status)

        os._exit = told_exit

    def _numpy(self, numpy: Any) -> None:
        numpy.random.seed(int(self.job["seed"]) % 2**32)

    def _tensorflow(self, tf: Any) -> None:
        if self.job.get("seed") is not None:
            tf.random.set_seed(int(self.job["seed"]))
        self.recorder = Recorder(tf, self.events, self.code, self.stopper, self.steps, self._empty)
        self.hooks.update(library.hook_tensorflow(tf, self.recorder, self.stopper))
        if self.tracer is not None:
            self.hooks.update(self.tracer.install(tf, self.recorder))
        else:
            self.hooks.update(self.whole.install(tf))
            self.recorder.aside = self.whole.unseen
            self.recorder.listeners.append(self.whole.asked)
        self.start(tf)
        for name in library.KERAS:
            if name in sys.modules and f"{name}-fit" not in self.hooks and hasattr(sys.modules[name], "Model"):
                self._keras(sys.modules[name])

    def _empty(self, place: Any) -> None:
        """A gradient call had no sources: what was asked for its variables before it had any is the cause."""
        made = self.tracer.values.empty if self.tracer is not None and self.tracer.values is not None else []
        where = next((event.place for event in reversed(made) if event.place), None)
        message = "the list of sources is empty: the variables were asked for before the model had any"
        related = [{"file": place[0], "line": place[1], "message": "the gradient is asked for here"}]
        self.causes.tell(
            Verdict("TAP603", "empty-sources", message), where or place, (), place, False, related if where else ()
        )

    def _keras(self, keras: Any) -> None:
        if self.recorder is None or f"{keras.__name__}-fit" in self.hooks:
            return
        hooks = library.hook_keras(keras, self.recorder, self.stopper, self.explains)
        self.hooks.update(hooks)
        for name, works in hooks.items():
            if works is not True:
                self.events.emit("note", message=f"the hook {name} does not work: {works}")

    def start(self, tf: Any = None) -> None:
        """Tells the versions and which hooks work."""
        if not self._started:
            self._started = True
            self.events.emit(
                "start",
                python=platform.python_version(),
                tensorflow=getattr(tf, "__version__", None),
                keras=_keras_version(tf),
                pid=os.getpid(),
                hooks=self.hooks,
            )

    def finish(self, reason: str) -> None:
        """Tells what is left to tell, once."""
        if self._ended or os.getpid() != self.pid:
            return
        self._ended = True
        self.start()
        if self.recorder is not None:
            self.recorder.finish()
        if self.tracer is not None:
            self.tracer.finish()
        self.causes.finish()
        self.events.emit("end", reason=reason, whole=not self.whole.lost)

    # ------------------------------------------------------------------ running
    def run(self) -> int:
        """Runs the target; returns the exit status that `python` would have given."""
        self.install()
        if self.target["kind"] == "child":
            self._attach()
            return 0
        status, reason = 0, "finished"
        try:
            targets.run_target(self.target, self.root, self._compile, self._numeric())
        except (EndOfRun, EndOfFit):
            reason = "steps"
        except SystemExit as stop:
            reason = "exit"
            status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
            if status:
                self._error(stop)
        except BaseException as error:
            status = 1
            self._error(error)
            self._show(error)
        self.finish(reason)
        return status

    def _numeric(self) -> Optional[targets.Numeric]:
        """What compares gradients with numerical ones, where the job asks for it."""
        if not self.job.get("numeric"):
            return None
        return targets.Numeric(self.events, lambda: self.recorder, self.job.get("seed"))

    def _attach(self) -> None:
        """Inside a command: the interpreter runs its own program, the probe only watches."""
        self.stopper.raising = False
        program = os.path.basename(sys.argv[0] if getattr(sys, "argv", None) else "")
        self.stopper.enabled = "test" not in program and "test" not in " ".join(getattr(sys, "orig_argv", [])[:4])
        shown = sys.excepthook

        def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
            self._error(error)
            shown(kind, error, trace)

        sys.excepthook = excepthook
        atexit.register(self.finish, "finished")

    def _compile(self, source: bytes, path: str) -> Any:
        if self.tracer is not None:
            try:
                return compile_instrumented(source, path)
            except (SyntaxError, ValueError, RecursionError):
                pass  # the plain compiler tells the user what is wrong
            except Exception as error:  # ours: the module is run as it is, and less of it is seen
                message = f"not followed through Python: {type(error).__name__}: {error}"
                self.events.emit("note", message=message, file=path, line=None)
        return compile(source, path, "exec", dont_inherit=True)

    def _error(self, error: BaseException) -> None:
        place = self.code.error_place(error)
        told: Dict[str, Any] = {"type": type(error).__name__, "message": str(error)[:2000]}
        if isinstance(error, SyntaxError) and error.filename:
            place = error.filename, error.lineno or 1
        file, line = place or (None, None)
        if self.stopper.shortened:
            message = f"after a fit that was ended early: {told['type']}: {told['message']}"
            self.events.emit("note", message=message, file=file, line=line)
        else:
            self.events.emit("error", file=file, line=line, **told)
            known = explain_error(error, place)
            if known is not None and known[0].code not in self.causes.told.values():
                self.causes.tell(*known)

    def _show(self, error: BaseException) -> None:
        """The traceback as the user would see it: without the probe's own frames."""
        trace = error.__traceback__
        while trace is not None and not self.code.owns(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace or error.__traceback__)


def _keras_version(tf: Any) -> Optional[str]:
    for name in ("keras", "tf_keras"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version:
            return str(version)
    if tf is None:
        return None
    if "tensorflow.python.keras" in sys.modules and hasattr(sys.modules["tensorflow.python.keras"], "__version__"):
        return str(sys.modules["tensorflow.python.keras"].__version__)
    try:
        from importlib.metadata import version as installed

        return installed("keras")
    except Exception:  # TensorFlow 2.3 brings its own Keras
        return None


def run(job: Mapping[str, Any]) -> int:
    """Runs one job in this process and returns the program's exit status."""
    return Session(job).run()
