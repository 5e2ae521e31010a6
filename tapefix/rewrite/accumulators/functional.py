"""Rung 4: each write makes a new tensor and binds it to the name.

Right for whatever index, as long as the buffer has one name in one function. Writes of whole slots by leading
positions become `tf.tensor_scatter_nd_update`; anything else goes through a small function that is added to the module.
"""

from __future__ import annotations

import ast

from tapefix.rewrite import names
from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.access import At, Element, Fancy, NewAxis, Read, Rest, Span, Write, leading
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan, Rung
from tapefix.rewrite.accumulators.reads import as_tensor
from tapefix.rewrite.accumulators.syntax import dotted
from tapefix.rewrite.accumulators.values import holds_floats, slot_value, speaks_of_other_floats
from tapefix.rewrite.edits import EditSet

Template = tuple[str, dict[str, ast.AST | str]]

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}

#: `{tf}` is TensorFlow's name in the module, `{name}` the function's
_WITH_VALUE = '''def {name}(array, index, value):
    """What `array` would hold after `array[index] = value`, as a new tensor that keeps the gradients of both."""
    if {tf}.is_tensor(value):
        array = {tf}.cast(array, value.dtype)
    array = {tf}.convert_to_tensor(array)
    value = {tf}.cast(value, array.dtype)
    cells = {cells}
    if value.shape.rank > cells.shape.rank:
        value = {tf}.reshape(value, {tf}.shape(cells))
    value = {tf}.broadcast_to(value, {tf}.shape(cells))
    flat = {tf}.reshape(array, [-1])
    flat = {tf}.tensor_scatter_nd_update(flat, {tf}.reshape(cells, [-1, 1]), {tf}.reshape(value, [-1]))
    return {tf}.reshape(flat, array.shape if array.shape.is_fully_defined() else {tf}.shape(array))
'''


def plan_functional(job: Job, edits: EditSet) -> Plan:
    """Edits for rung 4. Raises NotProven."""
    holds_floats(job)
    guards.every_use_is_known(job)
    guards.not_a_source(job)
    guards.not_aliased(job)
    if job.holder[0] == "attribute":
        _held_by_an_attribute(job)
    elif job.kept_in_a_container:
        _written_as_elements(job)
    else:
        _held_by_names(job, edits)
    edits.replace(job.made.call, first_tensor(job, edits))
    for statement in dict.fromkeys(write.statement for write in job.writes if write.shared):
        _put_one_by_one(job, edits, statement)
    for write in job.writes:
        if write.shared:
            continue
        name = job.source(write.use.spot.node)
        template, parts = updated(job, edits, write, name)
        put(edits, write, f"{name} = {template}", parts, name)
    for read in job.reads:
        as_tensor(job, edits, read)
    return Plan(Applicability.SAFE, (), "make a new tensor at each write and bind it to the name", Rung.FUNCTIONAL)


def put(edits: EditSet, write: Write, statements: str, parts: dict[str, ast.AST | str], result: str) -> None:
    """Puts statements in a write's place; a statement that uses the write's result follows and uses `result`."""
    if write.shared:
        raise NotProven(f"line {write.statement.lineno} writes two places at once")
    if write.result is None:
        edits.rewrite_statement(write.statement, statements, **parts)
        return
    statement = write.statement
    edits.replace(write.result, result)
    assert isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return)
    assert statement.value is not None
    if isinstance(statement, ast.Return):
        rest = "return {rest}"
    else:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        rest = " = ".join(edits.document.source(target) for target in targets) + " = {rest}"
    edits.rewrite_statement(statement, f"{statements}\n{rest}", rest=statement.value, **parts)


def _put_one_by_one(job: Job, edits: EditSet, statement: ast.stmt) -> None:
    """`a[i, j] = a[j, i] = x`: the value once, then each place in turn, as Python does."""
    writes = {write.access.node: write for write in job.writes if write.statement is statement}
    assert isinstance(statement, ast.Assign)
    lines: list[str] = []
    parts: dict[str, ast.AST | str] = {}
    if isinstance(statement.value, ast.Name):
        value = statement.value.id
    else:
        value = names.fresh(edits, statement, "entry")
        lines, parts = [f"{value} = {{entry}}"], {"entry": statement.value}
    for place, target in enumerate(statement.targets):
        write = writes.get(target)
        if write is None:
            lines.append(f"{{target_{place}}} = {value}")
            parts[f"target_{place}"] = target
            continue
        name = job.source(write.use.spot.node)
        template, given = updated(job, edits, write, name)
        for key, node in given.items():
            template = template.replace(f"{{{key}}}", f"{{{key}_{place}}}")
            parts[f"{key}_{place}"] = value if node is statement.value else node
        lines.append(f"{name} = {template}")
    edits.rewrite_statement(statement, "\n".join(lines), **parts)


def _held_by_an_attribute(job: Job) -> None:
    """Every write names the attribute, so that all see it bound anew; and no tensor outlives its trace."""
    for use in job.own_uses:
        node = use.use.spot.node
        if not isinstance(node, ast.Attribute):
            raise NotProven(f"`{job.name}` has a second name, `{ast.unparse(node)}`, on line {job.line(node)}")
        if isinstance(use, Write) and job.facts.traced(node) and not _made_in_the_same_function(job, use):
            raise NotProven(
                f"`{job.name}` is written on line {job.line(node)} while a graph is traced, and outlives it"
            )


def _written_as_elements(job: Job) -> None:
    """The buffer is an element of a container, and every write names it as such, so that it can be bound anew there."""
    for write in job.writes:
        node = write.use.spot.node
        if not isinstance(node, ast.Subscript):
            raise NotProven(f"`{ast.unparse(node)}` on line {job.line(node)} is one of several arrays in a container")
        if job.facts.traced(node) and not _made_in_the_same_function(job, write):
            raise NotProven(f"`{ast.unparse(node)}` is written on line {job.line(node)} while a graph is traced")


def _made_in_the_same_function(job: Job, use: Write) -> bool:
    return job.function_scope(use.use.spot.node) is job.function_scope(job.made.call)


def _held_by_names(job: Job, edits: EditSet) -> None:
    """One local name; a function that gets the buffer as an argument returns what it made of it."""
    name = guards.held_by_one_local_name(job)
    home = job.function_scope(job.made.call)
    helpers: dict[ast.FunctionDef, list[Read]] = {}
    for read in job.own_reads:
        helper = job.handed_to(read)
        if helper is not None:
            helpers.setdefault(helper, []).append(read)
    declared: list[ast.FunctionDef] = []
    for use in job.own_uses:
        node = use.use.spot.node
        scope = job.function_scope(node)
        if scope is not home and ast.unparse(node) == name and job.syntax.visible(name, node)[0] is home:
            if isinstance(use, Write) and isinstance(scope, ast.FunctionDef) and scope not in declared:
                declared.append(scope)
            continue
        if scope is not home and scope not in helpers:
            raise NotProven(f"`{job.name}` is also used by another function, on line {job.line(node)}")
        if scope is home and ast.unparse(node) != name:
            raise NotProven(f"`{job.name}` has a second name, `{ast.unparse(node)}`, on line {job.line(node)}")
    guards.bound_once(job, name)
    for function in declared:
        if job.facts.traced(function.body[0]) and not job.facts.traced(job.made.call):
            raise NotProven(
                f"`{name}` is written by `{function.name}` (line {job.line(function)}) while a graph is traced"
            )
        if not any(isinstance(s, ast.Global | ast.Nonlocal) and name in s.names for s in ast.walk(function)):
            word = "global" if home is job.syntax.tree else "nonlocal"
            first = function.body[0]
            docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
            edits.insert_before(function.body[1] if docstring else first, f"{word} {name}")
    for helper, reads in helpers.items():
        returns_its_argument(job, edits, helper, reads)


def returns_its_argument(job: Job, edits: EditSet, helper: ast.FunctionDef, reads: list[Read]) -> None:
    """Lets a function that fills an argument return it, and its callers bind the result. Raises NotProven."""
    if all(guards.given_back(job, read) is not None for read in reads):
        _every_caller_hands_it(job, helper, reads)
        return
    calls = [c for c in ast.walk(job.syntax.tree) if isinstance(c, ast.Call) and _called(c) == helper.name]
    handed = {job.syntax.statement(read.use.spot.node): read for read in reads}
    names = {ast.unparse(u.use.spot.node) for u in job.own_uses if job.function_scope(u.use.spot.node) is helper}
    if len(names) != 1:
        raise NotProven(f"`{helper.name}` (line {job.line(helper)}) knows the buffer by several names")
    name = names.pop()
    for node in ast.walk(helper):
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            raise NotProven(f"`{helper.name}` already returns a value on line {job.line(node)}")
    for call in calls:
        statement = job.syntax.statement(call)
        if statement not in handed or not (isinstance(statement, ast.Expr) and statement.value is call):
            raise NotProven(f"`{helper.name}` is called on line {job.line(call)} in another way")
    for binding in job.syntax.bindings(name, helper):
        if not isinstance(binding, ast.arg):
            raise NotProven(f"`{name}` is bound again on line {job.line(binding)}")
    edits.insert_after(helper.body[-1], f"return {name}")
    for statement, read in handed.items():
        edits.replace_statement(statement, f"{job.source(read.use.spot.node)} = {job.source(statement)}")


def _every_caller_hands_it(job: Job, helper: ast.FunctionDef, reads: list[Read]) -> None:
    handed = {read.use.statement for read in reads}
    for call in job.facts.calls(helper):
        if job.syntax.statement(call) not in handed:
            raise NotProven(f"`{helper.name}` is called on line {job.line(call)} with another array")


def _called(call: ast.Call) -> str:
    return (dotted(call.func) or "").split(".")[-1]


def first_tensor(job: Job, edits: EditSet) -> str:
    """The buffer's first content as a tensor (or as the array it was, where the values' type is not known)."""
    made = job.made
    tf = job.tf(edits, job.maker_statement)
    guards.made_from_seen_content(job)
    source = job.source(made.array)
    if made.library == "variable":
        written = _variable_dtype(job)
        if written is not None:
            return f"{tf}.cast({source}, {job.source(written)})"
        tensor = isinstance(made.array, ast.Call) and source.startswith(f"{tf}.")
        return source if tensor else f"{tf}.convert_to_tensor({source})"
    if (
        made.like is not None
        and made.array is made.core
        and not made.dtype_written
        and source.split("(")[0].endswith("_like")
    ):
        kind = "ones_like" if made.content == "ones" else "zeros_like"
        if made.content != "full":
            return f"{tf}.{kind}({job.source(made.like)})"
    if made.dtype == "float32":
        return _float32(job, tf)
    if made.dtype_written or speaks_of_other_floats(job.document):
        return source
    return _float32(job, tf) if _only_scatters(job) else source


def _float32(job: Job, tf: str) -> str:
    """A NumPy array's first content as a float32 tensor."""
    made = job.made
    call = made.core
    size = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if size is not None and made.like is not size:
        name = {"zeros": "zeros", "empty": "zeros", "ones": "ones"}.get(made.content)
        if name is not None and not (made.rank == 1 and not isinstance(size, ast.Tuple | ast.List)):
            return f"{tf}.{name}({job.source(size)})"
        if name is not None:
            return f"{tf}.{name}([{job.source(size)}])"
    return f"{tf}.cast({job.source(made.array)}, {tf}.float32)"


def _only_scatters(job: Job) -> bool:
    return all(_scatter_positions(job, write) is not None for write in job.writes if write.form != "whole")


def _variable_dtype(job: Job) -> ast.expr | None:
    call = job.made.call
    if isinstance(call, ast.Call):
        return next((k.value for k in call.keywords if k.arg == "dtype"), None)
    return None


# one write


def updated(job: Job, edits: EditSet, write: Write, name: str, typed: str = "") -> Template:
    """The buffer after a write as a template over `name`, which holds it as a tensor before.

    `typed` is what has the buffer's element type, where `name` may not be bound yet.
    """
    if write.form == "scatter":
        return _scattered(job, edits, write, name)
    assert write.value is not None
    if write.form == "fill":
        tf = job.tf(edits, write.statement)
        return f"{tf}.fill({tf}.shape({name}), {tf}.cast({{value}}, {name}.dtype))", {"value": write.value}
    if write.access.whole:
        return _whole(job, edits, write, name, typed or name)
    positions = _scatter_positions(job, write)
    if positions is not None and write.operation == "set":
        value, parts = slot_value(job, edits, write, list(range(len(positions))), _slot_now(job, write, name))
        tf = job.tf(edits, write.statement)
        parts |= {f"at{k}": position for k, position in enumerate(positions)}
        index = ", ".join(f"{{at{k}}}" for k in range(len(positions)))
        return f"{tf}.tensor_scatter_nd_update({name}, [[{index}]], [{value}])", parts
    return _by_function(job, edits, write, name)


def _slot_now(job: Job, write: Write, name: str) -> str:
    """What the written slot holds before."""
    return job.source(write.access.node).replace(job.source(write.use.spot.node), name, 1)


def _whole(job: Job, edits: EditSet, write: Write, name: str, typed: str) -> Template:
    assert write.value is not None
    if write.operation != "set":
        return f"{name} {_SIGNS[write.operation]} {{value}}", {"value": write.value}
    tf = job.tf(edits, write.statement)
    if write.call is not None:
        plain = "{value}" if _is_tensor(write.value, job) else f"{tf}.convert_to_tensor({{value}}, {typed}.dtype)"
        return plain, {"value": write.value}
    if job.facts.rank(write.value) == 0 and job.facts.is_number(write.value):
        return f"{tf}.fill({tf}.shape({name}), {tf}.cast({{value}}, {name}.dtype))", {"value": write.value}
    return f"{tf}.broadcast_to({{value}}, {tf}.shape({name}))", {"value": write.value}


def _is_tensor(value: ast.expr, job: Job) -> bool:
    """Whether a value assigned to a Variable is no number, list or NumPy array, as far as its syntax shows."""
    if job.facts.is_number(value) or isinstance(value, ast.List | ast.Tuple | ast.ListComp):
        return False
    return not (isinstance(value, ast.Call) and (dotted(value.func) or "").startswith(("np.", "numpy.")))


def _scatter_positions(job: Job, write: Write) -> list[ast.expr] | None:
    """The positions of a write that `tf.tensor_scatter_nd_update` can do: leading ones, none of them negative."""
    if write.form not in ("item", "method", "augmented"):
        return None
    positions = leading(write.access.index)
    known = job.made.library == "variable" or job.made.dtype == "float32" or not speaks_of_other_floats(job.document)
    numbers = (
        job.made.library == "numpy"
        and not write.use.carries
        and not job.facts.is_number(write.value or ast.Constant(0))
    )
    if positions is None or not known or numbers or not all(job.facts.is_natural(p) for p in positions):
        return None
    return positions if write.operation == "set" else None


def _scattered(job: Job, edits: EditSet, write: Write, name: str) -> Template:
    """`v.scatter_nd_add(indices, updates)`, `v.scatter_add(tf.IndexedSlices(rows, indices))`."""
    assert write.call is not None
    assert isinstance(write.call.func, ast.Attribute)
    tf = job.tf(edits, write.statement)
    method = write.call.func.attr
    kind = {"set": "update", "add": "add", "sub": "sub", "max": "max", "min": "min"}[write.operation]
    arguments = {k.arg: k.value for k in write.call.keywords}
    if method.startswith("scatter_nd_"):
        indices = write.call.args[0] if write.call.args else arguments.get("indices")
        updates = write.call.args[1] if len(write.call.args) > 1 else arguments.get("updates")
        if indices is None or updates is None:
            raise NotProven(f"the arguments of `{method}` on line {job.line(write.statement)} are not seen")
        return f"{tf}.tensor_scatter_nd_{kind}({name}, {{indices}}, {{updates}})", {
            "indices": indices,
            "updates": updates,
        }
    if method == "batch_scatter_update":
        raise NotProven(f"line {job.line(write.statement)}: `batch_scatter_update` has no counterpart for tensors")
    delta = write.call.args[0] if write.call.args else arguments.get("sparse_delta")
    match delta:
        case ast.Call(
            func=ast.Attribute(attr="IndexedSlices") | ast.Name(id="IndexedSlices"), args=args, keywords=keywords
        ):
            given = {k.arg: k.value for k in keywords}
            rows = args[0] if args else given.get("values")
            at = args[1] if len(args) > 1 else given.get("indices")
            if rows is not None and at is not None:
                template = f"{tf}.tensor_scatter_nd_{kind}({name}, {tf}.expand_dims({{at}}, -1), {{rows}})"
                return template, {"at": at, "rows": rows}
        case ast.Name() | ast.Attribute():
            template = (
                f"{tf}.tensor_scatter_nd_{kind}({name}, {tf}.expand_dims({{delta}}.indices, -1), {{delta}}.values)"
            )
            return template, {"delta": delta}
    raise NotProven(f"the rows that line {job.line(write.statement)} scatters are not seen")


def _by_function(job: Job, edits: EditSet, write: Write, name: str) -> Template:
    """Any other index: by the function that this adds to the module."""
    assert write.value is not None
    arrays = any(isinstance(e, Fancy) or (isinstance(e, At) and _may_be_array(job, e.node)) for e in write.access.index)
    if arrays and job.facts.traced(write.statement):
        raise NotProven(f"line {job.line(write.statement)} writes by an index that may be an array, inside a graph")
    function = with_value_function(job, edits, arrays)
    index = ", ".join(_element_text(job, e) for e in write.access.index)
    if len(write.access.index) > 1:
        index = f"({index})"
    parts: dict[str, ast.AST | str] = {"value": write.value}
    if write.operation == "set":
        return f"{function}({name}, {index}, {{value}})", parts
    subscript = job.source(write.access.node)[len(job.source(write.use.spot.node)) :]
    return f"{function}({name}, {index}, {name}{subscript} {_SIGNS[write.operation]} {{value}})", parts


def _may_be_array(job: Job, position: ast.expr) -> bool:
    return not job.facts.is_position(position) and job.facts.rank(position) != 0


def _element_text(job: Job, element: Element) -> str:
    match element:
        case At(node=node) | Fancy(node=node):
            return job.source(node)
        case Span(node=node):
            limits = [job.source(n) if n is not None else "None" for n in (node.lower, node.upper)]
            if node.step is not None:
                return f"slice({limits[0]}, {limits[1]}, {job.source(node.step)})"
            return "slice(None)" if limits == ["None", "None"] else f"slice({', '.join(limits)})"
        case Rest():
            return "..."
        case NewAxis():
            return "None"
    raise AssertionError(element)


def with_value_function(job: Job, edits: EditSet, arrays: bool) -> str:
    """The name of the module's function that makes a tensor with a part replaced; added where it is not there yet."""
    tree = job.document.tree
    first = next((s for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)), None)
    tf = job.tf(edits, job.maker_statement)
    cells = f"{tf}.reshape({tf}.range({tf}.size(array)), {tf}.shape(array))"
    cells = f"{tf}.convert_to_tensor({cells}.numpy()[index])" if arrays else f"{cells}[index]"
    base = "with_values_at" if arrays else "with_value_at"
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name.startswith(base):
            same = _WITH_VALUE.format(name=statement.name, tf=tf, cells=cells)
            if ast.unparse(ast.parse(same)) == ast.unparse(statement):
                return statement.name
    if (edits, base) in job.functions_added:
        return job.functions_added[edits, base]
    place = _after_imports(tree) or first or tree.body[0]
    name = names.fresh(edits, place, base)
    text = _WITH_VALUE.format(name=name, tf=tf, cells=cells)
    if isinstance(place, ast.Import | ast.ImportFrom | ast.Expr):
        following = tree.body[tree.body.index(place) + 1 :]
        blank = following[0].lineno - (place.end_lineno or place.lineno) - 1 if following else 2
        edits.insert_after(place, "\n\n" + text + "\n" * max(0, 2 - blank))
    else:
        edits.insert_before(place, text + "\n\n")
    job.functions_added[edits, base] = name
    return name


def _after_imports(tree: ast.Module) -> ast.stmt | None:
    """The last import at the top of the module."""
    found: ast.stmt | None = None
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found = statement
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            break
    return found
