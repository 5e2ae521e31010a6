"""What makes new Variables each time it runs, itself or in what it calls: layers, models, optimizers, tf.Variable."""

from __future__ import annotations

import ast

from tapefix.flow import Model
from tapefix.flow.objects import Bound, ClassObject, Function, Instance, Layer
from tapefix.flow.values import Value

_VARIABLES = frozenset({"Variable", "add_weight", "add_variable", "get_variable"})
_LIBRARY_MAKERS = (".layers.", ".models.", ".applications.", ".optimizers.")


def makes_variables(model: Model, node: ast.AST) -> ast.Call | None:
    """A call within `node` that makes Variables, directly or in a function or constructor that it runs."""
    seen: set[ast.AST] = set()
    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
    return next((call for call in calls if _makes(model, call, seen)), None)


def _makes(model: Model, call: ast.Call, seen: set[ast.AST]) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    api = model.api_of(call.func)
    if name in _VARIABLES or _is_library_maker(api):
        return True
    value = model.value_of(call)
    made = value.refs if value is not None else []
    if any(isinstance(ref, (Layer, Instance)) and _made_at(ref, call) and _is_keras(ref) for ref in made):
        return True
    function = model.value_of(call.func)
    return any(_runs_a_maker(model, ref, seen) for ref in (function.refs if function is not None else []))


def _is_library_maker(api: str) -> bool:
    """Whether a library's name is a class, such as `keras.layers.Dense`, and no function or initializer."""
    last = api.rpartition(".")[2]
    return last[:1].isupper() and any(word in api for word in _LIBRARY_MAKERS) and "initializers" not in api


def _made_at(made: Layer | Instance, call: ast.Call) -> bool:
    return made.spot is not None and made.spot.node is call


def _is_keras(made: Layer | Instance) -> bool:
    return isinstance(made, Layer) or made.is_keras()


def _runs_a_maker(model: Model, ref: object, seen: set[ast.AST]) -> bool:
    match ref:
        case Bound(function=Value(refs=refs)):
            return any(_runs_a_maker(model, inner, seen) for inner in refs)
        case Function(node=node):
            body: ast.AST | None = node
        case ClassObject() as cls:
            found = cls.find("__init__")
            return found is not None and any(_runs_a_maker(model, inner, seen) for inner in found[1].refs)
        case _:
            return False
    if body is None or body in seen:
        return False
    seen.add(body)
    return any(_makes(model, n, seen) for n in ast.walk(body) if isinstance(n, ast.Call))
