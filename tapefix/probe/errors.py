"""What an error says about the gradient: raised before a None could be seen, or in its place.

The texts are those of TensorFlow 2.3 to 2.21 and of Keras 2 and 3. An error that only follows from a None
(`'NoneType' object has no attribute 'numpy'`) is no cause and is not listed.
"""

from __future__ import annotations

import ast
import linecache
import re
from typing import Any, Callable, List, Optional, Tuple

from . import graph as g
from .codes import Verdict, statement, verdict

Place = Tuple[str, int]
_SYMBOLIC = r"(Symbolic|Keras)?Tensor'? object"


def explain_error(error: BaseException, place: Optional[Place]) -> Optional[Tuple[Verdict, Place]]:
    """The code and the place of the cause that an error tells of, or None."""
    if place is None:
        return None
    text = f"{type(error).__name__}: {error}"
    for pattern, judge in _PATTERNS:
        if re.search(pattern, text):
            return judge(error, place)
    return None


def _judged(code: str, how: str, message: str) -> Callable[[BaseException, Place], Tuple[Verdict, Place]]:
    return lambda error, place: (Verdict(code, how, message), place)


def _leaves(error: BaseException, place: Place) -> Tuple[Verdict, Place]:
    """A value was to leave the graph: the statement tells how."""
    return verdict(g.Reason(g.EXPORT, "__array__", place, (), via=_call_in(statement(*place)))), place


def _call_in(text: str) -> str:
    found = re.search(r"\b(np|numpy|math)\.(?:\w+\.)*(\w+)\(", text)
    return f"{'math' if found.group(1) == 'math' else 'numpy'}.{found.group(2)}" if found else ""


def _branches(error: BaseException, place: Place) -> Tuple[Verdict, Place]:
    """A tensor in a graph was asked for its truth, or iterated over."""
    text = statement(*place).lstrip()
    if text.startswith("while") or "terating" in str(error):
        message = (
            "a Python loop over a tensor's value cannot run in a graph, and the value that decides gets no gradient"
        )
        return Verdict("TAP304", "predicate-loop", message), place
    message = (
        "a Python branch on a tensor's value cannot run in a graph; run eagerly, the branch not taken gets no gradient"
    )
    return Verdict("TAP301", "predicate", message), place


def _made_anew(error: BaseException, place: Place) -> Tuple[Verdict, Place]:
    if re.search(r"\bVariable\(", statement(*place)):
        return Verdict("TAP103", "variable-made", "a tf.Variable made in each call starts anew from a value"), place
    return Verdict("TAP605", "variable-made", "layers or Variables are made anew in every call"), place


def _replica(error: BaseException, place: Place) -> Tuple[Verdict, Place]:
    if re.search(r"\b(predict|predict_on_batch|evaluate|fit|test_on_batch)\(", statement(*place)):
        return Verdict(
            "TAP204", "predict", "predict() cannot run inside a training step; call the model instead"
        ), place
    return Verdict("TAP608", "wrong-call", "this call belongs outside the step that the strategy runs"), place


def _rebound(error: BaseException, place: Place) -> Tuple[Verdict, Place]:
    """`w = w - lr * g` made a tensor of a Variable: point at that line, if the statement's name tells it."""
    message = "a Variable was rebound to a tensor: the tape does not watch it any more; use assign_sub"
    found = re.match(r"\s*([\w.]+)\.assign", statement(*place))
    line = _rebinding(place, found.group(1)) if found else None
    return Verdict("TAP601", "rebound", message), (place[0], line or place[1])


def _rebinding(place: Place, name: str) -> Optional[int]:
    try:
        tree = ast.parse("".join(linecache.getlines(place[0])))
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            if any(_dotted(target) == name for target in node.targets):
                return node.lineno
    return None


def _dotted(node: Any) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


_PATTERNS: List[Tuple[str, Callable[[BaseException, Place], Tuple[Verdict, Place]]]] = [
    (r"Cannot convert a symbolic|symbolic.*(to a |as )numpy|Calling `?__array__|KerasTensor.*[Nn]um[Pp]y", _leaves),
    (rf"{_SYMBOLIC} has no attribute '(numpy|item|tolist|eval)'|numpy\(\) is only available when eager", _leaves),
    (r"(float|int|complex)\(\) argument must be .*(Symbolic|Keras|)Tensor|__(float|int|index)__.*Tensor", _leaves),
    (r"Tensor' object cannot be interpreted as an integer|must be real number, not \w*Tensor", _leaves),
    (
        r"OperatorNotAllowedInGraphError|[Uu]sing a (symbolic )?`?(tf\.Tensor|KerasTensor)`? as a Python `?bool`?",
        _branches,
    ),
    (r"only supports singleton tf.Variables|tried to create variables on non-first call", _made_anew),
    (r"cannot add new elements of state \(variables or sub-layers\)", _made_anew),
    (r"requires being in cross-replica context", _replica),
    (r"Tensor' object has no attribute 'assign(_sub|_add)?'", _rebound),
    (
        r"non-persistent GradientTape can only be used",
        _judged("TAP503", "tape-used-twice", "a tape that is not persistent gives its gradients once"),
    ),
    (
        r"Passed in object .*KerasTensor|Passed in object .* not tf\.Tensor",
        _judged(
            "TAP501", "unwatched", "a symbolic input cannot be watched: watch the tensor that the model is called with"
        ),
    ),
    (
        r"not enough values to unpack \(expected 2, got 0\)",
        _judged("TAP603", "empty-sources", "there are no gradients to apply: the list of sources was empty"),
    ),
    (
        r"gradient registry has no entry for",
        _judged("TAP408", "counted", "the target depends on an operation that has no gradient at all"),
    ),
]
