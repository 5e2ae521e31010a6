"""Weights that are copied between models or computed and written: which rewrite fits which way of writing."""

from __future__ import annotations

import ast

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, How, Model
from tapefix.rewrite import imports
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.functional_weights import ALTERNATIVES, MESSAGE, WRITES, Functional, Loop, is_frozen
from tapefix.rewrite.leaving.variables import only_computed_with
from tapefix.rewrite.leaving.writing import replaced
from tapefix.rewrite.names import fresh
from tapefix.rewrite.written_copy import copied, is_keras

#: what Keras's layers call their weights
_NAMED = frozenset(
    {"kernel", "bias", "embeddings", "gamma", "beta", "recurrent_kernel", "depthwise_kernel", "pointwise_kernel"}
)
_BY_HAND = (
    "run the model on the computed weights by keras.Model.stateless_call, or write its forward pass as a function of "
    "the weights"
)
#: words of programs that run Keras 2
_LEGACY = ("tf_keras", "TF_USE_LEGACY_KERAS", "optimizers.legacy", "tensorflow.python.keras", "tf.compat.v1.Session")
_KERAS_2 = "Keras 2 has no stateless_call; write the model's forward pass as a function of its weights"


def of_a_model(model: Model, cut: Cut) -> bool:
    """Whether the Variable that is written is a weight of a Keras layer or model."""
    statement = syntax_of(model.document_of(cut.spot)).statement(cut.spot.node)
    syntax = syntax_of(model.document_of(cut.spot))
    return Loop.at(syntax.parent(statement), syntax) is not None or _Weight.at(statement) is not None


def run_on_computed(model: Model, cut: Cut) -> Fix | Refusal:
    """The model run on the computed weights, or what was copied from it read with its history."""
    document = model.document_of(cut.spot)
    syntax = syntax_of(document)
    call, statement = cut.spot.node, syntax.statement(cut.spot.node)
    try:
        if cut.how is How.WEIGHTS_COPIED and isinstance(call, ast.Call) and _attribute(call) == "get_weights":
            above = syntax.parent(call)
            if not (isinstance(above, ast.Call) and _attribute(above) == "set_weights"):
                return _read(model, document, call)
        above = syntax.parent(statement)
        loop, weight = Loop.at(above, syntax), _Weight.at(statement)
        if loop is not None and not is_keras(model, loop.model):
            return copied(model, document, loop)
        owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        if loop is None and weight is None and owner is not None and not is_keras(model, owner):
            return Refusal("this is no Keras model: write its forward pass as a function of the weights")
        if any(word in one.text for one in [document, *model.documents.values()] for word in _LEGACY):
            return Refusal(_KERAS_2)
        if "BatchNormalization" in document.text:
            return Refusal(f"batch normalisation keeps statistics among the weights; {_BY_HAND}")
        if loop is not None:
            return _loop(document, syntax, loop)
        if weight is not None:
            return weight.fix(document, syntax)
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and _attribute(statement.value) == "set_weights"
        ):
            return _set_weights(document, syntax, statement, statement.value)
    except EditConflict as conflict:
        return Refusal(str(conflict))
    return Refusal(_BY_HAND)


def _read(model: Model, document: Document, call: ast.Call) -> Fix | Refusal:
    """`get_weights()` as the weights: tensors made of them where more is done with one than to compute with it."""
    assert isinstance(call.func, ast.Attribute)
    syntax, owner, message = syntax_of(document), call.func.value, "read the weights themselves"
    above = syntax.parent(call)
    one = isinstance(above, ast.Subscript) and above.value is call and not isinstance(above.slice, ast.Slice)
    if _suffices(model, syntax, above if one and isinstance(above, ast.expr) else call):
        return replaced(document, call, "{owner}.weights", message, owner=owner)
    if isinstance(above, ast.Subscript) and one:
        template = "tf.convert_to_tensor({owner}.weights[{index}])"
        return replaced(document, above, template, message, owner=owner, index=above.slice)
    return replaced(document, call, "[tf.convert_to_tensor(w) for w in {owner}.weights]", message, owner=owner)


def _suffices(model: Model, syntax: Syntax, weights: ast.expr) -> bool:
    """Whether Variables will do: those who get the weights, in a loop or by a name, only compute with them."""
    above = syntax.parent(weights)
    if isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in ("zip", "enumerate"):
        above = syntax.parent(above)
    if isinstance(above, (ast.For, ast.comprehension)):
        targets: list[ast.expr] = [above.target]
    elif isinstance(above, ast.Assign) and above.value is weights:
        targets = above.targets
    else:
        return False
    names = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return only_computed_with(model, syntax, names, syntax.scope(weights))


def _attribute(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _loop(document: Document, syntax: Syntax, loop: Loop) -> Fix | Refusal:
    if _called_in(syntax, syntax.scope(loop.statement), loop.model, loop.statement):
        return Functional(document, loop.statement, loop.model).written_in_a_loop(loop)
    if loop.write.func.attr != "assign":  # type: ignore[attr-defined]
        return Refusal(_BY_HAND)
    edits = EditSet(document)
    name = fresh(edits, loop.statement, "computed")
    zipped = ", ".join(document.source(one) for one in [loop.variables, *loop.others])
    edits.insert_before(
        loop.statement, f"{{name}} = [{{value}} for {document.source(loop.statement.target)} in zip({{*zipped}})]",
        name=name, value=document.source(loop.write.args[0]), zipped=zipped,
    )  # fmt: skip
    return _through_helper(document, syntax, edits, loop.statement, loop.model, name)


def _set_weights(document: Document, syntax: Syntax, statement: ast.stmt, call: ast.Call) -> Fix | Refusal:
    assert isinstance(call.func, ast.Attribute)
    owner, given = call.func.value, call.args[0] if call.args else None
    if given is None or len(call.args) != 1:
        return Refusal(_BY_HAND)
    scope = syntax.scope(statement)
    source = given.func.value if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) else None
    copied = source if isinstance(given, ast.Call) and _attribute(given) == "get_weights" else None
    if _called_in(syntax, scope, owner, statement):
        functional = Functional(document, statement, owner)
        return functional.copied_from(copied, statement) if copied else functional.written_by_set_weights(given)
    if copied is not None and isinstance(scope, ast.FunctionDef):
        return _copying_helper(document, syntax, scope, copied)
    layers = next((above for above in syntax.loops(statement) if _over_layers(above) is not None), None)
    if layers is not None and isinstance(layers, ast.For):
        model = _over_layers(layers)
        assert model is not None
        edits = EditSet(document)
        name = fresh(edits, statement, "computed")
        edits.insert_before(layers, f"{name} = []")
        edits.insert_after(statement, "{name} += {given}", name=name, given=document.source(given))
        return _through_helper(document, syntax, edits, layers, model, name)
    return Refusal(_BY_HAND)


def _over_layers(loop: ast.AST) -> ast.expr | None:
    """The model whose layers a loop goes through."""
    if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Attribute) and loop.iter.attr == "layers":
        return loop.iter.value
    return None


def _called_in(syntax: Syntax, scope: ast.AST, model: ast.expr, after: ast.stmt) -> bool:
    """Whether the model is called in the function behind the statement."""
    key = ast.unparse(model)
    return any(
        isinstance(n, ast.Call) and ast.unparse(n.func) == key and syntax.scope(n) is scope and syntax.before(after, n)
        for n in ast.walk(scope)
    )


def _sites(syntax: Syntax, function: ast.FunctionDef) -> list[ast.Call]:
    """The calls of a function or method, by its name."""
    return [
        n
        for n in ast.walk(syntax.tree)
        if isinstance(n, ast.Call)
        and (
            (isinstance(n.func, ast.Name) and n.func.id == function.name)
            or (isinstance(n.func, ast.Attribute) and n.func.attr == function.name)
        )
    ]


def _copying_helper(document: Document, syntax: Syntax, helper: ast.FunctionDef, source: ast.expr) -> Fix | Refusal:
    """A function that makes a copy of the model it is given: its caller computes on the original's weights."""
    parameters = [a.arg for a in helper.args.args]
    if not isinstance(source, ast.Name) or source.id not in parameters:
        return Refusal(_BY_HAND)
    for site in _sites(syntax, helper):
        keyed = next((k.value for k in site.keywords if k.arg == source.id), None)
        position = parameters.index(source.id)
        given = keyed if keyed is not None else site.args[position] if position < len(site.args) else None
        statement = syntax.parent(site)
        if given is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if isinstance(target, (ast.Name, ast.Attribute)) and _called_in(
            syntax, syntax.scope(statement), target, statement
        ):
            return Functional(document, statement, target).copied_from(given, None)
    return Refusal(f"the copy that `{helper.name}` makes is not called where it is made; {_BY_HAND}")


def _through_helper(
    document: Document, syntax: Syntax, edits: EditSet, write: ast.stmt, model: ast.expr, name: str
) -> Fix | Refusal:
    """A function that writes the weights also returns them, and its caller runs the model on them."""
    helper = syntax.scope(write)
    if not isinstance(helper, ast.FunctionDef) or helper.body[-1] is not write:
        return Refusal(_BY_HAND)
    if any(isinstance(n, (ast.Return, ast.Yield)) for n in ast.walk(helper)):
        return Refusal(_BY_HAND)
    edits.insert_after(write, f"return {name}")
    found: Fix | Refusal = Refusal(f"the model is not called where `{helper.name}` is; {_BY_HAND}")
    for site in _sites(syntax, helper):
        statement = syntax.parent(site)
        if not isinstance(statement, ast.Expr) or not _called_in(syntax, syntax.scope(statement), model, statement):
            continue
        found = Functional(document, statement, model, edits).given_by_helper(site)
        if isinstance(found, Refusal):
            return found
    return found


class _Weight:
    """`layer.kernel.assign(value)`: one named weight of a layer that is called later in the function."""

    def __init__(self, statement: ast.Expr, layer: ast.expr, weight: ast.Attribute, call: ast.Call):
        self.statement, self.layer, self.weight, self.call = statement, layer, weight, call

    @classmethod
    def at(cls, statement: ast.AST) -> _Weight | None:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
            return None
        call = statement.value
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in WRITES or len(call.args) != 1:
            return None
        weight = call.func.value
        if not isinstance(weight, ast.Attribute) or weight.attr not in _NAMED or ast.unparse(weight.value) == "self":
            return None
        return cls(statement, weight.value, weight, call)

    def fix(self, document: Document, syntax: Syntax) -> Fix | Refusal:
        """All weights of the layer that are written in the function become names, which its calls are given."""
        scope, key = syntax.scope(self.statement), ast.unparse(self.layer)
        writes = [w for n in ast.walk(scope) if (w := _Weight.at(n)) is not None and ast.unparse(w.layer) == key]
        calls = [
            n
            for n in ast.walk(scope)
            if isinstance(n, ast.Call) and ast.unparse(n.func) == key and syntax.before(writes[-1].statement, n)
        ]
        if not calls or any(syntax.loops(w.statement) != syntax.loops(calls[0]) for w in writes):
            return Refusal(f"`{key}` is not called where its weights are written; {_BY_HAND}")
        edits = EditSet(document)
        choice = "w"
        for write in reversed(writes):
            assert isinstance(write.call.func, ast.Attribute)
            name = fresh(edits, write.statement, write.weight.attr)
            value = WRITES[write.call.func.attr]
            parts: dict[str, str | ast.AST] = {"name": name, "value": write.call.args[0]}
            if "{variable}" in value:
                parts["variable"] = write.weight
            edits.rewrite_statement(write.statement, f"{{name}} = {value}", **parts)
            choice = f"{name} if w is {document.source(write.weight)} else {choice}"
        frozen = is_frozen(document, key)
        lists = [f"[{choice} for w in {key}.{which}]" for which in ("trainable_variables", "non_trainable_variables")]
        if frozen is True:
            lists[0] = "[]"
        elif frozen is False:
            lists[1] = f"{key}.non_trainable_variables"
        for call in calls:
            given = ", ".join(document.source(one) for one in [*call.args, *call.keywords])
            if not given:
                return Refusal(f"`{key}` is called on nothing; {_BY_HAND}")
            edits.rewrite(call, f"{key}.stateless_call({lists[0]}, {lists[1]}, {{*given}})[0]", given=given)
        imports.remove_unused(edits)
        return Fix(Applicability.UNSAFE, MESSAGE, edits.edits(), ALTERNATIVES)
