"""Sources that the loss does not depend on.

Another model's weights, a clone's, or those of a teacher whose output is stopped on purpose: all of them get None. A
teacher belongs behind `stop_gradient`; what is wrong is that it is still trainable.

Before
------
    self.teacher = make_model()
    self.student = make_model()

    goal = tf.stop_gradient(self.teacher(x))
    loss = distance(goal, self.student(x))
    grads = tape.gradient(loss, self.trainable_variables)

After
-----
    self.teacher = make_model()
    self.teacher.trainable = False
    self.student = make_model()

    goal = tf.stop_gradient(self.teacher(x))
    loss = distance(goal, self.student(x))
    grads = tape.gradient(loss, self.trainable_variables)

Fix
---
Safe for a teacher: it is frozen where it is made. Unsafe where it holds a batch normalisation that may run in training
mode, which a frozen one does not. Safe, too, where a list that is right for another gradient has more than this one
needs: the weights come off this gradient's list and its pairs. Where another model's weights are asked for, the fix is
unsafe: it takes the weights of the model that the loss depends on. So it is where a part of a sum is taken off that
nothing else trains.

See https://keras.io/guides/transfer_learning/
"""

from __future__ import annotations

import ast
from typing import ClassVar

from tapefix.codemod import Codemod, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.flow.values import Source
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished
from tapefix.rewrite.off_the_list import off_the_list
from tapefix.rewrite.right_sources import of_the_right_model
from tapefix.rewrite.said import last_name, pairs_of

_TRAINING = frozenset({"fit", "fit_generator", "compile", "train_on_batch"})
_TRAINED = frozenset({"trainable_variables", "trainable_weights"})


class UnrelatedSources(Codemod):
    code = "TAP602"
    name = "unrelated-sources"
    speaks_for: ClassVar = frozenset({How.UNRELATED, How.TEACHER})
    why = "what the loss does not depend on has no gradient"

    def applies(self, model: Model, cut: Cut) -> bool:
        never_used = {one.name for one in model.unused()}
        return cut.how is How.TEACHER or not any(origin.name in never_used for origin in cut.origins)

    def message(self, model: Model, cut: Cut) -> str:
        document = model.document_of(cut.spot)
        if cut.how is How.TEACHER:
            name = document.source(cut.lost[0]) if cut.lost else "a network"
            return f"`{name}` is trainable, and its gradient is stopped on purpose"
        return f"the loss does not depend on `{cut.detail}`"

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        if cut.how is How.TEACHER:
            return frozen(model, cut)
        shorter = off_the_list(model, cut)
        return shorter if isinstance(shorter, Fix) else of_the_right_model(model, cut)


def frozen(model: Model, cut: Cut) -> Fix | Refusal:
    """`teacher.trainable = False` right after the teacher is made."""
    document = model.document_of(cut.spot)
    called = next(iter(cut.lost), None)
    if called is None:
        return Refusal("freeze the network behind stop_gradient where it is made, by `trainable = False`")
    name = document.source(called)
    owners = networks(model, called)
    training = [
        node
        for node in ast.walk(document.tree)
        if isinstance(node, ast.Attribute) and owners & networks(model, node.value) and trains(document, node)
    ]
    made = makers(model, document, owners)
    if training:  # it is trained itself: freeze it where it is handed on
        made = [(s, t) for s, t in made if is_handed_on_after(model, document, s, owners, training)]
    if not made and training:
        if training[0].attr in _TRAINED:
            return Refusal(f"line {training[0].lineno} needs its trainable variables; take them off the sources")
        return Refusal(f"`{name}` is trained itself on line {training[0].lineno}; freeze it once that is done")
    if not made:
        return Refusal(f"set `trainable = False` where `{name}` is made")
    statement, target = made[0]
    edits = EditSet(document)
    try:
        edits.insert_after(statement, "{target}.trainable = False", target=target)
        safe = not cut.detail or is_told_not_to_train(document, called)
        return finished(edits, f"freeze `{document.source(target)}`, whose output is a goal", safe=safe)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def networks(model: Model, node: ast.AST) -> set[Source]:
    value = model.value_of(node)
    return {ref for ref in value.refs if isinstance(ref, Source)} if value is not None else set()


def trains(document: Document, node: ast.Attribute) -> bool:
    """The network is fitted, or its weights are listed other than as a term of a sum of sources."""
    if node.attr in _TRAINING:
        return True
    above = Layout.of(document).parent(node)
    return node.attr in _TRAINED and not isinstance(above, (ast.BinOp, ast.Starred))


def makers(model: Model, document: Document, owners: set[Source]) -> list[tuple[ast.stmt, ast.expr]]:
    """Statements that give the network its name: those that make it first, then those that hand it on."""
    found = []
    for node in (n for n in ast.walk(document.tree) if isinstance(n, ast.Assign)):
        for one, item in pairs_of(node):
            if isinstance(one, (ast.Name, ast.Attribute)) and networks(model, item) == owners:
                found.append((not isinstance(item, ast.Call), node.lineno, node, one))
    return [(statement, one) for _, _, statement, one in sorted(found, key=lambda f: f[:2])]


def is_handed_on_after(
    model: Model, document: Document, statement: ast.stmt, owners: set[Source], training: list[ast.Attribute]
) -> bool:
    """`self.teacher = teacher` in a class whose objects are made of the network once it has been trained."""
    layout = Layout.of(document)
    cls = next((node for node in layout.ancestors(statement) if isinstance(node, ast.ClassDef)), None)
    if cls is None or any(cls in layout.ancestors(node) for node in training):
        return False
    made = [
        node
        for node in ast.walk(document.tree)
        if isinstance(node, ast.Call)
        and last_name(node.func) == cls.name
        and any(owners & networks(model, arg) for arg in (*node.args, *(k.value for k in node.keywords)))
    ]
    return bool(made) and all(
        function_of(layout, one) is function_of(layout, other) and other.lineno < one.lineno
        for one in made
        for other in training
    )


def function_of(layout: Layout, node: ast.AST) -> ast.AST | None:
    return next((above for above in layout.ancestors(node) if isinstance(above, ast.FunctionDef)), None)


def is_told_not_to_train(document: Document, called: ast.expr) -> bool:
    call = Layout.of(document).parent(called)
    return isinstance(call, ast.Call) and any(
        keyword.arg == "training" and isinstance(keyword.value, ast.Constant) and not keyword.value.value
        for keyword in call.keywords
    )
