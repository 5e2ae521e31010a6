"""A generator that yields a model's outputs yields its inputs, and the model runs inside the tape of the loop."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.flow import Cut, Model
from tapefix.rewrite.accumulators.syntax import Syntax, names_read, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet
from tapefix.rewrite.tape_block import Block

_MESSAGE = "yield the inputs and run the forward pass inside the tape"


@dataclass(frozen=True)
class _Round:
    """A generator's only `yield`, the loop over it, and the element of which the gradient is lost."""

    generator: ast.FunctionDef
    call: ast.Call
    loop: ast.For
    forward: ast.Call  # the element of the yield
    target: ast.Name  # the element's name in the loop


def fed_by_the_loop(model: Model, cut: Cut, block: Block) -> Fix | Refusal:
    """`yield model(x), y` as `yield x, y`, with `p = model(x)` first in the block."""
    document = block.document
    if model.document_of(cut.spot) is not document:
        return Refusal("the generator is in another file than the tape")
    syntax = syntax_of(document)
    found = _round(model, syntax, cut, block)
    if isinstance(found, Refusal):
        return found
    text = _called_there(document, syntax, found)
    if isinstance(text, Refusal):
        return text
    early = _read_before(syntax, found, block)
    if early:
        return Refusal(early)
    (argument,) = found.forward.args
    name = _name_of_input(syntax, found, argument)
    given = f"{text}({', '.join([name, *(document.source(k) for k in found.forward.keywords)])})"
    edits = EditSet(document)
    try:
        edits.replace(found.forward, document.source(argument))
        edits.replace(found.target, name)
        edits.insert_before(block.statement.body[0], f"{found.target.id} = {given}")
        return Fix(Applicability.UNSAFE, _MESSAGE, edits.edits(), ("open the tape inside the generator",))
    except EditConflict as conflict:
        return Refusal(str(conflict))


def is_yielded(cut: Cut) -> bool:
    """Whether a generator yields what is computed at the cut."""
    return isinstance(cut.spot.node, ast.Expr) and isinstance(cut.spot.node.value, ast.Yield)


def _round(model: Model, syntax: Syntax, cut: Cut, block: Block) -> _Round | Refusal:
    generator, yielded = cut.spot.function, _only_yield(cut)
    if not isinstance(generator, ast.FunctionDef) or yielded is None or yielded.value is None:
        return Refusal("the forward pass is not what a generator yields; run it inside the tape")
    uses = syntax.uses_named(generator.name)
    call = syntax.parent(uses[0]) if len(uses) == 1 else None
    if call is None or not isinstance(call, ast.Call) or call.func is not uses[0]:
        return Refusal(f"`{generator.name}` is not called in one place alone; run the forward pass inside the tape")
    numbered = syntax.parent(call)
    counted = isinstance(numbered, ast.Call) and ast.unparse(numbered.func) == "enumerate"
    iterated = numbered if counted else call
    loop = syntax.parent(iterated) if iterated is not None else None
    if not isinstance(loop, ast.For) or loop.iter is not iterated or loop not in syntax.loops(block.statement):
        return Refusal(f"what `{generator.name}` yields is not looped over around the tape; run the model inside it")
    target = loop.target
    if counted:
        target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
    pairs = list(_pairs(yielded.value, target))
    carried = [(value, name) for value, name in pairs if (known := model.value_of(value)) is not None and known.live]
    if len(carried) != 1:
        return Refusal("which element of the yield the forward pass gives can't be told; run it inside the tape")
    ((forward, name),) = carried
    plain = isinstance(forward, ast.Call) and len(forward.args) == 1 and not isinstance(forward.args[0], ast.Starred)
    constant = plain and all(k.arg and isinstance(k.value, ast.Constant) for k in forward.keywords)  # type: ignore[attr-defined]
    if not constant or not isinstance(forward, ast.Call) or not isinstance(name, ast.Name):
        return Refusal("what is yielded is no plain call of a model; yield its inputs and run it inside the tape")
    return _Round(generator, call, loop, forward, name)


def _only_yield(cut: Cut) -> ast.Yield | None:
    """The statement of the cut, if it is the only `yield` of its function."""
    if cut.spot.function is None or not is_yielded(cut):
        return None
    yields = [n for n in ast.walk(cut.spot.function) if isinstance(n, (ast.Yield, ast.YieldFrom))]
    return yields[0] if len(yields) == 1 and isinstance(yields[0], ast.Yield) else None


def _pairs(value: ast.expr, target: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """The elements of a yield, each with what the loop calls it; none if they can't be told apart."""
    if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple):
        starred = any(isinstance(e, ast.Starred) for e in (*value.elts, *target.elts))
        same = len(value.elts) == len(target.elts) and not starred
        return list(zip(value.elts, target.elts, strict=True)) if same else []
    return [] if isinstance(value, ast.Tuple) or isinstance(target, ast.Tuple) else [(value, target)]


def _called_there(document: Document, syntax: Syntax, found: _Round) -> str | Refusal:
    """What the generator calls the model by, as it is called in the loop."""
    function, generator = found.forward.func, found.generator
    root = function
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return Refusal("the model is no plain name; run it inside the tape")
    scope, _ = syntax.visible(root.id, found.forward)
    if scope is not generator:
        same = syntax.visible(root.id, found.loop)[0] is scope
        return document.source(function) if same else Refusal(f"`{root.id}` means something else beside the tape")
    passed = _argument(syntax, found, root.id)
    if passed is None:
        return Refusal(f"what `{root.id}` is can't be told beside the tape; run the model inside it")
    return passed + document.source(function)[len(root.id) :]


def _read_before(syntax: Syntax, found: _Round, block: Block) -> str:
    """Why the output would be missing somewhere in the loop; "" if it would not."""
    if block.statement not in found.loop.body:
        return "the tape's block is not reached in each step of the loop; run the forward pass inside it"
    for statement in found.loop.body[: found.loop.body.index(block.statement)]:
        if found.target.id in names_read(statement):
            return f"line {statement.lineno} uses `{found.target.id}` before the tape is opened"
    return ""


def _argument(syntax: Syntax, found: _Round, name: str) -> str | None:
    """What the loop gives the generator for a parameter, if it is a name or an attribute of one."""
    arguments, call = found.generator.args, found.call
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    rebound = [b for b in syntax.bindings(name, found.generator) if not isinstance(b, ast.arg)]
    if rebound or name not in names or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    given: ast.expr | None = next((k.value for k in call.keywords if k.arg == name), None)
    at = names.index(name)
    if isinstance(syntax.parent(found.generator), ast.ClassDef):
        if found.generator.decorator_list or not isinstance(call.func, ast.Attribute):
            return None
        given = call.func.value if at == 0 else given
        at -= 1
    if given is None and 0 <= at < len(call.args):
        given = call.args[at]
    root = given
    while isinstance(root, ast.Attribute):
        root = root.value
    return ast.unparse(given) if given is not None and isinstance(root, ast.Name) else None


def _name_of_input(syntax: Syntax, found: _Round, argument: ast.expr) -> str:
    """The input's own name where it is free beside the tape; that of the output otherwise."""
    if not isinstance(argument, ast.Name) or hasattr(builtins, argument.id):
        return found.target.id
    return found.target.id if syntax.visible(argument.id, found.loop)[1] else argument.id
