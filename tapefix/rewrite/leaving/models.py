"""`predict` and its kin as a call of the model."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Model
from tapefix.flow.objects import Dataset, Instance
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.leaving.writing import finished

_PREDICT_ONLY = frozenset(
    {"batch_size", "verbose", "steps", "callbacks", "max_queue_size", "workers", "use_multiprocessing"}
)


def called(model: Model, document: Document, call: ast.Call) -> Fix | Refusal:
    """`model.predict(x)` as a call in inference mode."""
    assert isinstance(call.func, ast.Attribute)
    inputs = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg in ("x", "inputs")), None)
    if inputs is None or len(call.args) > 3 or any(isinstance(a, ast.Starred) for a in call.args):
        return Refusal("what is predicted can't be told")
    unknown = [k.arg for k in call.keywords if k.arg not in _PREDICT_ONLY | {"x", "inputs"}]
    if unknown:
        return Refusal(f"`{unknown[0]}=` has no counterpart in a call of the model")
    handed = model.value_of(inputs)
    batches = [ref for ref in (handed.refs if handed is not None else []) if isinstance(ref, Dataset)]
    if batches or isinstance(inputs, ast.GeneratorExp):
        return Refusal(
            "a model is not called on a dataset or generator; loop over its batches and call the model on each"
        )
    if isinstance(inputs, ast.List) and not any(model.kind_of(e) != 0 and model.is_tensor(e) for e in inputs.elts):
        if all(isinstance(e, (ast.Constant, ast.List)) for e in inputs.elts):
            return Refusal("numbers in a list are no tensor; make them a tf.constant and call the model on it")
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
