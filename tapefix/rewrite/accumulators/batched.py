"""The batched form of a loop over samples: what ran once per sample runs once for all of them (unsafe).

    for j in range(n):                               steps = []
        steps = np.zeros((m, d))                     for i in range(m):
        for i in range(m):                               steps.append(self.local(x[:, i]))
            steps[i] = self.local(x[j, i][None])     steps = tf.stack(steps, axis=1)
        out[j] = self.head(steps[None])              out = self.head(steps)

It changes the result of layers that mix the samples of a batch or treat a batch of one otherwise (batch
normalisation in training, dropout draws), so that it is never offered as a safe fix.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence

from tapefix.documents.document import Document, Edit
from tapefix.flow.facts import Buffer
from tapefix.rewrite import build, imports
from tapefix.rewrite.accumulators import guards
from tapefix.rewrite.accumulators.access import At, NewAxis, Rest, Span, parse_index
from tapefix.rewrite.accumulators.facts import Facts, SyntaxFacts
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.loops import counters
from tapefix.rewrite.accumulators.outcome import Applicability, NotProven, Plan, Refusal, Rung
from tapefix.rewrite.accumulators.reads import as_tensor
from tapefix.rewrite.accumulators.sequence import filling
from tapefix.rewrite.accumulators.syntax import dotted, names_read, syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet

_MESSAGE = "run the loop's body once for the whole batch (assumes that layers treat the samples of a batch alone)"
_ELEMENTWISE = {
    "relu", "sigmoid", "tanh", "softplus", "exp", "log", "sqrt", "square", "abs", "negative", "sin", "cos", "elu",
    "identity", "cast", "stop_gradient", "clip_by_value", "convert_to_tensor", "softmax", "log_softmax",
}  # fmt: skip


class Axis(enum.Enum):
    """Where the batch axis of a value comes from."""

    NONE = "the same for every sample"
    FRONT = "put in front of the sample's own axes"
    ONE = "in place of the leading axis of size one"


def plan_batched(
    document: Document, outer: Buffer, inner: Sequence[Buffer] = (), facts: Facts | None = None
) -> Plan | Refusal:
    """The unsafe plan that takes away the loop that fills `outer` sample by sample.

    `inner` are the buffers that each of its passes makes anew.
    """
    syntax = syntax_of(document)
    facts = facts or SyntaxFacts(syntax)
    job = Job.of(document, syntax, facts, outer)
    try:
        return Plan(Applicability.UNSAFE, _Batching(job, inner).edits_of_all(), _MESSAGE, Rung.LIST)
    except NotProven as reason:
        return reason.refusal
    except EditConflict as conflict:
        return Refusal(str(conflict))


class _Batching:
    """One loop over samples on its way to a batch."""

    def __init__(self, job: Job, inner: Sequence[Buffer]):
        self.job = job
        self.edits = EditSet(job.document)
        self.axes: dict[str, Axis] = {}
        self.loop = self._sample_loop()
        self.inner = {
            jobs.made.call: jobs
            for buffer in inner
            if job.syntax.inside((jobs := Job.of(job.document, job.syntax, job.facts, buffer)).made.call, self.loop)
        }
        self.counter = ""

    def _sample_loop(self) -> ast.For:
        job = self.job
        guards.every_use_is_known(job)
        guards.used_in_one_function_by_one_name(job)
        guards.only_set(job)
        guards.held_by_one_local_name(job)
        fill = filling(job)
        guards.not_read_before(job, fill.end)
        if fill.axis or fill.flat or fill.backwards or len(fill.loops) != 1 or not isinstance(fill.loops[0], ast.For):
            raise NotProven(f"`{job.name}` is not filled sample by sample in one `for` loop")
        return fill.loops[0]

    def edits_of_all(self) -> tuple[Edit, ...]:
        job = self.job
        self._bind_targets()
        self.edits.delete_statement(job.maker_statement)
        if job.holder[0] != "name" or not isinstance(job.syntax.parent(job.made.call), ast.Assign):
            raise NotProven(f"line {job.line(job.made.call)} makes more than `{job.name}`")
        for statement in self.loop.body:
            self._statement(statement)
        for read in job.own_reads:
            as_tensor(job, self.edits, read)
        imports.remove_unused(self.edits)
        return _difference(job.document, self._without_loop())

    def _bind_targets(self) -> None:
        """The loop's counter, and the sample that `enumerate` gives."""
        found = counters(self.loop, self.job.dims)
        if not found:
            raise NotProven(f"the loop on line {self.loop.lineno} does not count the samples")
        self.counter = found[0].name
        match self.loop.target, self.loop.iter:
            case ast.Tuple(elts=[_, ast.Name(id=sample)]), ast.Call(func=ast.Name(id="enumerate"), args=[whole]):
                self.axes[sample] = Axis.FRONT
                self.edits.insert_before(self.loop, f"{sample} = {self.job.source(whole)}")
            case ast.Name(), _:
                pass
            case _:
                raise NotProven(f"the loop on line {self.loop.lineno} runs over several things at once")

    def _without_loop(self) -> str:
        """The text after all edits, the loop's body moved out of it."""
        after = self.edits.apply()
        loops = [n for n in ast.walk(self.job.document.tree) if isinstance(n, ast.For)]
        loop = [n for n in ast.walk(after.tree) if isinstance(n, ast.For)][loops.index(self.loop)]
        start = after.offset(loop.lineno, 0)
        header = loop.iter.end_lineno or loop.lineno
        if loop.body[0].lineno <= header:
            raise NotProven(f"the loop on line {self.loop.lineno} stands on one line with its body")
        body = after.offset(header + 1, 0)  # comments before the first statement come along
        end = after.span(loop)[1]
        indent = after.indent(loop)
        moved = build.reindent(after.text[body:end], after.indent(loop.body[0]), indent, after.newline)
        return after.text[:start] + moved + after.text[end:]

    # statements

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                self._write(statement, target, value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if value in self.inner:
                    self.edits.replace(value, "[]")
                    return
                self.axes[name] = self._expression(value)
            case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                self._inner_loop(target, iterable, body)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise NotProven(f"line {statement.lineno} can't be run for a whole batch")

    def _inner_loop(self, target: ast.expr, iterable: ast.expr, body: list[ast.stmt]) -> None:
        match iterable:
            case ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name(id=name) as whole]) if name in self.axes:
                if self.axes[name] is not Axis.FRONT or not isinstance(target, ast.Tuple):
                    raise NotProven(f"line {iterable.lineno} runs over a batch of one")
                tf = self.job.tf(self.edits, self.loop)
                self.edits.rewrite(whole, tf + ".unstack({whole}, axis=1)", whole=whole)
                self.axes[ast.unparse(target.elts[1])] = Axis.FRONT
            case _:
                if self._expression(iterable) is not Axis.NONE:
                    raise NotProven(f"line {iterable.lineno} runs over a sample")
        for statement in body:
            self._statement(statement)

    def _write(self, statement: ast.Assign, target: ast.Subscript, value: ast.expr) -> None:
        """A write into the outer buffer, or into one made for each sample."""
        axis = self._expression(value)
        if any(write.statement is statement for write in self.job.writes):
            if axis is Axis.NONE:
                raise NotProven(f"line {statement.lineno} writes the same for every sample")
            tf, shape = self.job.tf(self.edits, statement), self._shape_of_all(statement)
            self.edits.rewrite_statement(statement, f"{self.job.name} = {tf}.reshape({{value}}, {shape})", value=value)
            return
        for job in self.inner.values():
            if any(write.statement is statement for write in job.writes):
                fill = filling(job)
                guards.not_read_before(job, fill.end)
                if fill.flat or fill.axis or fill.backwards or axis is Axis.NONE:
                    raise NotProven(f"line {statement.lineno} does not fill `{job.name}` slot by slot")
                self.edits.rewrite_statement(statement, f"{job.name}.append({{value}})", value=value)
                tf = job.tf(self.edits, statement)
                stacked = f"{tf}.stack({job.name}, axis=1)"
                sizes = job.made.shape
                if sizes is None or len(sizes) != 2:  # a slot may hold more or fewer axes than what is written
                    stacked = f"{tf}.reshape({stacked}, {self._batch_of(sizes, statement, job.name)})"
                self.edits.insert_after(fill.end, f"{job.name} = {stacked}")
                self.axes[job.name] = Axis.FRONT
                return
        raise NotProven(f"line {statement.lineno} writes into `{ast.unparse(target.value)}`")

    def _shape_of_all(self, statement: ast.stmt) -> str:
        """The buffer's shape: a write broadcasts a `(1, d)` into a `(d,)`, a batch of such has to be told."""
        made = self.job.made
        if made.like is not None:
            return f"{self.job.tf(self.edits, statement)}.shape({self.job.source(made.like)})"
        return self._batch_of(made.shape[1:] if made.shape else None, statement, self.job.name)

    def _batch_of(self, sizes: Sequence[ast.expr] | None, statement: ast.stmt, name: str) -> str:
        if sizes is None:
            raise NotProven(f"the shape of a slot of `{name}`, which line {statement.lineno} fills, is not known")
        return f"[{', '.join(['-1', *(self.job.source(size) for size in sizes)])}]"

    # expressions

    def _expression(self, node: ast.expr) -> Axis:
        """Edits an expression so that it works on the batch; where its batch axis is then."""
        match node:
            case ast.Name(id=name):
                if name == self.counter:
                    raise NotProven(f"line {node.lineno} uses the number of the sample, `{name}`")
                return self.axes.get(name, Axis.NONE)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, right=right):
                return self._joined(node, [self._expression(left), self._expression(right)])
            case ast.UnaryOp(operand=operand):
                return self._expression(operand)
        if self.counter in names_read(node) or names_read(node) & self.axes.keys():
            raise NotProven(f"`{ast.unparse(node)}` on line {node.lineno} can't be computed for a whole batch")
        return Axis.NONE

    def _joined(self, node: ast.expr, axes: list[Axis]) -> Axis:
        found = {axis for axis in axes if axis is not Axis.NONE}
        if len(found) > 1:
            raise NotProven(f"`{ast.unparse(node)}` on line {node.lineno} mixes a sample with a batch of one")
        return found.pop() if found else Axis.NONE

    def _subscript(self, node: ast.Subscript) -> Axis:
        index = parse_index(node.slice, self.job.syntax)
        first = index[0]
        text = [self.job.source(e) for e in (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])]
        if isinstance(first, At) and ast.unparse(first.node) == self.counter:  # x[j, ...]
            if self._expression(node.value) is not Axis.NONE:
                raise NotProven(f"line {node.lineno} picks a sample twice")
            self._without_first(node, text)
            return Axis.FRONT
        if self.counter in names_read(node.slice) or names_read(node.slice) & self.axes.keys():
            raise NotProven(f"`{ast.unparse(node)}` on line {node.lineno} depends on the sample's number or values")
        axis = self._expression(node.value)
        rest_whole = all(isinstance(e, Rest) or (isinstance(e, Span) and e.whole) for e in index[1:])
        match axis, first:
            case Axis.NONE, _:
                return Axis.NONE
            case Axis.FRONT, NewAxis() if rest_whole:
                self.edits.rewrite(node, "{whole}", whole=node.value)
                return Axis.ONE
            case Axis.FRONT, At() | Span():
                inner = ", ".join([":", *text])
                self.edits.rewrite(node, f"{{whole}}[{inner}]", whole=node.value)
                return Axis.FRONT
            case Axis.ONE, At(node=ast.Constant(value=0)):
                self._without_first(node, text)
                return Axis.FRONT
            case Axis.ONE, Span() if first.whole:
                return Axis.ONE
        raise NotProven(f"`{ast.unparse(node)}` on line {node.lineno} can't be taken from a whole batch")

    def _without_first(self, node: ast.Subscript, text: list[str]) -> None:
        """`x[j]` becomes `x`, `x[j, i]` becomes `x[:, i]`."""
        rest = [":", *text[1:]]
        if all(piece in (":", "...") for piece in rest):
            self.edits.rewrite(node, "{whole}", whole=node.value)
        else:
            self.edits.rewrite(node, f"{{whole}}[{', '.join(rest)}]", whole=node.value)

    def _call(self, node: ast.Call) -> Axis:
        path = dotted(node.func) or ""
        name = path.split(".")[-1]
        given = [*node.args, *(k.value for k in node.keywords)]
        if not any(self._depends(value) for value in given) and not self._depends(node.func):
            return Axis.NONE
        library = path.split(".")[0] in ("tf", "tensorflow", "np", "numpy", "keras", "K")
        if library and name == "reshape" and len(node.args) == 2:
            return self._reshape(node)
        if library and name == "expand_dims":
            return self._expand(node)
        if library and name in _ELEMENTWISE:
            return self._joined(node, [self._expression(value) for value in given])
        if library or len(node.args) != 1 or self._depends(node.func):
            raise NotProven(
                f"`{path or ast.unparse(node.func)}` on line {node.lineno} can't be called with a whole batch"
            )
        if self._expression(node.args[0]) is not Axis.ONE or any(self._depends(k.value) for k in node.keywords):
            raise NotProven(f"`{path}` on line {node.lineno} gets a sample without a batch axis")
        return Axis.ONE

    def _depends(self, node: ast.expr) -> bool:
        return bool(names_read(node) & {self.counter, *self.axes})

    def _reshape(self, node: ast.Call) -> Axis:
        """`tf.reshape(sample, (1, a, b))`: the leading one becomes the batch's size."""
        axis = self._expression(node.args[0])
        shape = node.args[1]
        sizes = shape.elts if isinstance(shape, ast.Tuple | ast.List) else []
        leads = bool(sizes) and isinstance(sizes[0], ast.Constant) and sizes[0].value == 1
        if axis is Axis.NONE or not leads or any(self.job.dims.of(s).value == -1 for s in sizes):
            raise NotProven(f"the shape on line {node.lineno} is not that of a batch of one")
        self.edits.replace(sizes[0], "-1")
        return Axis.ONE

    def _expand(self, node: ast.Call) -> Axis:
        where = next((k.value for k in node.keywords if k.arg == "axis"), node.args[1] if len(node.args) > 1 else None)
        if self._expression(node.args[0]) is not Axis.FRONT or where is None or self.job.dims.of(where).value != 0:
            raise NotProven(f"line {node.lineno} adds an axis elsewhere than in front of a sample")
        self.edits.rewrite(node, "{inner}", inner=node.args[0])
        return Axis.ONE


def _difference(document: Document, text: str) -> tuple[Edit, ...]:
    """The one edit that turns the document's text into `text`."""
    old = document.text
    start = 0
    while start < min(len(old), len(text)) and old[start] == text[start]:
        start += 1
    end = 0
    while end < min(len(old), len(text)) - start and old[-1 - end] == text[-1 - end]:
        end += 1
    return (Edit(document.filename, start, len(old) - end, text[start : len(text) - end]),)
