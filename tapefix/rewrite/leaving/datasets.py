"""Datasets made of tensors and iterated at once: the tensors themselves are iterated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Cut, Model
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.imports import add_import
from tapefix.rewrite.leaving.writing import finished, put

_ADVICE = (
    "a dataset has no gradient; iterate over the tensors themselves, or apply the model to the batch inside the tape"
)


def iterated(model: Model, cut: Cut) -> Fix | Refusal:
    """The loop over the tensors in place of the loop over the dataset."""
    call, document = cut.spot.node, model.document_of(cut.spot)
    if not isinstance(call, ast.Call) or "tf.function" in document.text:
        return Refusal(_ADVICE)
    edits = EditSet(document)
    try:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "reduce" and len(call.args) == 2:
            return _reduced(edits, call)
        maker = _Maker.of(syntax_of(document), call)
        if maker is None:
            return Refusal(_ADVICE)
        maker.write(edits)
        return finished(edits, "iterate over the tensors themselves")
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _reduced(edits: EditSet, call: ast.Call) -> Fix:
    assert isinstance(call.func, ast.Attribute)
    name = add_import(edits, "functools", "functools", call)
    parts = {"function": call.args[1], "data": call.func.value, "start": call.args[0]}
    edits.rewrite(call, f"{name}.reduce({{function}}, {{data}}, {{start}})", **parts)
    return finished(edits, "sum in Python, element by element and in the same order")


class _Maker:
    """`Dataset.from_tensor_slices(...)`, perhaps batched or zipped with others, whose only use is a loop."""

    def __init__(self, syntax: Syntax, calls: list[ast.Call], whole: ast.Call | None):
        self.syntax = syntax
        self.calls = calls  # each with its `.batch(n)`
        self.whole = whole  # the `Dataset.zip(...)` around them

    @classmethod
    def of(cls, syntax: Syntax, call: ast.Call) -> _Maker | None:
        outer = _with_batch(syntax, call)
        use = _only_use(syntax, outer) if outer is not None else None
        if outer is None or use is None:
            return None
        if _is_looped_over(syntax, use):
            return cls(syntax, [outer], None)
        above = syntax.parent(use)
        whole = syntax.parent(above) if isinstance(above, ast.Tuple) else above
        if not (isinstance(whole, ast.Call) and ast.unparse(whole.func).endswith("Dataset.zip")):
            return None
        elements = above.elts if isinstance(above, ast.Tuple) else whole.args
        parts = [_made(syntax, element) for element in elements]
        looped = _only_use(syntax, whole)
        if looped is None or not _is_looped_over(syntax, looped) or not all(parts):
            return None
        return cls(syntax, [part for part in parts if part is not None], whole)

    def write(self, edits: EditSet) -> None:
        for call in self.calls:
            slices, size = _slices(call)
            tensors = slices.args[0]
            several = list(tensors.elts) if isinstance(tensors, ast.Tuple) else []
            parts: dict[str, str | ast.AST] = {f"t{k}": one for k, one in enumerate(several or [tensors])}
            if size is not None:
                parts["n"] = size
                pieces = [f"{{{name}}}[i:i + {{n}}]" for name in list(parts)[:-1]]
                piece = f"({', '.join(pieces)})" if several else pieces[0]
                template = f"[{piece} for i in range(0, len({{t0}}), {{n}})]"
            elif several:
                template = f"list(zip({', '.join(f'tf.unstack({{{name}}})' for name in parts)}))"
            else:
                template = "tf.unstack({t0})"
            put(edits, call, template, **parts)
        if self.whole is not None:
            first = self.whole.args[0]
            listed = first.elts if isinstance(first, ast.Tuple) else self.whole.args
            given: dict[str, str | ast.AST] = {f"d{k}": one for k, one in enumerate(listed)}
            put(edits, self.whole, f"list(zip({', '.join(f'{{{name}}}' for name in given)}))", **given)


def _slices(call: ast.Call) -> tuple[ast.Call, ast.expr | None]:
    """The `from_tensor_slices` call and the batch size."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "batch":
        assert isinstance(call.func.value, ast.Call)
        return call.func.value, call.args[0]
    return call, None


def _with_batch(syntax: Syntax, call: ast.Call) -> ast.Call | None:
    """The call and the one `.batch(n)` behind it; None where more is done to the dataset."""
    if not (ast.unparse(call.func).endswith("from_tensor_slices") and len(call.args) == 1 and not call.keywords):
        return None
    if isinstance(call.args[0], (ast.Dict, ast.Starred)):
        return None
    above = syntax.parent(call)
    if not isinstance(above, ast.Attribute):
        return call
    outer = syntax.parent(above)
    plain = isinstance(outer, ast.Call) and len(outer.args) == 1 and not outer.keywords
    named = [call.args[0], *(call.args[0].elts if isinstance(call.args[0], ast.Tuple) else [])]
    again = all(isinstance(one, (ast.Name, ast.Attribute, ast.Tuple)) for one in named)
    return outer if above.attr == "batch" and plain and again and isinstance(outer, ast.Call) else None


def _only_use(syntax: Syntax, node: ast.expr) -> ast.expr | None:
    """The one place that reads the value: the expression itself, or the name it is given."""
    above = syntax.parent(node)
    if not isinstance(above, ast.Assign):
        return node
    if len(above.targets) != 1 or not isinstance(above.targets[0], ast.Name):
        return None
    uses = list(_reads(syntax, above.targets[0]))
    return uses[0] if len(uses) == 1 else None


def _reads(syntax: Syntax, target: ast.Name) -> Iterator[ast.Name]:
    for node in ast.walk(syntax.scope(target)):
        if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load):
            yield node


def _is_looped_over(syntax: Syntax, use: ast.expr) -> bool:
    above = syntax.parent(use)
    if isinstance(above, (ast.For, ast.comprehension)) and above.iter is use:
        return True
    return (
        isinstance(above, ast.Call)
        and isinstance(above.func, ast.Name)
        and above.func.id in ("enumerate", "zip", "list")
    )


def _made(syntax: Syntax, element: ast.expr) -> ast.Call | None:
    """The dataset of tensors that an element of `Dataset.zip` is, itself or by its name."""
    made: ast.AST | None = element
    if isinstance(element, ast.Name):
        _, bindings = syntax.visible(element.id, element)
        above = syntax.parent(bindings[0]) if len(bindings) == 1 else None
        made = above.value if isinstance(above, ast.Assign) and above.targets == [bindings[0]] else None
        if made is None or _only_use(syntax, made) is not element:
            return None
    if not isinstance(made, ast.Call):
        return None
    if isinstance(made.func, ast.Attribute) and made.func.attr == "batch" and isinstance(made.func.value, ast.Call):
        return made if _with_batch(syntax, made.func.value) is made else None
    return _with_batch(syntax, made)
