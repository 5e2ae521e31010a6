"""`.numpy()` and its kin left out, and what reads the value as an array brought along."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Cut, Misuse, Model
from tapefix.flow.indexing import is_array_index, is_mask, name_called, pairs_with_its_length, parts_of_index
from tapefix.flow.values import Kind
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.leaving.numbers import scalar
from tapefix.rewrite.leaving.writing import finished, put


def kept(model: Model, cut: Cut) -> Fix | Refusal:
    """The tensor in the stead of its numbers."""
    call = cut.spot.node
    if not isinstance(call, ast.Call):
        return Refusal("what is written here can't be taken apart")
    method = isinstance(call.func, ast.Attribute) and not model.api_of(call.func)
    value = call.func.value if method and isinstance(call.func, ast.Attribute) else call.args[0] if call.args else None
    if value is None:
        return Refusal("nothing is handed over here")
    document = model.document_of(cut.spot)
    template = "{value}"
    if cut.detail == ".item()":
        template = "{value}" if scalar(model, document, value) else "tf.reshape({value}, [])"
    elif cut.detail == ".tolist()":
        template = "tf.unstack({value})"
    elif model.kind_of(value) & Kind.VARIABLE:
        template = "tf.convert_to_tensor({value})"
    edits = EditSet(document)
    try:
        put(edits, _rewrapped(model, syntax_of(document), call), template, value=value)
        if cut.detail not in (".item()", ".tolist()"):
            for subscript in _indexed(syntax_of(document), call):
                problem = _gather(model, edits, subscript)
                if problem:
                    return Refusal(problem)
        return finished(edits, f"keep `{document.source(value)}` in TensorFlow")
    except EditConflict as conflict:
        return Refusal(str(conflict))


def indexed(model: Model, misuse: Misuse) -> Fix | Refusal:
    """An index of arrays into what became a tensor."""
    node = misuse.spot.node
    if not isinstance(node, ast.Subscript):
        return Refusal(misuse.message)
    edits = EditSet(model.document_of(misuse.spot))
    try:
        problem = _gather(model, edits, node)
        return Refusal(problem) if problem else finished(edits, "take the elements with TensorFlow")
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _rewrapped(model: Model, syntax: Syntax, call: ast.expr) -> ast.expr:
    """The `tf.constant(...)` around the call that did nothing but bring the numbers back, or the call itself."""
    above = syntax.parent(call)
    if isinstance(above, ast.Call) and above.args == [call] and not above.keywords:
        if model.api_of(above.func) in ("tensorflow.constant", "tensorflow.convert_to_tensor"):
            return above
    return call


def _indexed(syntax: Syntax, call: ast.expr) -> Iterator[ast.Subscript]:
    """The places that index the array: at once, or by the name that it is given."""
    above = syntax.parent(call)
    if isinstance(above, ast.Subscript) and above.value is call:
        yield above
    if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name):
        name = above.targets[0].id
        for node in ast.walk(syntax.scope(call)):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.value, ast.Name)
                and node.value.id == name
                and isinstance(node.ctx, ast.Load)
                and syntax.before(above, node)
            ):
                yield node


def _gather(model: Model, edits: EditSet, node: ast.Subscript) -> str:
    """An index that is an array said by tf.gather; why it can't be, if so. What TensorFlow indexes alike stays."""
    parts = parts_of_index(node.slice)
    arrays = [k for k, part in enumerate(parts) if is_array_index(part, model.value_of)]
    if not arrays:
        return ""
    if len(parts) == 1:
        if is_mask(parts[0], model.value_of):
            return ""  # TensorFlow takes a mask as it is
        put(edits, node, "tf.gather({value}, {index})", value=node.value, index=parts[0])
        return ""
    if any(isinstance(part, ast.Starred) or _is_ellipsis(part) for part in parts):
        return "the array is indexed in a way that tf.gather has no word for; write the index with tf.gather_nd"
    whole = [_is_whole(part) for part in parts]
    if len(arrays) == 1 and sum(whole) == len(parts) - 1:
        put(edits, node, f"tf.gather({{value}}, {{index}}, axis={arrays[0]})", value=node.value, index=parts[arrays[0]])
        return ""
    if any(_spreads(part) or is_mask(part, model.value_of) for part in parts):
        return "the indices are spread over each other as NumPy does; write the index with tf.gather_nd"
    if len(arrays) == len(parts) or pairs_with_its_length(parts):
        given = {f"index{k}": part for k, part in enumerate(parts)}
        listed = ", ".join(f"{{{name}}}" for name in given)
        put(edits, node, f"tf.gather_nd({{value}}, tf.stack([{listed}], axis=-1))", value=node.value, **given)
        return ""
    return "the array is indexed by arrays and numbers at once; write the index with tf.gather_nd"


def _spreads(part: ast.expr) -> bool:
    """`rows[:, None]`, `np.ix_(…)`: an index of more axes than one."""
    if isinstance(part, ast.Subscript):
        return any(
            (isinstance(p, ast.Constant) and p.value is None) or getattr(p, "attr", "") == "newaxis"
            for p in parts_of_index(part.slice)
        )
    return any(isinstance(n, ast.Call) and name_called(n) in ("ix_", "reshape") for n in ast.walk(part))


def _is_whole(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is Ellipsis
