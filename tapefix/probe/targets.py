"""Starts what is to be run: a script, a module, a callable or a model class with synthetic input."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import inspect
import os
import runpy
import sys
import types
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from . import tensors
from .events import Events
from .numeric import check

Compile = Callable[[bytes, str], Any]


class Numeric:
    """Compares the gradients of a target that can be computed again with numerical ones, and tells."""

    def __init__(self, events: Events, recorder: Any, seed: Optional[int]) -> None:
        self._events, self._recorder, self._seed = events, recorder, seed

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing is recorded inside."""
        recorder = self._recorder()
        recorder._inside += 1
        try:
            yield
        finally:
            recorder._inside -= 1

    def __call__(
        self, owner: Any, sources: Sequence[Any], gradients: Sequence[Any], loss: Callable[[], Optional[float]]
    ) -> None:
        import tensorflow as tf

        def seeded() -> Optional[float]:
            if self._seed is not None:
                tf.random.set_seed(self._seed)
            return loss()

        with self.quiet():
            arrays = [g if g is None else tensors.dense(g) for g in gradients]
            found = check(seeded, sources, arrays, _text(owner))
        if "message" in found:
            self._events.emit("note", **found)
        else:
            file, line = inspect.getsourcefile(owner), inspect.getsourcelines(owner)[1] or 1
            self._events.emit("numeric", file=file, line=line, **found)


def _text(owner: Any) -> str:
    """The source of the module that computes the target."""
    try:
        return inspect.getsource(sys.modules[owner.__module__])
    except (OSError, TypeError, KeyError):
        return ""


def run_target(
    target: Mapping[str, Any], root: str, compile_source: Compile, numeric: Optional[Numeric] = None
) -> None:
    """Runs the target to its end in this process, as `python` would."""
    start = {"script": _script, "module": _module, "callable": _callable, "model": _model}.get(str(target["kind"]))
    if start is None:
        raise ValueError(f"unknown kind of target: {target['kind']!r}")
    start(target, root, compile_source, numeric)


def _script(target: Mapping[str, Any], root: str, compile_source: Compile, numeric: Optional[Numeric]) -> None:
    path = os.path.abspath(target["path"])
    sys.argv = [path, *(target.get("args") or [])]
    sys.path.insert(0, os.path.dirname(path))
    with open(path, "rb") as file:
        source = file.read()
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins, __spec__=None, __package__=None, __cached__=None)
    sys.modules["__main__"] = main
    exec(compile_source(source, path), main.__dict__)


def _module(target: Mapping[str, Any], root: str, compile_source: Compile, numeric: Optional[Numeric]) -> None:
    sys.path.insert(0, root)
    sys.argv = [target["module"], *(target.get("args") or [])]
    runpy.run_module(target["module"], run_name="__main__", alter_sys=True)


def _named(target: Mapping[str, Any], root: str) -> Any:
    sys.path.insert(0, root)
    sys.argv = [root]
    found: Any = importlib.import_module(target["module"])
    for part in str(target["name"]).split("."):
        found = getattr(found, part)
    return found


class _Enough(BaseException):
    """Raised in a function that is run again, once it asks for its gradient."""


def _callable(target: Mapping[str, Any], root: str, compile_source: Compile, numeric: Optional[Numeric]) -> None:
    import tensorflow as tf

    function = _named(target, root)
    asked: List[Any] = []
    with _asking(tf, asked, stop=False), tf.GradientTape(persistent=True) as tape:
        result = function()
        watched = tape.watched_variables()
    if asked:
        if numeric is not None:
            _check_asking(tf, function, asked[0], numeric)
        return
    goals = _goals(tf, result)
    if goals and watched:  # the callable is the loss itself
        sources = list(watched)
        grads = _differentiate(function, tape, goals, sources, vars(sys.modules[target["module"]]))
        if numeric is not None:
            numeric(function, sources, grads, lambda: tensors.total(_goals(tf, function())))


def _goals(tf: Any, result: Any) -> List[Any]:
    return [t for t in tf.nest.flatten(result) if tf.is_tensor(t) and t.dtype.is_floating]


@contextlib.contextmanager
def _asking(tf: Any, asked: List[Any], stop: bool) -> Iterator[None]:
    """Collects (target, sources, gradients, values of the sources) of each gradient call.

    `stop` ends the function at the first one, before the gradient.
    """
    import numpy as np

    gradient = tf.GradientTape.gradient

    def noted(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        if stop:
            asked.append((target, tf.nest.flatten(sources), None, None))
            raise _Enough
        result = gradient(self, target, sources, *args, **kwargs)
        flat = tf.nest.flatten(sources)
        values = [] if asked or not tf.executing_eagerly() else [np.array(tf.convert_to_tensor(s)) for s in flat]
        asked.append((target, flat, tf.nest.flatten(result), values))
        return result

    tf.GradientTape.gradient = noted
    try:
        yield
    finally:
        tf.GradientTape.gradient = gradient


def _check_asking(tf: Any, function: Any, call: Any, numeric: Numeric) -> None:
    """Checks the first gradient that a function has asked for; its target is computed by running it up to there."""
    _, sources, grads, values = call
    for source, value in zip(sources, values):  # the function may have trained them since
        if hasattr(source, "assign"):
            source.assign(value)

    def loss() -> Optional[float]:
        again: List[Any] = []
        with _asking(tf, again, stop=True):
            try:
                function()
            except _Enough:
                pass
        same = again and [id(s) for s in again[0][1]] == [id(s) for s in sources]
        return tensors.total(tf.nest.flatten(again[0][0])) if same else None

    numeric(function, sources, grads, loss)


def _model(target: Mapping[str, Any], root: str, compile_source: Compile, numeric: Optional[Numeric]) -> None:
    import tensorflow as tf

    made = _named(target, root)
    owner = made if isinstance(made, type) else type(made)
    model = made() if isinstance(made, type) or inspect.isfunction(made) else made
    grads, goal = _model_gradients(tf, owner, model, target)
    if numeric is None:
        return
    with _double(tf, numeric):
        try:
            exact = made()
            exact_grads, exact_goal = _model_gradients(tf, owner, exact, target, "float64")
        except ValueError:  # a type that is written down somewhere, or an instance: single precision has to do
            exact = None
        if exact is not None:
            numeric(owner, exact.trainable_variables, exact_grads, lambda: tensors.total([exact_goal()]))
            return
    numeric(owner, model.trainable_variables, grads, lambda: tensors.total([goal()]))


@contextlib.contextmanager
def _double(tf: Any, numeric: Numeric) -> Iterator[None]:
    """Double precision for what Keras makes, and nothing recorded."""
    policies: Any = getattr(tf.keras, "mixed_precision", None)  # its own memory of the type, since TensorFlow 2.4
    kept = tf.keras.backend.floatx()
    policy = policies.global_policy() if hasattr(policies, "global_policy") else None
    tf.keras.backend.set_floatx("float64")
    if policy is not None:
        policies.set_global_policy("float64")
    try:
        with numeric.quiet():
            yield
    finally:
        tf.keras.backend.set_floatx(kept)
        if policy is not None:
            policies.set_global_policy(policy)


def _model_gradients(tf: Any, owner: Any, model: Any, target: Mapping[str, Any], floats: str = "") -> Any:
    """The gradients of a mean of squares of the model's outputs, and a function that computes it again."""
    dtypes = [floats if floats and name.startswith("float") else name for name in target.get("dtype") or []]
    shapes = target.get("input_shape")
    inputs = synthetic_inputs(tf, model, shapes, dtypes or ([floats] * len(shapes) if floats and shapes else None))
    if floats:
        inputs = [tf.cast(t, floats) if t.dtype.is_floating else t for t in inputs]
    arguments = inputs if len(inputs) == 1 else [inputs]
    model(*arguments)  # builds the weights before the tape

    def goal() -> Any:
        outputs = [t for t in tf.nest.flatten(model(*arguments)) if tf.is_tensor(t)]
        kind = tf.float64 if floats else tf.float32
        return tf.add_n([tf.reduce_mean(tf.square(tf.cast(out, kind))) for out in outputs])

    with tf.GradientTape() as tape:
        value = goal()
    grads = _differentiate(owner, tape, value, list(model.trainable_variables), {"model": model})
    return grads, goal


def _differentiate(owner: Any, tape: Any, goal: Any, sources: List[Any], known: Mapping[str, Any]) -> List[Any]:
    """Asks for the gradients from a line that stands for the user's: where the callable or class is defined.

    `known` are the names that variables are shown by.
    """
    path, line = inspect.getsourcefile(owner) or "<target>", inspect.getsourcelines(owner)[1] or 1
    code = compile("\n" * (line - 1) + "grads = ask()", path, "exec")
    names = {**known, "ask": lambda: tape.gradient(goal, sources)}
    exec(code, names)
    return list(names["grads"])


def synthetic_inputs(
    tf: Any, model: Any, shapes: Optional[List[List[Optional[int]]]], dtypes: Optional[List[str]]
) -> List[Any]:
    """Inputs of the wanted shapes, or of those that the model itself tells; unknown sizes become 2."""
    if not shapes:
        specs = _told_specs(tf, model)
    else:
        names = list(dtypes or []) + ["float32"] * len(shapes)
        specs = [(shape, name) for shape, name in zip(shapes, names)]
    if not specs:
        raise ValueError("the model does not tell the shape of its input: give --input-shape")
    made = []
    for shape, name in specs:
        known = [2 if size is None else int(size) for size in shape]
        dtype = tf.as_dtype(name)
        if dtype.is_floating:
            made.append(tf.random.stateless_normal(known, seed=(1, 2), dtype=dtype))
        else:
            made.append(tf.zeros(known, dtype))
    return made


def _told_specs(tf: Any, model: Any) -> List[Any]:
    """(shape, dtype) of each input, from `Input`, `input_signature` or what `build` was given."""
    inputs = getattr(model, "inputs", None)
    if inputs:
        return [(list(t.shape), getattr(t.dtype, "name", t.dtype)) for t in inputs]
    signature = getattr(getattr(type(model), "call", None), "input_signature", None)
    if signature:
        return [(list(spec.shape), spec.dtype.name) for spec in signature if hasattr(spec, "shape")]
    told: Dict[str, Any] = getattr(model, "_build_shapes_dict", None) or {}
    return [(list(shape), "float32") for shape in told.values() if isinstance(shape, (tuple, list))]
