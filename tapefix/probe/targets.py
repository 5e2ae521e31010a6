"""Starts what is to be run: a script, a module, a callable or a model class with synthetic input."""

from __future__ import annotations

import builtins
import importlib
import inspect
import os
import runpy
import sys
import types
from typing import Any, Callable, Dict, List, Mapping, Optional

Compile = Callable[[bytes, str], Any]


def run_target(target: Mapping[str, Any], root: str, compile_source: Compile) -> None:
    """Runs the target to its end in this process, as `python` would."""
    start = {"script": _script, "module": _module, "callable": _callable, "model": _model}.get(str(target["kind"]))
    if start is None:
        raise ValueError(f"unknown kind of target: {target['kind']!r}")
    start(target, root, compile_source)


def _script(target: Mapping[str, Any], root: str, compile_source: Compile) -> None:
    path = os.path.abspath(target["path"])
    sys.argv = [path, *(target.get("args") or [])]
    sys.path.insert(0, os.path.dirname(path))
    with open(path, "rb") as file:
        source = file.read()
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins, __spec__=None, __package__=None, __cached__=None)
    sys.modules["__main__"] = main
    exec(compile_source(source, path), main.__dict__)


def _module(target: Mapping[str, Any], root: str, compile_source: Compile) -> None:
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


def _callable(target: Mapping[str, Any], root: str, compile_source: Compile) -> None:
    import tensorflow as tf

    function = _named(target, root)
    asked = []
    gradient = tf.GradientTape.gradient

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(self)
        return gradient(self, *args, **kwargs)

    tf.GradientTape.gradient = noted
    try:
        with tf.GradientTape(persistent=True) as tape:
            result = function()
            watched = tape.watched_variables()
    finally:
        tf.GradientTape.gradient = gradient
    goals = [t for t in tf.nest.flatten(result) if tf.is_tensor(t) and t.dtype.is_floating]
    if goals and watched and not asked:  # the callable is the loss itself
        _differentiate(function, tape, goals, list(watched), vars(sys.modules[target["module"]]))


def _model(target: Mapping[str, Any], root: str, compile_source: Compile) -> None:
    import tensorflow as tf

    made = _named(target, root)
    model = made() if isinstance(made, type) or inspect.isfunction(made) else made
    inputs = synthetic_inputs(tf, model, target.get("input_shape"), target.get("dtype"))
    arguments = inputs if len(inputs) == 1 else [inputs]
    model(*arguments)  # builds the weights before the tape
    with tf.GradientTape() as tape:
        outputs = tf.nest.flatten(model(*arguments))
        goal = tf.add_n([tf.reduce_mean(tf.square(tf.cast(out, tf.float32))) for out in outputs if tf.is_tensor(out)])
    _differentiate(made if isinstance(made, type) else type(model), tape, goal, list(model.trainable_variables), {"model": model})


def _differentiate(owner: Any, tape: Any, goal: Any, sources: List[Any], known: Mapping[str, Any]) -> None:
    """Asks for the gradients from a line that stands for the user's: where the callable or class is defined.

    `known` are the names that variables are shown by.
    """
    path, line = inspect.getsourcefile(owner) or "<target>", inspect.getsourcelines(owner)[1] or 1
    code = compile("\n" * (line - 1) + "tape.gradient(goal, sources)", path, "exec")
    exec(code, {**known, "tape": tape, "goal": goal, "sources": sources})


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
