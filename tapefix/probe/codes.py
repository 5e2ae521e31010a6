"""Which code of the catalogue a reason has, and how it is told to the user."""

from __future__ import annotations

import ast
import functools
import linecache
import re
import textwrap
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from . import graph as g


class Verdict(NamedTuple):
    """A code, the manner of the cut in the words of the flow model, and a sentence."""

    code: str
    how: str
    message: str


_LOST = "the tape does not record where the value came from"
_MADE_ARRAYS = frozenset(
    "array asarray asanyarray stack vstack hstack dstack column_stack concatenate append insert block tile".split()
)
_OTHERS = frozenset("scipy sklearn PIL cv2 pandas skimage torch jax statsmodels librosa numba sympy".split())
_LEAVING = {
    "numpy": ("TAP201", "to-numpy"),
    "eval": ("TAP201", "to-numpy"),
    "get_value": ("TAP201", "to-numpy"),
    "batch_get_value": ("TAP201", "to-numpy"),
    "convert_to_numpy": ("TAP201", "to-numpy"),
    "tolist": ("TAP201", "to-numpy"),
    "item": ("TAP201", "to-numpy"),
    "float": ("TAP203", "python-number"),
    "int": ("TAP203", "python-number"),
    "complex": ("TAP203", "python-number"),
    "bool": ("TAP203", "python-number"),
    "round": ("TAP203", "python-number"),
    "predict": ("TAP204", "predict"),
    "predict_on_batch": ("TAP204", "predict"),
    "predict_step": ("TAP204", "predict"),
    "evaluate": ("TAP204", "predict"),
    "test_on_batch": ("TAP204", "predict"),
    "constant": ("TAP205", "constant"),
    "convert_to_tensor": ("TAP205", "constant"),
    "numpy_function": ("TAP206", "py-function"),
    "py_function": ("TAP206", "py-function"),
    "py_func": ("TAP206", "py-function"),
    "from_tensor_slices": ("TAP206", "dataset"),
    "from_tensors": ("TAP206", "dataset"),
    "get_weights": ("TAP207", "weights-copied"),
    "set_weights": ("TAP207", "weights-copied"),
    "load_weights": ("TAP207", "weights-copied"),
}
_OPERATIONS: List[Tuple[str, str, str, str]] = [  # code, how, names of operations, what they do
    ("TAP401", "index-of", "ArgMax ArgMin TopKV2 TopK ArgSort SearchSorted LowerBound UpperBound InTopK InTopKV2",
     "gives positions, and a position has no gradient"),
    ("TAP402", "rounded", "Round Rint Floor Ceil FloorDiv Sign TruncateDiv FloorMod TruncateMod",
     "is flat almost everywhere: its gradient is None or zero"),
    ("TAP403", "compared", "Greater GreaterEqual Less LessEqual Equal NotEqual ApproximateEqual LogicalAnd LogicalOr "
     "IsNan IsInf IsFinite", "is a hard threshold: true or false has no gradient"),
    ("TAP404", "integer-cast", "Cast", "makes integers or booleans of it, which have no gradient"),
    ("TAP405", "one-hot", "OneHot", "has no gradient for the index it is given"),
    ("TAP406", "sampled", "Multinomial StatelessMultinomial RandomPoissonV2 RandomPoisson StatelessRandomPoisson "
     "StatelessRandomBinomial RandomGamma ParameterizedTruncatedNormal CTCGreedyDecoder",
     "draws from it, and the draw has no gradient"),
    ("TAP407", "stopped", "StopGradient PreventGradient", "stops the gradient here"),
    ("TAP206", "py-function", "PyFunc EagerPyFunc PyFuncStateless", "leaves TensorFlow for Python"),
    ("TAP303", "selection", "Where Select SelectV2 GatherV2 GatherNd ScatterNd StridedSlice DynamicPartition "
     "NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5",
     "uses it only to choose, and the choice has no gradient"),
]  # fmt: skip
_BY_OPERATION: Dict[str, Tuple[str, str, str]] = {
    name: (code, how, what) for code, how, names, what in _OPERATIONS for name in names.split()
}


def verdict(reason: g.Reason) -> Verdict:
    """Code, manner and message of one reason."""
    text = statement(*reason.place)
    special = {
        "untrainable": _untrainable,
        "integer": _integer,
        "made": _made,
        "unwatched": _unwatched,
        "late": _late,
        "after": _after,
        "rebound": _rebound,
        "outside": _outside,
        "decides": _decides,
        "undecided": _decides,
        "stored": _stored,
        "unread": _unread,
        "unused": _unused,
        "dead-end": _dead_end,
        g.WRITE: _written,
        g.STATE: _written,
        g.EXPORT: _exported,
    }.get(reason.kind, _operation)
    return special(reason, text)


def _last(via: str) -> str:
    return via.rpartition(".")[2]


def _untrainable(reason: g.Reason, text: str) -> Verdict:
    return Verdict(
        "TAP604",
        "wrong-sources",
        "a variable that is not trainable has no gradient: ask for `trainable_variables`, not `variables` or `weights`",
    )


def _unwatched(reason: g.Reason, text: str) -> Verdict:
    return Verdict(
        "TAP501",
        "unwatched",
        "the source is a tensor that the tape does not watch: make it a tf.Variable, or call tape.watch before its use",
    )


def _integer(reason: g.Reason, text: str) -> Verdict:
    return Verdict("TAP505", "wrong-sources", "a source of integer type has no gradient: make it a float")


def _made(reason: g.Reason, text: str) -> Verdict:
    message = "this makes new weights in every call; those that the gradient is asked for are not the ones in use"
    return Verdict("TAP605", "variable-made", message)


def _late(reason: g.Reason, text: str) -> Verdict:
    return Verdict("TAP501", "unwatched", "the source is used here before the tape is told to watch it")


def _after(reason: g.Reason, text: str) -> Verdict:
    if "Tape" in reason.via or re.search(r"\.(gradient|jacobian)\(", text):
        return Verdict("TAP506", "outside-tape", "this derivative is taken where the outer tape does not record it")
    if _inside_stopped(*reason.place):
        return _outside(reason, text)
    return Verdict("TAP504", "outside-tape", "this is computed after the tape has ended, which does not record it")


def _rebound(reason: g.Reason, text: str) -> Verdict:
    return Verdict(
        "TAP601", "rebound", "a Variable is rebound to a tensor, which the next tape does not watch: use assign_sub"
    )


def _outside(reason: g.Reason, text: str) -> Verdict:
    if _inside_stopped(*reason.place):
        return Verdict("TAP507", "outside-tape", "the tape was told not to record here")
    return Verdict("TAP502", "outside-tape", "this runs before or outside the tape, which therefore does not record it")


def _stored(reason: g.Reason, text: str) -> Verdict:
    shown = _exported(reason, text)
    if shown.code not in ("TAP201", "TAP203"):
        return shown
    return Verdict("TAP209", shown.how, "the value is kept as a number here, before the tape that wants its gradient")


def _decides(reason: g.Reason, text: str) -> Verdict:
    name = _last(reason.via)
    if name in ("cond", "case", "switch_case", "switch"):
        return Verdict(
            "TAP302", "predicate-op", f"`{name}` runs one branch only: what decides it, or the other, gets no gradient"
        )
    if text.lstrip().startswith("while"):
        return Verdict(
            "TAP304", "predicate-loop", "the value only decides how long the loop runs, and that has no gradient"
        )
    if reason.op == "index" or (not reason.sure and reason.kind == "decides"):
        return Verdict("TAP303", "selection", "the value is only used to choose, and the choice has no gradient")
    return Verdict(
        "TAP301",
        "predicate",
        "a Python branch on a value: the value that decides gets no gradient, nor does the branch that is not taken",
    )


def _unread(reason: g.Reason, text: str) -> Verdict:
    return Verdict(
        "TAP602", "wrong-sources", "the target does not depend on these sources: they were not used under the tape"
    )


def _unused(reason: g.Reason, text: str) -> Verdict:
    return Verdict("TAP606", "unused", "these weights are made here and nothing that leads to the target uses them")


def _dead_end(reason: g.Reason, text: str) -> Verdict:
    return Verdict("TAP606", "unused", "what is computed here is not used on: the target does not depend on it")


def _written(reason: g.Reason, text: str) -> Verdict:
    name = _last(reason.via)
    if "metrics" in reason.via:
        return Verdict("TAP409", "metric", "a metric counts, it has no gradient")
    if name in ("set_weights", "load_weights") or re.search(r"\b(set|load)_weights\(", text):
        return Verdict("TAP207", "weights-copied", f"set_weights copies numbers into the variables; {_LOST}")
    if reason.op == "VariableMade":
        if re.search(r"\bVariable\(", text) or name == "Variable":
            return Verdict("TAP103", "variable-made", f"tf.Variable(...) starts anew from a value; {_LOST}")
        return Verdict(
            "TAP605", "variable-made", "a layer or Variable is made anew here, from a value without its history"
        )
    if "Slice" in reason.op or "Scatter" in reason.op:
        return Verdict("TAP101", "variable-slice-write", f"a slice of a Variable is assigned; {_LOST}")
    if name == "apply_gradients" or "apply_gradients(" in text:
        return Verdict("TAP207", "weights-copied", f"the optimizer writes the new weights into the variables; {_LOST}")
    return Verdict("TAP102", "variable-write", f"assign() writes a value into the Variable; {_LOST}")


def _exported(reason: g.Reason, text: str) -> Verdict:
    module, name = reason.via.partition(".")[0], _last(reason.via)
    if reason.via == "[]=" or (not reason.via and re.match(r"\s*[\w.]+\[.*\]\s*[-+*/]?=", text)):
        return Verdict("TAP104", "array-write", "a NumPy array holds numbers: a tensor stored in it loses its gradient")
    if module == "numpy" or module == "math":
        if name in _MADE_ARRAYS:
            return Verdict(
                "TAP105", "array-made", f"np.{name} makes a NumPy array of tensors, and their gradient is lost"
            )
        shown = f"{'np' if module == 'numpy' else module}.{name}"
        return Verdict("TAP202", "numpy-call", f"{shown} gives a NumPy value: the gradient is lost")
    if module in _OTHERS:
        return Verdict("TAP208", "foreign-call", f"{module} takes numbers: the gradient is lost")
    if "metrics" in reason.via:
        return Verdict("TAP409", "metric", "a metric counts, it has no gradient")
    name = name if name in _LEAVING else _leaving_in(text) or _by_door(reason.op)
    code, how = _LEAVING.get(name, ("TAP201", "to-numpy"))
    if name == "constant" or name == "convert_to_tensor":
        return Verdict(code, how, f"tf.{name} makes a constant of the value: the gradient is lost")
    return Verdict(code, how, f"{name}() takes the value out of TensorFlow: the gradient is lost")


def _leaving_in(text: str) -> str:
    """The call in the statement that takes values out, where the trace could not tell it."""
    for name in _LEAVING:
        if re.search(rf"\b{name}\(", text):
            return name
    return ""


def _by_door(op: str) -> str:
    return {"__float__": "float", "__int__": "int", "__index__": "int", "__complex__": "complex"}.get(op, "numpy")


def _operation(reason: g.Reason, text: str) -> Verdict:
    op, name = reason.op, _last(reason.via)
    if _LEAVING.get(name, ("",))[0] in ("TAP204", "TAP205"):
        return _exported(reason, text)
    if name in ("numpy_function", "py_function", "py_func"):
        return Verdict("TAP206", "py-function", f"tf.{name} leaves TensorFlow: the gradient is lost")
    if "metrics" in reason.via:
        return Verdict("TAP409", "metric", "a metric counts, it has no gradient")
    if op == "Cast" and re.search(r"[<>]=?|==|!=|\b(greater|less|equal)", text) and "argm" not in text:
        op = "Greater"
    if "Dataset" in op or "Iterator" in op:
        return Verdict("TAP206", "dataset", "tf.data hands values on without their gradient")
    known = _BY_OPERATION.get(op)
    if known is None:
        random = op.startswith(("Random", "StatelessRandom"))
        known = ("TAP406", "sampled", "draws from it") if random else ("TAP408", "counted", "has no gradient")
    code, how, what = known
    shown = name if name and re.search(rf"\b{re.escape(name)}\(", text) else op
    return Verdict(code, how, f"`{shown}` {what}")


# ---------------------------------------------------------------------- the user's source
_TREES: Dict[str, Optional[ast.Module]] = {}


def _tree(filename: str) -> Optional[ast.Module]:
    if filename not in _TREES:
        try:
            _TREES[filename] = ast.parse("".join(linecache.getlines(filename)))
        except (SyntaxError, ValueError):
            _TREES[filename] = None
    return _TREES[filename]


def statement(filename: str, line: int) -> str:
    """The text of the innermost statement around a line; of a compound statement only its head."""
    tree = _tree(filename)
    best: Optional[ast.stmt] = None
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if best is None or (node.lineno, -(node.end_lineno or 0)) >= (best.lineno, -(best.end_lineno or 0)):
                best = node
    lines = linecache.getlines(filename)
    if best is None:
        return lines[line - 1] if 0 < line <= len(lines) else ""
    body = getattr(best, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) and body else best.end_lineno or line
    return "".join(lines[best.lineno - 1 : max(last, best.lineno)])


def _inside_stopped(filename: str, line: int) -> bool:
    """The line is in a `with tape.stop_recording()` block."""
    tree = _tree(filename)
    return any(
        isinstance(node, ast.With)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and any("stop_recording" in ast.dump(item.context_expr) for item in node.items)
        for node in (ast.walk(tree) if tree else ())
    )


@functools.lru_cache(maxsize=None)
def branch_names(filename: str, line: int) -> FrozenSet[str]:
    """The names and attributes that the branches of the `if` or ternary on this line speak of."""
    tree = _tree(filename)
    found: Set[str] = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, (ast.If, ast.IfExp)) and node.test.lineno <= line <= (node.test.end_lineno or line):
            parts: List[ast.AST] = (
                [node.body, node.orelse] if isinstance(node, ast.IfExp) else [*node.body, *node.orelse]
            )
            for inner in (n for part in parts for n in ast.walk(part)):
                if isinstance(inner, ast.Name):
                    found.add(inner.id)
                elif isinstance(inner, ast.Attribute):
                    found.add(inner.attr)
    return frozenset(found)


def rebinds(place: Tuple[str, int]) -> bool:
    """The statement gives a name a new value computed from the old one: `w = w - rate * g`."""
    try:
        node = ast.parse(textwrap.dedent(statement(*place))).body[0]
    except (SyntaxError, IndexError):
        return False
    if isinstance(node, ast.AugAssign):
        return True
    if not isinstance(node, ast.Assign) or not isinstance(node.value, (ast.BinOp, ast.ListComp, ast.Call)):
        return False
    used = {ast.dump(n) for n in ast.walk(node.value) if isinstance(n, (ast.Name, ast.Attribute))}
    names = [n for target in node.targets for n in ast.walk(target) if isinstance(n, (ast.Name, ast.Attribute))]
    return any(ast.dump(name).replace("Store()", "Load()") in used for name in names)


def column(filename: str, line: int) -> int:
    """The column, from 1, at which the line's code begins."""
    lines = linecache.getlines(filename)
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return len(text) - len(text.lstrip()) + 1
