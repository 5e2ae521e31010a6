"""The hooks into TensorFlow that full tracing needs. Each checks itself when it is installed.

Private names used, each with a test of its own: `op_callbacks.add_op_callback`, `EagerTensor._numpy`, the buffer
protocol of EagerTensor, `BaseResourceVariable._handle`, `GradientTape._push_tape/_pop_tape`,
`backprop._gradient_function`, `record_operation`, `autograph.core.config.CONVERSION_RULES`.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import threading
from typing import Any, Callable, List, Optional, Sequence, Set

from .frames import UserCode, caller
from .library import Hooks, attempt, tape_class
from .record import Trace

_SHOWN = frozenset(["numpy_text", "__repr__", "__str__", "__format__", "_numpy_text"])  # printing takes nothing out
_KEEP: List[Any] = []  # ctypes objects that must outlive the hooks


def install(tf: Any, trace: Trace) -> Hooks:
    """Installs every hook; returns which work."""
    hooks: Hooks = {}
    attempt(hooks, "gradient-function", lambda: _hook_gradient_function(tf, trace))
    attempt(hooks, "variable-handle", lambda: _hook_handle(tf, trace))
    attempt(hooks, "numpy", lambda: _hook_numpy(tf, trace))
    attempt(hooks, "buffer", lambda: hook_buffer(tf, lambda tensor: trace.exported(tensor, "buffer")))
    attempt(hooks, "tapes", lambda: _hook_tapes(tf, trace))
    attempt(hooks, "custom-gradient", lambda: _hook_custom_gradient(trace))
    attempt(hooks, "autograph-rules", lambda: _hook_autograph(trace.code))
    attempt(hooks, "eager-functions", lambda: tf.config.run_functions_eagerly(True))
    attempt(hooks, "op-callbacks", lambda: _hook_operations(trace))
    return hooks


# ---------------------------------------------------------------------- operations
def _hook_operations(trace: Trace) -> None:
    from tensorflow.python.framework import op_callbacks

    def seen(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        # None leaves the outputs as they are: returned, the list of tf.split would become a tuple
        if graph is None and not trace.busy:
            op = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
            try:
                trace.operation(op, list(inputs), attrs, list(outputs or ()))
            except Exception as failure:  # never into the user's program
                trace.failures.add(f"{op}: {failure!r}")

    op_callbacks.add_op_callback(seen)
    trace.callback = lambda: op_callbacks.add_op_callback(seen)


def stop_recording() -> Callable[[], Any]:
    """TensorFlow's own context that keeps tapes from recording."""
    return recording_module("stop_recording").stop_recording  # type: ignore[no-any-return]


def recording_module(name: str) -> Any:
    """The module of TensorFlow's, by its version, that has a function on what tapes record."""
    for place in ("record", "tape"):
        try:
            module = importlib.import_module(f"tensorflow.python.eager.{place}")
        except ImportError:
            continue
        if hasattr(module, name):
            return module
    raise ImportError(f"{name} is in neither of the known modules")


def _hook_gradient_function(tf: Any, trace: Trace) -> None:
    from tensorflow.python.eager import backprop

    ask, stopped = backprop._gradient_function, stop_recording()

    def gradient_of(op: str, attrs: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Optional[Sequence[Any]]:
        with stopped():
            ones = [tf.ones_like(out) for out in outputs]
            found = ask(op, attrs, len(inputs), list(inputs), list(outputs), ones, (), "")
        return found if isinstance(found, (list, tuple)) else [found]

    one = tf.constant(1.0)
    with trace.unseen():
        if list(gradient_of("Round", ("T", one.dtype.as_datatype_enum), [one], [one]) or ()) != [None]:
            raise RuntimeError("Round is said to have a gradient")
    trace.gradient_of = gradient_of


def _hook_custom_gradient(trace: Trace) -> None:
    module = recording_module("record_operation")
    record = module.record_operation

    def recorded(op_type: Any, outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not trace.busy and trace.tapes:
            trace.custom(str(op_type), list(outputs), list(inputs))
        return record(op_type, outputs, inputs, *args, **kwargs)

    module.record_operation = recorded


# ---------------------------------------------------------------------- Variables
class _Handle:
    """A data descriptor over `_handle`: TensorFlow's C code fetches it to read the variable."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def __get__(self, variable: Any, owner: Any = None) -> Any:
        if variable is None:
            return self
        state = variable.__dict__
        try:
            handle = state["_handle"]
        except KeyError:
            raise AttributeError("_handle") from None
        if not self.trace.busy:
            self.trace.touched(handle, state.get("_shape"), state.get("_dtype"))
        return handle

    def __set__(self, variable: Any, handle: Any) -> None:
        variable.__dict__["_handle"] = handle
        if hasattr(handle, "_id"):
            self.trace.handles[handle._id] = handle


def _hook_handle(tf: Any, trace: Trace) -> None:
    import numpy as np
    from tensorflow.python.ops import gen_resource_variable_ops as raw
    from tensorflow.python.ops import resource_variable_ops

    stopped = stop_recording()
    resource_variable_ops.BaseResourceVariable._handle = _Handle(trace)

    def same_value(handle: int, dtype: Any, tensor: Any) -> bool:
        found = trace.handles.get(handle)
        if found is None:
            return False
        with stopped():
            now = np.asarray(raw.read_variable_op(found, dtype))
        there = np.asarray(tensor)
        return bool(now.ctypes.data == there.ctypes.data or np.array_equal(now, there))

    trace.same_value = same_value


# ---------------------------------------------------------------------- conversions
def eager_class(tf: Any) -> Any:
    """EagerTensor."""
    return type(tf.constant([1.0]))


def eager_numpy_class(tf: Any) -> Any:
    """The class that defines `_numpy` for EagerTensor."""
    return next(cls for cls in eager_class(tf).__mro__ if "_numpy" in vars(cls))


def _hook_numpy(tf: Any, trace: Trace) -> None:
    base = eager_numpy_class(tf)
    real = base._numpy

    def _numpy(self: Any) -> Any:
        if not trace.busy:
            frame = sys._getframe(1)
            name = frame.f_code.co_name
            if _captured(frame):
                if _chooses(trace) and not self.dtype.is_floating:  # tf.cond looks at its predicate this way
                    trace.exported(self, "truth", True)
            elif name not in _SHOWN:
                truth = name in ("__bool__", "__nonzero__")
                trace.exported(self, "truth" if truth else name, truth and _asked_by_user(trace, frame.f_back))
        return real(self)

    base._numpy = _numpy
    seen: List[str] = []
    exported = trace.exported

    def noted(tensor: Any, how: str, decides: bool = False) -> None:
        seen.append(how)

    trace.exported = noted  # type: ignore[method-assign]
    try:
        float(tf.constant(1.0))
    finally:
        trace.exported = exported  # type: ignore[method-assign]
    if not seen:
        raise RuntimeError("float() of a tensor is not seen")


def _captured(frame: Any) -> bool:
    """TensorFlow itself looks at a tensor that a graph captures (a loop inside a layer): the tape records that."""
    while frame is not None and frame.f_code.co_name in ("numpy", "_numpy"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name in ("constant_value", "_constant_value", "_capture_as_const")


def _asked_by_user(trace: Trace, frame: Any) -> bool:
    """The truth test is the user's own, or that of a conditional operation which they call."""
    while frame is not None and "probe" in frame.f_code.co_filename and not trace.code.owns(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None and trace.code.owns(frame.f_code.co_filename):
        return True
    return _chooses(trace)


def _chooses(trace: Trace) -> bool:
    """The library call that is running chooses by a value."""
    name = trace.contexts[-1].name.rpartition(".")[2] if trace.contexts else ""
    return name in ("cond", "case", "switch_case", "while_loop", "smart_cond", "switch", "any", "all")


def hook_buffer(tf: Any, exported: Callable[[Any], None]) -> None:
    """Replaces bf_getbuffer of EagerTensor: the door to NumPy that needs no Python call."""
    import numpy as np

    kind = eager_class(tf)
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    size = ctypes.sizeof(ctypes.c_void_p)
    procs = ctypes.c_void_p.from_address(id(kind) + 20 * size).value  # tp_as_buffer, slot 20 of PyTypeObject
    if not procs:
        raise RuntimeError("EagerTensor has no buffer protocol")
    slot = ctypes.c_void_p.from_address(procs)
    inner = prototype(slot.value or 0)
    seen: List[bool] = []

    def getbuffer(tensor: Any, view: Any, flags: int) -> int:
        try:
            seen.append(True) if not seen else exported(tensor)
        except Exception:
            pass
        return int(inner(tensor, view, flags))

    hook = prototype(getbuffer)
    old = slot.value
    slot.value = ctypes.cast(hook, ctypes.c_void_p).value
    _KEEP.extend([hook, inner])
    np.asarray(memoryview(tf.constant([1.0])))
    if not seen:
        slot.value = old
        raise RuntimeError("the buffer of a tensor is not reached through this slot")


# ---------------------------------------------------------------------- tapes
def _hook_tapes(tf: Any, trace: Trace) -> None:
    tape = tape_class()
    push, pop, watch = tape._push_tape, tape._pop_tape, tape.watch
    threads: Set[int] = {threading.get_ident()}

    def pushed(self: Any) -> Any:
        if threading.get_ident() not in threads:  # callbacks belong to a thread
            threads.add(threading.get_ident())
            trace.callback()
        result = push(self)
        trace.tape_pushed(self)
        return result

    def popped(self: Any) -> Any:
        trace.tape_popped(self)
        return pop(self)

    def watched(self: Any, tensor: Any) -> Any:
        trace.tape_watched(self, tf.nest.flatten(tensor))
        return watch(self, tensor)

    tape._push_tape, tape._pop_tape, tape.watch = pushed, popped, watched


# ---------------------------------------------------------------------- AutoGraph
class _OwnRule:
    """Keras 2 converts `call`, losses and metrics even in eager mode, and the user's frames would vanish."""

    def __init__(self, do_not_convert: Any, none: Any, code: UserCode) -> None:
        self._do_not_convert, self._none, self._code = do_not_convert, none, code

    def get_action(self, module: Any) -> Any:
        """Leaves the user's modules alone where Keras asks; elsewhere (tf.data) AutoGraph does as always."""
        if not self._code.owns(getattr(module, "__file__", None) or ""):
            return self._none
        frame = caller()
        while frame is not None:
            if "keras" in frame.f_code.co_filename:
                return self._do_not_convert
            if "data/ops" in frame.f_code.co_filename:
                return self._none
            frame = frame.f_back
        return self._none


def _hook_autograph(code: UserCode) -> None:
    from tensorflow.python.autograph.core import config, config_lib

    rule = _OwnRule(config_lib.Action.DO_NOT_CONVERT, config_lib.Action.NONE, code)
    config.CONVERSION_RULES = (rule, *config.CONVERSION_RULES)
