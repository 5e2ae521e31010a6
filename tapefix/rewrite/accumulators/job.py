"""One buffer in its document, as every rung sees it."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, field, replace
from typing import Literal

from tapefix.documents.document import Document
from tapefix.flow.facts import Buffer, Role
from tapefix.rewrite import imports
from tapefix.rewrite.accumulators.access import Read, Unknown, Write, uses_of
from tapefix.rewrite.accumulators.dims import Dims
from tapefix.rewrite.accumulators.facts import Facts
from tapefix.rewrite.accumulators.maker import Made, made_by
from tapefix.rewrite.accumulators.outcome import NotProven
from tapefix.rewrite.accumulators.syntax import Function, Scope, Syntax, dotted, names_read
from tapefix.rewrite.edits import EditSet

Holder = Literal["name", "attribute", "element"]


@dataclass
class Job:
    """A buffer, how it is made and used, and where the edits go."""

    document: Document
    syntax: Syntax
    dims: Dims
    facts: Facts
    buffer: Buffer
    made: Made
    uses: list[Write | Read | Unknown]
    functions_added: dict[tuple[EditSet, str], str] = field(default_factory=dict)  # by the functional rung

    @classmethod
    def of(cls, document: Document, syntax: Syntax, facts: Facts, buffer: Buffer) -> Job:
        dims = Dims(syntax)
        call = buffer.made.node
        assert isinstance(call, ast.expr)
        job = cls(document, syntax, dims, facts, buffer, made_by(call, buffer.maker, dims), [])
        job.uses = uses_of(job._seen_as_elements() if job.holder[0] == "element" else buffer, syntax)
        job.uses = [job._part_of_it(use) or use for use in job.uses]
        return job

    def _part_of_it(self, use: Write | Read | Unknown) -> Unknown | None:
        """A write by a name that stands for a part of the buffer: `row = a[i]`, `for row in a`."""
        node = use.use.spot.node
        if not isinstance(use, Write) or not isinstance(node, ast.Name) or self.holder == ("name", node.id):
            return None
        whole = {ast.unparse(u.use.spot.node) for u in self.uses if not isinstance(u.use.spot.node, ast.Name)}
        whole.add(self.holder[1])
        _, bindings = self.syntax.visible(node.id, node)
        for binding in bindings:
            above = self.syntax.parent(binding)
            part = isinstance(above, ast.Assign) and isinstance(above.value, ast.Subscript)
            if part and ast.unparse(above.value) not in whole:  # type: ignore[union-attr]
                return Unknown(use.use, f"`{node.id}` is a part of `{self.name}`")
            if self._runs_over(binding) and self.holder[0] != "element":
                return Unknown(use.use, f"`{node.id}` is a part of `{self.name}`")
            if isinstance(binding, ast.arg) and (call := self._handed_a_part(binding)) is not None:
                return Unknown(use.use, f"line {self.line(call)} hands over a part of `{self.name}` as `{node.id}`")
        return None

    def _handed_a_part(self, argument: ast.arg) -> ast.Call | None:
        """A call of the argument's function that gets an element of the buffer."""
        function = next(a for a in self.syntax.ancestors(argument) if isinstance(a, Function))
        if not isinstance(function, ast.FunctionDef) or self.holder[0] == "element":
            return None
        parts = {read.access.node for read in self.reads if read.access.index}
        for call in self.facts.calls(function):
            if any(value in parts for value in (*call.args, *(k.value for k in call.keywords))):
                return call
        return None

    def _seen_as_elements(self) -> Buffer:
        """The buffer with the uses of the container that holds it told as uses of its element: `b["x"]` for `b`."""
        moved = Buffer(self.buffer.maker, self.buffer.made, escapes=self.buffer.escapes)
        nodes = {use.spot.node for use in self.buffer.uses}
        for use in self.buffer.uses:
            node = use.spot.node
            above = self.syntax.parent(node)
            container = isinstance(node, ast.Name | ast.Attribute) and not self._is_element(node)
            if container and isinstance(above, ast.Subscript) and above.value is node:
                if above in nodes and use.role is not Role.WRITE:
                    continue
                use = replace(use, spot=replace(use.spot, node=above))
            moved.uses = [u for u in moved.uses if u.spot.node is not use.spot.node or use.role is not Role.WRITE]
            if not any(u.spot.node is use.spot.node for u in moved.uses):
                moved.uses.append(use)
        return moved

    @property
    def writes(self) -> list[Write]:
        return [use for use in self.uses if isinstance(use, Write)]

    @property
    def reads(self) -> list[Read]:
        return [use for use in self.uses if isinstance(use, Read)]

    @property
    def own_uses(self) -> list[Write | Read]:
        """The writes and reads of the buffer itself, without those of what was read from it."""
        return [use for use in self.uses if isinstance(use, Write) or (isinstance(use, Read) and self.stands_for(use))]

    @property
    def own_reads(self) -> list[Read]:
        return [read for read in self.reads if self.stands_for(read)]

    @property
    def later_reads(self) -> list[Read]:
        """Reads of what a read of the buffer gave: of a cell, of an alias, of what a function returned."""
        return [read for read in self.reads if not self.stands_for(read)]

    def stands_for(self, use: Write | Read) -> bool:
        """Whether the use's expression holds the very object that is written into."""
        return self._key(use.use.spot.node) in self._carriers

    @functools.cached_property
    def _carriers(self) -> set[tuple[object, str]]:
        kind, text = self.holder
        found = {self._key(write.use.spot.node) for write in self.writes}
        match kind:
            case "name":
                found.add((self.function_scope(self.made.call), text))
            case "attribute":
                found.add(("attribute", text.rsplit(".", 1)[-1]))
            case _:
                found |= {self._key(read.use.spot.node) for read in self.reads if self._is_element(read.use.spot.node)}
        return found

    def _key(self, node: ast.AST) -> tuple[object, str]:
        if isinstance(node, ast.Name):
            scope, _ = self.syntax.visible(node.id, node)
            return scope, node.id
        if isinstance(node, ast.Attribute):
            return "attribute", node.attr
        return "element", ast.unparse(node)

    def _is_element(self, node: ast.AST) -> bool:
        """Whether an expression takes the buffer out of its container: `buffers["a"]`, `b` of `for b in buffers`."""
        if isinstance(node, ast.Subscript):
            return True
        return isinstance(node, ast.Name) and self.is_taken_from_a_container(node)

    def is_taken_from_a_container(self, node: ast.Name) -> bool:
        """Whether a name runs over the elements of something: `v` of `for v in variables`."""
        _, bindings = self.syntax.visible(node.id, node)
        return bool(bindings) and all(self._runs_over(binding) for binding in bindings)

    def _runs_over(self, binding: ast.AST) -> bool:
        """Whether a name is bound by a loop or comprehension, which takes it out of a container."""
        above = self.syntax.parent(binding)
        while isinstance(above, ast.Tuple | ast.List):
            binding, above = above, self.syntax.parent(above)
        return isinstance(above, ast.For | ast.comprehension) and above.target is binding

    @functools.cached_property
    def maker_statement(self) -> ast.stmt:
        return self.syntax.statement(self.made.call)

    @functools.cached_property
    def holder(self) -> tuple[Holder, str]:
        """What the new buffer is bound to: a local name, an attribute, or something else; with its text."""
        parent = self.syntax.parent(self.made.call)
        target: ast.expr | None = None
        match parent:
            case ast.Assign(targets=[only]):
                target = only
            case ast.AnnAssign(target=only):
                target = only
            case ast.Tuple(elts=elts):
                match self.syntax.parent(parent):
                    case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if value is parent:
                        if len(targets) == len(elts) and not any(isinstance(t, ast.Starred) for t in targets):
                            target = targets[elts.index(self.made.call)]
        if isinstance(target, ast.Name):
            return "name", target.id
        if isinstance(target, ast.Attribute) and (text := dotted(target)) is not None:
            return "attribute", text
        return "element", ast.unparse(target) if target is not None else ""

    @property
    def kept_in_a_container(self) -> bool:
        """Whether the buffer is made as an element of a list or dict."""
        parent = self.syntax.parent(self.made.call)
        return self.holder[0] == "element" and isinstance(parent, ast.List | ast.Dict | ast.ListComp | ast.DictComp)

    @property
    def name(self) -> str:
        """The buffer as a person would call it."""
        if not self.holder[1] and self.writes:
            return ast.unparse(self.writes[0].use.spot.node)
        return self.holder[1] or f"the array made on line {self.made.call.lineno}"

    def handed_to(self, read: Read) -> ast.FunctionDef | None:
        """The function of this document that gets the buffer as an argument here and writes into it."""
        node: ast.AST = read.use.spot.node
        call = self.syntax.parent(node)
        keyword = call.arg if isinstance(call, ast.keyword) else None
        if isinstance(call, ast.keyword):
            node, call = call, self.syntax.parent(call)
        if not isinstance(call, ast.Call) or read.access.index:
            return None
        called = (dotted(call.func) or "").split(".")[-1]
        for use in self.writes:
            function = self.syntax.function(use.use.spot.node)
            if not isinstance(function, ast.FunctionDef) or function.name != called:
                continue
            names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
            if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
                names = names[1:]
            if keyword is None and node in call.args:
                position = call.args.index(node)
                keyword = names[position] if position < len(names) else None
            if keyword is not None and ast.unparse(use.use.spot.node) == keyword:
                return function
        return None

    def source(self, node: ast.AST) -> str:
        return self.document.source(node)

    def tf(self, edits: EditSet, at: ast.AST) -> str:
        """TensorFlow's name at a place; its import is added where there is none."""
        return imports.add_import(edits, "tensorflow", "tf", at)

    def line(self, node: ast.AST) -> int:
        return int(getattr(node, "lineno", 0))

    def function_scope(self, node: ast.AST) -> Scope:
        """The function (or module) around a node."""
        return self.syntax.function(node) or self.syntax.tree

    def rebound_between(self, node: ast.expr, first: ast.AST, last: ast.AST) -> ast.AST | None:
        """Where a name that the expression reads is bound again after `first` and before the end of `last`."""
        scope = self.function_scope(first)
        names = names_read(node)
        start, end = self.syntax.order[first], self.syntax.end(last)
        for other in ast.walk(scope):
            if not start < self.syntax.order.get(other, -1) <= end:
                continue
            if isinstance(other, ast.Name) and isinstance(other.ctx, ast.Store) and other.id in names:
                return other
        return None

    def shape_text(self, edits: EditSet, at: ast.stmt) -> str:
        """The buffer's shape as an expression that means the same after `at` as it did at the maker.

        Raises NotProven where a name in it is bound again in between.
        """
        made = self.made
        if made.shape is not None:
            call = made.array
            if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Name):
                self._same_there(call.args[0], at)
                if self.dims.single_value(call.args[0]) is not None and made.rank != 1:
                    return self.source(call.args[0])
            for size in made.shape:
                self._same_there(size, at)
            return "[" + ", ".join(self.source(size) for size in made.shape) + "]"
        if made.like is not None:
            self._same_there(made.like, at)
            return f"{self.tf(edits, at)}.shape({self.source(made.like)})"
        raise NotProven(f"the shape of `{self.name}` (line {self.line(made.call)}) is not written out")

    def slot_sizes(self, fixed: int, at: ast.stmt) -> list[str]:
        """The sizes of the axes behind the first `fixed` ones, meaning at `at` what they meant at the maker."""
        assert self.made.shape is not None
        for size in self.made.shape[fixed:]:
            self._same_there(size, at)
        return [self.source(size) for size in self.made.shape[fixed:]]

    def means_the_same(self, node: ast.expr, at: ast.stmt) -> None:
        """Raises NotProven where an expression of the call that makes the buffer means something else at `at`."""
        self._same_there(node, at)

    def _same_there(self, node: ast.expr, at: ast.stmt) -> None:
        home = self.function_scope(self.made.call)
        for name in names_read(node):
            scope, bindings = self.syntax.visible(name, self.made.call)
            elsewhere = self.function_scope(at) is not home and scope is not None and scope is not self.syntax.tree
            if elsewhere or any(isinstance(self.syntax.parent(b), ast.comprehension) for b in bindings):
                raise NotProven(f"`{name}`, in the shape of `{self.name}`, means nothing on line {self.line(at)}")
        if not self.facts.pure(node):
            raise NotProven(f"the size `{self.source(node)}` (line {self.line(node)}) can't be computed a second time")
        again = self.rebound_between(node, self.made.call, at)
        if again is not None:
            raise NotProven(
                f"`{self.source(node)}`, a size of `{self.name}`, is bound again on line {self.line(again)}"
            )
