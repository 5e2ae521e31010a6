"""Tells of a recorded run that nothing in it can be partial: every value that a tape followed stayed in its sight.

Looked for is all that `partial` could tell of, and nothing is explained: a value that a tape follows and that goes to
NumPy or Python, into a Variable, is rounded or becomes an integer or a truth value. Where it can't be seen (inside a
function that was traced before, in the body of a loop, behind a stopped tape, in another thread) it counts as seen.

Private names used, each with a test of its own: `op_callbacks.add_op_callback`, `EagerTensor._numpy`, the buffer
protocol of EagerTensor, `GradientTape._push_tape/_pop_tape`, `should_record_backprop`, `TFE_Py_TapeSetIsStopped`,
`TFE_Py_TapeSetStopOnThread`, `TFE_Py_TapeSetRestartOnThread`, `FuncGraph.outer_graph`.
"""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Sequence

from .frames import UserCode, caller
from .hooks import eager_numpy_class, hook_buffer, recording_module
from .library import Hooks, attempt, tape_class
from .partial import ROUNDS
from .record import SHAPES

_OPAQUE = re.compile(r"PartitionedCall|PyFunc|XlaLaunch|SymbolicGradient|RemoteCall")
_BODIES = frozenset("While StatelessWhile If StatelessIf Case StatelessCase".split())  # seen as they are traced
_WRITES = re.compile(r"Assign|Resource(?!Gather)")
# what the losses and layers of Keras, and these functions, compare or keep is theirs, and their gradient is right
_TRUSTED_FILES = re.compile(r"keras[\\/](src[\\/])?(losses[\\/.]|layers[\\/](?!core[\\/]lambda)\w+[\\/])")
_TRUSTED = frozenset(
    "sigmoid_cross_entropy_with_logits weighted_cross_entropy_with_logits reduce_logsumexp clip_by_norm "
    "clip_by_global_norm dropout dropout_v2 huber log_cosh".split()
)


class Whole:
    """Watches one run. `lost` once a value was seen that may go on without its gradient."""

    def __init__(self, code: UserCode) -> None:
        self.code = code
        self.lost = True  # until every hook works
        self._busy = False
        self._thread = threading.get_ident()
        self._tapes: List[Any] = []  # the graph in which each that records now was begun, None for eager code
        self._remove: Callable[[], None] = lambda: None

    def install(self, tf: Any) -> Hooks:
        """Hooks TensorFlow; returns which hooks work."""
        from tensorflow.python import pywrap_tfe

        hooks: Hooks = {}
        attempt(hooks, "whole-tapes", lambda: self._hook_tapes(tf, pywrap_tfe))
        attempt(hooks, "whole-numpy", lambda: self._hook_numpy(tf))
        attempt(hooks, "whole-buffer", lambda: hook_buffer(tf, self._left))
        attempt(hooks, "whole-operations", self._hook_operations)
        self.lost = any(works is not True for works in hooks.values())
        if self.lost:
            self._remove()
        return hooks

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What happens inside is the probe's own doing."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def asked(self, tape: Any, *_: Any) -> None:
        """A gradient was asked for: by another thread, or of no tape, is out of sight."""
        if tape is None or threading.get_ident() != self._thread:
            self.found()

    def found(self) -> None:
        """The run needs to be explained; there is no need to look on."""
        if not self.lost:
            self.lost = True
            self._remove()

    # ------------------------------------------------------------------ hooks
    def _hook_tapes(self, tf: Any, tfe: Any) -> None:
        follows = recording_module("should_record_backprop").should_record_backprop
        stopped, stop, restart = (
            tfe.TFE_Py_TapeSetIsStopped, tfe.TFE_Py_TapeSetStopOnThread, tfe.TFE_Py_TapeSetRestartOnThread,
        )  # fmt: skip

        def followed(tensors: Sequence[Any]) -> bool:
            if not stopped():
                return bool(follows(tensors))
            restart()  # a tape that is stopped answers no question
            try:
                return bool(follows(tensors))
            finally:
                stop()

        self._stopped, self._followed = stopped, followed
        tape = tape_class()
        push, pop = tape._push_tape, tape._pop_tape

        def pushed(this: Any) -> Any:
            self._tapes.append(None if tf.executing_eagerly() else tf.compat.v1.get_default_graph())
            if threading.get_ident() != self._thread:  # hooks into operations belong to a thread
                self.found()
            return push(this)

        def popped(this: Any) -> Any:
            if self._tapes:
                self._tapes.pop()
            return pop(this)

        tape._push_tape, tape._pop_tape = pushed, popped
        one = tf.constant(1.0)
        with tf.GradientTape() as tried:
            tried.watch(one)
            if not self._tapes or not followed([one]) or followed([tf.constant(2.0)]):
                raise RuntimeError("a tape does not tell what it follows")

    def _hook_numpy(self, tf: Any) -> None:
        base = eager_numpy_class(tf)
        real = base._numpy

        def _numpy(tensor: Any) -> Any:
            self._left(tensor)
            return real(tensor)

        base._numpy = _numpy

    def _hook_operations(self) -> None:
        from tensorflow.python.framework import op_callbacks

        def seen(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
            if self._busy or self.lost or not self._tapes:
                return
            op = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
            if self._loses(op, inputs, outputs or (), graph):
                self.found()

        op_callbacks.add_op_callback(seen)
        self._remove = lambda: op_callbacks.remove_op_callback(seen)

    # ------------------------------------------------------------------ what counts
    def _left(self, tensor: Any, *_: Any) -> None:
        if not self._busy and not self.lost and self._tapes and _floats(tensor) and self._followed([tensor]):
            self.found()

    def _loses(self, op: str, inputs: Sequence[Any], outputs: Sequence[Any], graph: Any) -> bool:
        """A followed value may go on from this operation without its gradient."""
        if op in SHAPES or op in _BODIES:
            return False
        given = [tensor for tensor in inputs if _floats(tensor)]
        if _OPAQUE.search(op):
            return bool(given) or any(tensor.dtype.name == "resource" for tensor in inputs)
        hidden = graph is not None and self._inside(graph)
        dark = self._stopped() and not hidden
        if not given or not (op in ROUNDS or dark or _WRITES.match(op) or any(_counts(out) for out in outputs)):
            return False
        return (hidden or self._followed(given)) and (op in ROUNDS or not self._trusted())

    def _inside(self, graph: Any) -> bool:
        """The graph of a body or a function within the tape: of its inputs it is not known what the tape follows."""
        if any(graph is known for known in self._tapes):
            return False
        outer = getattr(graph, "outer_graph", None)
        while outer is not None and not any(outer is known for known in self._tapes):
            outer = getattr(outer, "outer_graph", None)
        return outer is not None or any(known is None for known in self._tapes)

    def _trusted(self) -> bool:
        """It is a library's own doing: the first that is met on the way to the user's code."""
        frame = caller()
        while frame is not None:
            code = frame.f_code
            if code.co_name in _TRUSTED or _TRUSTED_FILES.search(code.co_filename):
                return True
            if self.code.owns(code.co_filename):
                return False
            frame = frame.f_back
        return False


def _floats(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _counts(tensor: Any) -> bool:
    return bool(tensor.dtype.is_integer or tensor.dtype.is_bool)
