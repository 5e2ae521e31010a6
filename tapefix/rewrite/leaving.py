"""Repairs of values that leave TensorFlow: NumPy calls, conversions and ndarray methods said in TensorFlow."""

from __future__ import annotations

import ast

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Model
from tapefix.flow.values import Instance
from tapefix.rewrite import imports
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.numpy_table import translate_attribute, translate_call
from tapefix.rewrite.numpy_table.row import Rewrite
from tapefix.rewrite.numpy_table.written import write


def tensors_in(model: Model, call: ast.Call) -> list[ast.expr]:
    """The arguments, and elements of list arguments, that may be tensors."""
    found: list[ast.expr] = []
    todo: list[ast.expr] = [*call.args, *(k.value for k in call.keywords)]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.List, ast.Tuple)):
            todo += node.elts
        elif model.is_tensor(node) or model.depends(node):
            found.append(node)
    return found


def said_in_tensorflow(model: Model, document: Document, call: ast.Call, name: str) -> Fix | Refusal:
    """A NumPy or math function on tensors as TensorFlow's function of the same meaning."""
    rewrite = translate_call(document, call, name, tensors_in(model, call))
    if isinstance(rewrite, Refusal):
        return rewrite
    if not rewrite.differentiable:
        return Refusal(f"{name.replace('numpy', 'np')} has no gradient in TensorFlow either")
    return written(document, call, rewrite, f"say {name.replace('numpy.', 'np.')} in TensorFlow")


def attribute_in_tensorflow(document: Document, node: ast.Attribute) -> Fix | Refusal:
    rewrite = translate_attribute(node)
    if isinstance(rewrite, Refusal):
        return rewrite
    return written(document, node, rewrite, f"say `.{node.attr}` in TensorFlow")


def written(document: Document, node: ast.expr, rewrite: Rewrite, message: str) -> Fix | Refusal:
    edits = EditSet(document)
    try:
        problem = write(edits, node, rewrite)
        if problem is not None:
            return problem
        return finished(edits, message)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def finished(edits: EditSet, message: str, alternatives: tuple[str, ...] = (), safe: bool = True) -> Fix:
    """The edits as a fix, without the imports that they leave unused."""
    imports.remove_unused(edits)
    return Fix(Applicability.SAFE if safe else Applicability.UNSAFE, message, edits.edits(), alternatives)


def replaced(document: Document, node: ast.expr, template: str, message: str, **parts: str | ast.AST) -> Fix | Refusal:
    """One expression for another."""
    edits = EditSet(document)
    try:
        edits.rewrite(node, imports.with_local_names(edits, template, node), **parts)
        return finished(edits, message)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def written_call(model: Model, document: Document, call: ast.Call, name: str) -> Fix | Refusal:
    """An ndarray's method on a tensor, differentiable or not."""
    rewrite = translate_call(document, call, name, tensors_in(model, call))
    if isinstance(rewrite, Refusal):
        return rewrite
    return written(document, call, rewrite, f"say `.{name.rpartition('.')[2]}()` in TensorFlow")


def scalar(model: Model, document: Document, node: ast.expr) -> bool:
    """Surely one number, so that `float()` around it changes no shape."""
    from tapefix.rewrite.accumulators import SyntaxFacts
    from tapefix.rewrite.accumulators.syntax import syntax_of

    value = model.value_of(node)
    return (value is not None and value.reduced) or SyntaxFacts(syntax_of(document)).rank(node) == 0


_PREDICT_ONLY = frozenset({"batch_size", "verbose", "steps", "callbacks", "max_queue_size", "workers", "use_multiprocessing"})


def called(model: Model, document: Document, call: ast.Call) -> Fix | Refusal:
    """`model.predict(x)` as a call in inference mode."""
    assert isinstance(call.func, ast.Attribute)
    inputs = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg in ("x", "inputs")), None)
    if inputs is None or len(call.args) > 3:
        return Refusal("what is predicted can't be told")
    unknown = [k.arg for k in call.keywords if k.arg not in _PREDICT_ONLY | {"x", "inputs"}]
    if unknown:
        return Refusal(f"`{unknown[0]}=` has no counterpart in a call of the model")
    value = model.value_of(call.func.value)
    refs = value.refs if value is not None else []
    if any(isinstance(ref, Instance) and not _takes_training(ref) for ref in refs):
        template = "{owner}({inputs})"
    else:
        template = "{owner}({inputs}, training=False)"
    edits = EditSet(document)
    try:
        edits.rewrite(call, template, owner=call.func.value, inputs=inputs)
        return finished(edits, "call the model, in inference mode as predict does")
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _takes_training(instance: Instance) -> bool:
    found = instance.cls.find("call") if instance.cls is not None else None
    node = getattr(found[1].ref, "node", None) if found is not None else None
    if node is None:
        return True
    return node.args.kwarg is not None or any(a.arg == "training" for a in [*node.args.args, *node.args.kwonlyargs])
