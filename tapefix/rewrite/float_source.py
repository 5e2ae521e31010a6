"""Makes a source of integer type a float: where it is made, or before the tape watches it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.flow.objects import Api
from tapefix.flow.values import Kind, Value, Var
from tapefix.rewrite.accumulators.syntax import syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.imports import with_local_names
from tapefix.rewrite.layout import Layout
from tapefix.rewrite.leaving import finished
from tapefix.rewrite.tape_block import Block, block_of

_ASKING = frozenset({"watch", "gradient", "jacobian", "batch_jacobian"})
#: calls to which it makes no difference whether they are given an integer or the same number as a float
_CAREFREE = _ASKING | frozenset(
    "cast print zip float list tuple dict append apply_gradients saturate_cast to_float enumerate numpy".split()
)
_INDEXED = frozenset("gather gather_nd one_hot range embedding_lookup take repeat".split())
_FLOWING = (
    ast.Assign,
    ast.AnnAssign,
    ast.NamedExpr,
    ast.Dict,
    ast.List,
    ast.Tuple,
    ast.Starred,
    ast.Return,
    ast.Yield,
    ast.For,
    ast.comprehension,
    ast.ListComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.FormattedValue,
    ast.Expr,
    ast.Attribute,
)


def made_float(model: Model, cut: Cut) -> Fix | Refusal:
    """The source as a float, where it is made; a tensor that comes from elsewhere, before the tape's block."""
    made, document = cut.spot.node, model.document_of(cut.spot)
    if not isinstance(made, ast.expr):
        return Refusal("where the source is made can't be told; make it a float there")
    asks = isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _ASKING
    source = made
    if asks:
        assert isinstance(made, ast.Call)
        source = made.args[0] if _name(made.func) == "watch" and made.args else made
        if not isinstance(source, ast.Name):
            return Refusal("the source is made elsewhere; cast it to a float before the tape watches it")
    problem, safe = _uses(model, source)
    if problem:
        return Refusal(problem)
    try:
        if asks:
            return _cast_before(model, cut, document, source, safe)
        edits = EditSet(document)
        if isinstance(made, ast.Call) and _is_variable(model, made):
            return _variable(model, edits, made, safe)
        edits.rewrite(made, with_local_names(edits, "tf.cast({made}, tf.float32)", made), made=made)
        return finished(edits, "make it a float before the tape watches it", safe=safe)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _is_variable(model: Model, made: ast.Call) -> bool:
    value = model.value_of(made)
    return value is not None and any(isinstance(ref, Var) for ref in value.refs)


def _variable(model: Model, edits: EditSet, made: ast.Call, safe: bool) -> Fix | Refusal:
    """`tf.Variable(3)` -> `tf.Variable(3.0)`, or with a `dtype`."""
    initial = made.args[0] if made.args else next((k.value for k in made.keywords if k.arg == "initial_value"), None)
    dtype = next((k.value for k in made.keywords if k.arg == "dtype"), made.args[4] if len(made.args) > 4 else None)
    if (
        initial is None
        or any(k.arg is None for k in made.keywords)
        or any(isinstance(a, ast.Starred) for a in made.args)
    ):
        return Refusal("what the Variable is made of can't be told; give it a float dtype")
    float_type = with_local_names(edits, "tf.float32", made)
    value = model.value_of(initial)
    if dtype is not None:
        edits.replace(dtype, float_type)
        safe = safe and not _is_float(value)
    elif _literal(initial):
        number = ast.literal_eval(initial)
        edits.replace(initial, repr(float(number)))
    elif value is not None and value.kind == Kind.TENSOR:
        edits.rewrite(initial, with_local_names(edits, "tf.cast({initial}, tf.float32)", made), initial=initial)
    else:
        end = edits.document.span(made)[1] - 1
        last = max(edits.document.span(node)[1] for node in (*made.args, *(k.value for k in made.keywords)))
        if ")" in edits.document.text[last:end]:
            return Refusal("give the Variable a float dtype")
        edits.replace_span(last, last, f", dtype={float_type}")
    return finished(edits, "make the Variable a float", safe=safe)


def _literal(node: ast.expr) -> bool:
    """A whole number as it is written, with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def _is_float(value: Value | None) -> bool:
    return value is None or value.dtype == "float" or isinstance(value.const, float)


def _cast_before(model: Model, cut: Cut, document: Document, source: ast.expr, safe: bool) -> Fix | Refusal:
    """`x = tf.cast(x, tf.float32)` before the tape's block."""
    block = block_of(model, cut)
    if not isinstance(block, Block) or not isinstance(source, ast.Name):
        return Refusal("the tape's block is not in sight; cast the source to a float before it is watched")
    inside = {n.id for n in ast.walk(block.statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if source.id in inside or syntax_of(document).function(block.statement) is not syntax_of(document).function(source):
        return Refusal(f"`{source.id}` is made inside the tape's block; cast it to a float before it is watched")
    edits = EditSet(document)
    cast = with_local_names(edits, f"tf.cast({source.id}, tf.float32)", source)
    edits.insert_before(block.statement, f"{source.id} = {cast}")
    return finished(edits, "make it a float before the tape watches it", safe=safe)


def _uses(model: Model, source: ast.expr) -> tuple[str, bool]:
    """Why the source must stay an integer, or else whether it is nowhere computed with as one."""
    safe = True
    for node in _seen_as(model, source):
        document = next((d for d in _documents(model) if Layout.of(d).parent(node) is not None), None)
        if document is None or node is source:
            continue
        above = Layout.of(document).parent(node)
        if isinstance(above, ast.keyword):
            above = Layout.of(document).parent(above)
        if isinstance(above, ast.Subscript):
            if above.slice is node:
                return f"it is an index in line {above.lineno}, which must be an integer", False
            continue
        if isinstance(above, ast.Call) and node is not above.func:
            name = _name(above.func)
            if name in _INDEXED:
                return f"it is an index in line {above.lineno}, which must be an integer", False
            called = model.value_of(above.func)
            if name in _CAREFREE or called is None or not any(isinstance(ref, Api) for ref in called.refs):
                continue
        elif isinstance(above, _FLOWING) or (isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div)):
            continue
        safe = False
    return "", safe


def _documents(model: Model) -> list[Document]:
    return list(dict.fromkeys([model.document, *model.documents.values()]))


def _seen_as(model: Model, source: ast.expr) -> Iterator[ast.expr]:
    """The expressions that stood for the source, wherever it went."""
    value = model.value_of(source)
    if value is None:
        return
    variables = {ref.spot.node for ref in value.refs if isinstance(ref, Var) and ref.spot is not None}
    for node, seen in model.seen.items():
        if not isinstance(node, ast.expr):
            continue
        if variables:
            if any(isinstance(ref, Var) and ref.spot is not None and ref.spot.node in variables for ref in seen.refs):
                yield node
        elif seen.ref is None and seen.kind == Kind.TENSOR and seen.node is not None and seen.node is value.node:
            yield node


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
