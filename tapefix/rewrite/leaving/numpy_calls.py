"""NumPy and math functions, ndarray methods and attributes on tensors, said in TensorFlow."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapefix.codemod import Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Model
from tapefix.flow.values import Kind
from tapefix.rewrite.accumulators import SyntaxFacts
from tapefix.rewrite.accumulators.syntax import Syntax, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.leaving.handed_on import as_values
from tapefix.rewrite.leaving.variables import converted
from tapefix.rewrite.leaving.writing import finished, put
from tapefix.rewrite.numpy_table import translate_attribute, translate_call
from tapefix.rewrite.numpy_table.row import Rewrite, is_plain
from tapefix.rewrite.numpy_table.written import write

_LIBRARIES = ("numpy.", "math.")
#: what turns a value into a number, a text or a position: a tensor there serves nobody
_NUMBER_WANTED = frozenset(
    {"int", "float", "bool", "round", "range", "len", "print", "str", "format", "repr", "isinstance"}
)


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
    """A NumPy or math function on tensors as TensorFlow's function of the same meaning.

    The other NumPy calls on tensors that the function's result is made of go along: nobody means to detach by them.
    """
    handed = as_values(model, document, call)
    if handed is not None:
        return handed
    rewrite = _translated(document, call, name, tensors_in(model, call))
    if isinstance(rewrite, Refusal):
        return rewrite
    edits, done = EditSet(document), set[ast.AST]()
    try:
        problem = write(edits, call, rewrite)
        if problem is not None:
            return problem
        converted(model, edits, rewrite)
        _matrix_products(model, edits, call, done)
        for other, its_name, tensors in _companions(model, document, call):
            translated = _translated(document, other, its_name, tensors)
            if isinstance(translated, Rewrite) and write(edits, other, translated) is None:
                converted(model, edits, translated)
                _matrix_products(model, edits, other, done)
        return finished(edits, f"say {name.replace('numpy.', 'np.')} in TensorFlow")
    except EditConflict as conflict:
        return Refusal(str(conflict))


def _translated(document: Document, call: ast.Call, name: str, tensors: list[ast.expr]) -> Rewrite | Refusal:
    rewrite = translate_call(document, call, name, tensors)
    if isinstance(rewrite, Rewrite) and not rewrite.differentiable:
        return Refusal(f"{name.replace('numpy.', 'np.')} has no gradient in TensorFlow either")
    return rewrite


def _companions(model: Model, document: Document, call: ast.Call) -> Iterator[tuple[ast.Call, str, list[ast.expr]]]:
    """The other NumPy calls on tensors in the same statement, or in those of the same function that make values.

    Each with its name and the arguments that are tensors, now or once the calls before it are TensorFlow's.
    """
    syntax = syntax_of(document)
    statement, scope = syntax.statement(call), syntax.scope(call)
    whole = isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef))
    made: set[ast.AST] = {call}
    names = _names_made_of(statement) if whole else set()
    nodes = [n for n in ast.walk(scope if whole else statement) if isinstance(n, ast.Call) and n is not call]
    for node in sorted(nodes, key=lambda n: (n.end_lineno or 0, n.end_col_offset or 0)):  # the innermost first
        name, its_statement = model.api_of(node.func), syntax.statement(node)
        if syntax.scope(node) is not scope or not name.startswith(_LIBRARIES):
            continue
        same = its_statement is statement
        known = tensors_in(model, node)
        follow = [one for one in _inputs(node) if one not in known and _made_of_these(one, made, names)]
        counts = follow or (known if same else [one for one in known if model.depends(one)])
        makes = isinstance(its_statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return))
        if counts and (same or makes) and not _number_wanted(model, syntax, node):
            made.add(node)
            names |= _names_made_of(its_statement)
            yield node, name, [*known, *follow]


def _inputs(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _names_made_of(statement: ast.stmt) -> set[str]:
    """The names that the statement gives to values."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def _made_of_these(node: ast.expr, calls: set[ast.AST], names: set[str]) -> bool:
    """Whether the expression's value is made of one of the calls or names (not of its shape)."""
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "ndim", "size"):
        return False
    if node in calls or (isinstance(node, ast.Name) and node.id in names):
        return True
    if isinstance(node, ast.Call):
        return False  # what another call makes of it is not known here
    return any(_made_of_these(n, calls, names) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))


def _number_wanted(model: Model, syntax: Syntax, node: ast.expr) -> bool:
    """Whether the value only serves as an index, a condition, a Python number or a text."""
    inner: ast.AST = node
    for above in syntax.ancestors(node):
        if isinstance(above, ast.stmt):
            return isinstance(above, (ast.If, ast.While, ast.Assert)) and inner is above.test
        if (isinstance(above, ast.Subscript) and inner is above.slice) or isinstance(above, ast.JoinedStr):
            return True
        if (isinstance(above, ast.IfExp) and inner is above.test) or isinstance(above, ast.Compare):
            return True
        if isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in _NUMBER_WANTED:
            return True
        if isinstance(above, ast.Call) and model.api_of(above.func).startswith("numpy.random."):
            return True
        inner = above
    return False


def _matrix_products(model: Model, edits: EditSet, call: ast.Call, done: set[ast.AST]) -> None:
    """`a @ b` with what was an array: TensorFlow's product wants matrices on both sides, NumPy's takes vectors too."""
    syntax = syntax_of(edits.document)
    facts = SyntaxFacts(syntax)
    for node in _made_of(syntax, call):
        product = syntax.parent(node)
        while isinstance(product, ast.BinOp) and isinstance(product.op, ast.MatMult):
            _product(model, facts, edits, product, done)
            product = syntax.parent(product)


def _made_of(syntax: Syntax, call: ast.Call) -> Iterator[ast.expr]:
    """The call and the later uses of the name that is bound to it."""
    yield call
    statement = syntax.parent(call)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        scope = syntax.scope(call)
        for node in ast.walk(scope):
            if isinstance(node, ast.Name) and node.id == statement.targets[0].id and isinstance(node.ctx, ast.Load):
                if syntax.before(statement, node):
                    yield node


def _product(model: Model, facts: SyntaxFacts, edits: EditSet, product: ast.BinOp, done: set[ast.AST]) -> None:
    ranks = facts.rank(product.left), facts.rank(product.right)
    if all(rank is not None and rank >= 2 for rank in ranks) or product in done:
        return
    if model.is_tensor(product.left) or model.is_tensor(product.right):
        return  # one side was a tensor before: the other is a matrix
    done.add(product)
    parts = [product.left, product.right]
    arrays = [model.kind_of(one) == Kind.ARRAY and not model.lost_at(one) for one in parts]
    plain = [is_plain(one) for one in parts]
    texts = ["{left}", "{right}"]
    for k in (0, 1):
        if arrays[k] and not arrays[1 - k] and plain[1 - k]:
            texts[k] = f"tf.cast({texts[k]}, {texts[1 - k]}.dtype)"
    put(edits, product, f"tf.experimental.numpy.matmul({texts[0]}, {texts[1]})", left=parts[0], right=parts[1])


def attribute_in_tensorflow(document: Document, node: ast.Attribute) -> Fix | Refusal:
    rewrite = translate_attribute(node)
    if isinstance(rewrite, Refusal):
        return rewrite
    return written(document, node, rewrite, f"say `.{node.attr}` in TensorFlow")


def written_call(model: Model, document: Document, call: ast.Call, name: str) -> Fix | Refusal:
    """An ndarray's method on a tensor, differentiable or not."""
    rewrite = translate_call(document, call, name, tensors_in(model, call))
    if isinstance(rewrite, Refusal):
        return rewrite
    return written(document, call, rewrite, f"say `.{name.rpartition('.')[2]}()` in TensorFlow")


def written(document: Document, node: ast.expr, rewrite: Rewrite, message: str) -> Fix | Refusal:
    edits = EditSet(document)
    try:
        problem = write(edits, node, rewrite)
        return problem if problem is not None else finished(edits, message)
    except EditConflict as conflict:
        return Refusal(str(conflict))
