"""A layer is made anew in every call.

Each call makes other weights, which are thrown away after it: no list of sources holds them, and no step trains them.

Before
------
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()

        def call(self, x):
            return tf.keras.layers.Dense(10)(x)

After
-----
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(10)

        def call(self, x):
            return self.dense(x)

Fix
---
Unsafe: what was random in every call is trained from now on. The layer is made at the end of `__init__`; where it
depends on what only the call knows, or stands in a loop, that is left to a person.

See https://keras.io/guides/making_new_layers_and_models_via_subclassing/
"""

from __future__ import annotations

import ast
import builtins
import re
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal, short
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished
from tapefix.rewrite.names import Scopes

_ADVICE = "make the layer once, in `__init__` or `build`, and keep it as an attribute"
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


class LayerMadeAnew(Codemod):
    code = "TAP605"
    name = "layer-made-anew"
    speaks_for: ClassVar = frozenset({How.MADE_ANEW})
    why = "each call makes other weights, so that there is nothing that a step could train"

    def message(self, model: Model, cut: Cut) -> str:
        return f"`{short(model, cut)}` is made anew in every call"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        document, made = model.document_of(cut.spot), cut.spot.node
        layout = Layout.of(document)
        above = list(layout.ancestors(made))
        method = next((node for node in above if isinstance(node, ast.FunctionDef)), None)
        cls = layout.parent(method) if method is not None else None
        if not isinstance(made, ast.Call) or method is None or not isinstance(cls, ast.ClassDef):
            return Refusal("make the layer once, before the training step, and list its weights among the sources")
        if method.name not in ("call", "__call__"):
            return Refusal(_ADVICE)
        first = initialiser(cls)
        if first is None:
            return Refusal(f"the class has no `__init__`; {_ADVICE}")
        if any(isinstance(node, _LOOPS) for node in above[: above.index(method)]):
            return Refusal(f"each pass of the loop makes one; {_ADVICE}, as many as there are passes")
        strange = unknown_in_init(document, made, method)
        if strange:
            return Refusal(f"it depends on `{strange}`, which only the call knows; {_ADVICE}")
        name = attribute_for(cls, made)
        edits = EditSet(document)
        try:
            edits.insert_after(first.body[-1], f"self.{name} = {{made}}", made=document.source(made))
            edits.replace(made, f"self.{name}")
            return finished(edits, f"make it once, as `self.{name}`", safe=False)
        except EditConflict as conflict:
            return Refusal(str(conflict))


def initialiser(cls: ast.ClassDef) -> ast.FunctionDef | None:
    return next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)


def unknown_in_init(document: Document, made: ast.Call, method: ast.FunctionDef) -> str:
    """A name that the call binds, so that it means nothing in `__init__`; "" where there is none."""
    scope = Scopes.of(document).around(document, made)
    inside = {id(node) for node in ast.walk(method)}
    for node in ast.walk(made):
        if isinstance(node, ast.Name) and node.id != "self" and not hasattr(builtins, node.id):
            found = scope.resolve(node.id)
            if found is None or id(found.node) in inside:
                return node.id
    return ""


def attribute_for(cls: ast.ClassDef, made: ast.Call) -> str:
    """A name for the layer that no attribute of the class has."""
    kind = made.func.attr if isinstance(made.func, ast.Attribute) else getattr(made.func, "id", "layer")
    base = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    taken = {node.attr for node in ast.walk(cls) if isinstance(node, ast.Attribute)}
    taken |= {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}
    names = (base if i == 0 else f"{base}_{i}" for i in range(len(taken) + 1))
    return next(name for name in names if name not in taken)
