"""What is wrapped in TensorFlow and Keras in every mode, and where the versions keep it."""

from __future__ import annotations

import functools
import importlib
import inspect
from types import ModuleType
from typing import Any, Dict, Iterator, List, Optional, Union

from .frames import caller
from .gradients import Recorder
from .stop import EndOfFit, Stopper

Hooks = Dict[str, Union[bool, str]]  # name of the hook: True, or why it does not work
KERAS = ("keras", "tf_keras", "tensorflow.python.keras")  # Keras 3 and 2, tf-keras, TensorFlow 2.3 to 2.5


def attempt(hooks: Hooks, name: str, install: Any) -> None:
    """Installs one hook and notes whether it works; a hook that does not is told, not fatal."""
    try:
        install()
        hooks[name] = True
    except Exception as failure:
        hooks[name] = f"{type(failure).__name__}: {failure}"


def hook_tensorflow(tf: Any, recorder: Recorder, stopper: Stopper) -> Hooks:
    """Wraps GradientTape, and tf.function so that what graphs measure is read and they can be ended."""
    hooks: Hooks = {}
    attempt(hooks, "gradient-tape", lambda: recorder.hook_tape(tape_class()))
    attempt(hooks, "tf-function", lambda: _hook_function(function_class(), recorder, stopper))
    return hooks


def tape_class() -> Any:
    """The class behind tf.GradientTape."""
    from tensorflow.python.eager import backprop

    return backprop.GradientTape


def function_class() -> Any:
    """The class that tf.function makes."""
    for name in ("polymorphic_function.polymorphic_function", "def_function"):
        try:
            return importlib.import_module(f"tensorflow.python.eager.{name}").Function
        except (ImportError, AttributeError):
            continue
    raise ImportError("tf.function's class is in neither of the known modules")


def _hook_function(function: Any, recorder: Recorder, stopper: Stopper) -> None:
    init, call = function.__init__, function.__call__
    names = [name for name in ("jit_compile", "experimental_compile") if name in inspect.signature(init).parameters]

    @functools.wraps(init)
    def without_xla(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in names:  # XLA can't call back into Python
            if kwargs.get(name):
                kwargs[name] = None
        init(self, *args, **kwargs)

    @functools.wraps(call)
    def checked_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        stopper.check()
        try:
            return call(self, *args, **kwargs)
        finally:
            recorder.ran()

    function.__init__, function.__call__ = without_xla, checked_call


def hook_keras(module: ModuleType, recorder: Recorder, stopper: Stopper, eager: bool) -> Hooks:
    """Wraps the optimizers, `compile` and `fit`. `eager`: models are compiled to run eagerly."""
    hooks: Hooks = {}
    name = module.__name__

    def optimizers() -> None:
        for optimizer in _defining(_optimizers(module), "apply_gradients"):
            recorder.hook_optimizer(optimizer)

    attempt(hooks, f"{name}-optimizer", optimizers)
    attempt(hooks, f"{name}-fit", lambda: _hook_fit(model_class(module), stopper))
    attempt(hooks, f"{name}-compile", lambda: _hook_compile(model_class(module), eager))
    return hooks


def model_class(module: ModuleType) -> Any:
    """Keras's Model; by its full path where the package's own name is not ready yet."""
    model = getattr(module, "Model", None) or getattr(getattr(module, "models", None), "Model", None)
    return model or importlib.import_module(f"{module.__name__}.engine.training").Model


def _optimizers(module: ModuleType) -> Iterator[Any]:
    package = getattr(module, "optimizers", None) or importlib.import_module(f"{module.__name__}.optimizers")
    for holder in (package, getattr(package, "legacy", None)):
        found = getattr(holder, "Optimizer", None)
        if found is not None:
            yield found
    try:
        yield importlib.import_module(f"{module.__name__}.optimizer_v2.optimizer_v2").OptimizerV2
    except (ImportError, AttributeError):
        pass


def _defining(classes: Iterator[Any], name: str) -> List[Any]:
    """The classes that really define the method, each once."""
    found: List[Any] = []
    for cls in classes:
        for base in cls.__mro__:
            if name in vars(base) and base not in found:
                found.append(base)
    return found


def _hook_fit(model: Any, stopper: Stopper) -> None:
    owner = _defining(iter([model]), "fit")[0]
    fit = owner.fit

    @functools.wraps(fit)
    def shortened_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        with stopper.fitting(stopper.code.place(caller())):
            try:
                return fit(self, *args, **kwargs)
            except EndOfFit:
                stopper.shortened = True
                return _history(self, bool(kwargs.get("validation_data") or kwargs.get("validation_split")))

    owner.fit = shortened_fit


def _history(model: Any, validated: bool) -> Optional[Any]:
    """The History of a fit that was cut short, with what its one epoch would have put there."""
    history = getattr(model, "history", None)
    try:
        results = {name: float(value) for name, value in model.get_metrics_result().items()}
    except Exception:  # Keras 2, or metrics that are no numbers
        try:
            results = {metric.name: float(metric.result()) for metric in model.metrics}
        except Exception:
            results = {"loss": 0.0}
    record = getattr(history, "history", None)
    if isinstance(record, dict):
        for name, value in results.items():
            for key in (name, f"val_{name}") if validated else (name,):
                record.setdefault(key, [value])
        history.epoch = getattr(history, "epoch", None) or [0]  # type: ignore[union-attr]
    return history


def _hook_compile(model: Any, eager: bool) -> None:
    owner = _defining(iter([model]), "compile")[0]
    compile_ = owner.compile
    parameters = inspect.signature(compile_).parameters
    takes_anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    @functools.wraps(compile_)
    def recorded_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "jit_compile" in parameters:
            kwargs["jit_compile"] = False
        if eager and ("run_eagerly" in parameters or takes_anything):
            kwargs["run_eagerly"] = True
        return compile_(self, *args, **kwargs)

    owner.compile = recorded_compile
