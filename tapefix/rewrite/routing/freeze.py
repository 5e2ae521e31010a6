"""Loops that a tensor ends (`if stop > 0.5: break`, `while running and n < most`): all passes run, and what they
change is weighed by a gate that falls to 0 where the loop would have ended."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Cut, Model
from tapefix.rewrite import names
from tapefix.rewrite.routing.branches import OPERATORS
from tapefix.rewrite.routing.gates import Gates
from tapefix.rewrite.routing.numbers import Soften
from tapefix.rewrite.routing.repair import attempt, message
from tapefix.rewrite.routing.site import Site, Unclear, joined

ALTERNATIVES = (
    "a soft gate",
    "a fixed number of passes",
    "a weighted mean of all passes' results (adaptive computation)",
)
_WHAT = "a sigmoid of the test, as a gate on what later passes change"


def repair_while(model: Model, cut: Cut, threshold: str) -> Fix | Refusal:
    site = Site(model, model.document_of(cut.spot), threshold)

    def rewrite() -> tuple[str, tuple[str, ...]]:
        test = cut.spot.node
        loop = site.syntax.parent(test)
        if not isinstance(loop, ast.While) or loop.test is not test:
            raise Unclear("the loop can't be told; write it with a fixed number of passes")
        Frozen(site, loop).freeze_while()
        return message(site, _WHAT, ALTERNATIVES)

    return attempt(site, rewrite)


def freeze_break(site: Site, node: ast.If) -> None:
    """The `if` of a `for` loop whose body is `break`."""
    loops = site.syntax.loops(node)
    loop = loops[-1] if loops else None
    if not isinstance(loop, ast.For) or node not in loop.body:
        raise Unclear("the loop that is left has no bound in sight")
    if node.orelse or not (len(node.body) == 1 and isinstance(node.body[0], ast.Break)):
        raise Unclear("more happens where the loop is left")
    Frozen(site, loop).freeze_for(node)


class Frozen:
    def __init__(self, site: Site, loop: ast.For | ast.While):
        self.site, self.loop = site, loop
        self.gates = Gates(site, Soften(site))
        if loop.orelse:
            raise Unclear("the loop has an `else`")
        self.running = names.fresh(site.edits, loop, "running")

    def freeze_for(self, leaves: ast.If) -> None:
        self._freeze(leaves)
        gate = self.gates.gate(leaves.test)
        self._begin()
        text = joined("{r} * (1.0 - {g})", r=self.running, g=gate)
        self.site.edits.replace_statement(leaves, self.site.local(f"{self.running} = {text}\n", leaves, statement=True))

    def freeze_while(self) -> None:
        assert isinstance(self.loop, ast.While)
        trained, bounds = self._parts(self.loop.test)
        leaving = self._python_break()
        if not bounds and not leaving:
            raise Unclear("the number of passes has no bound in sight; loop a fixed number of times")
        self._freeze(None)
        # the test stands in the header, where no statement can go: the gate goes to the top of the body
        site = self.site
        site.captured = [self.loop]
        gates = [self.gates.gate(part) for part in trained]
        site.captured = []
        gate = gates[0]
        for more in gates[1:]:
            gate = joined("{a} * {b}", a=gate, b=more)
        lines = [*site.prelude, f"{self.running} = {joined('{r} * {g}', r=self.running, g=gate)}\n"]
        site.prelude = []
        site.edits.insert_before(self.loop.body[0], site.local("".join(lines), self.loop, statement=True))
        site.edits.replace(self.loop.test, " and ".join(site.document.source(b) for b in bounds) or "True")
        self._begin()

    def _begin(self) -> None:
        self.site.edits.insert_before(self.loop, f"{self.running} = 1.0\n")

    def _parts(self, test: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
        """The parts of an `and` that hold weights, and those that bound the passes."""
        parts = list(test.values) if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        trained = [p for p in parts if not self._plain(p)]
        rest = [p for p in parts if p not in trained]
        if not trained:
            raise Unclear("the test holds no weights")
        if any(self.site.model.is_tensor(p) for p in rest):
            raise Unclear("the loop ends by another tensor as well")
        return trained, rest

    def _python_break(self) -> bool:
        return any(
            isinstance(s, ast.If) and self._plain(s.test) and len(s.body) == 1 and isinstance(s.body[0], ast.Break)
            for s in self.loop.body
        )

    def _freeze(self, leaves: ast.If | None) -> None:
        """Weigh each assignment of a name that goes on to the next pass or out of the loop."""
        site, carried = self.site, self._carried()
        for statement in self.loop.body:
            if statement is leaves:
                continue
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if name in carried and not self._another_shape(name, value):
                        self._bound_before(name)
                        text = self.gates.blend(self.running, site.text(value), name)
                        site.edits.replace(value, site.local(text, value))
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    if self._counts(statement):
                        if self._read_after(name):
                            self._count_passes(statement, name)
                    elif name in carried:
                        if not isinstance(op, (ast.Add, ast.Sub)):
                            sign = OPERATORS.get(type(op), "")
                            if not sign:
                                raise Unclear(f"`{site.brief(statement)}` can't be weighed")
                            changed = joined(f"{{a}} {sign} {{b}}", a=name, b=site.text(value))
                            text = self.gates.blend(self.running, changed, name)
                            site.edits.replace_statement(statement, f"{name} = {text}\n")
                        else:
                            text = joined("{r} * {x}", r=self.running, x=site.text(value))
                            site.edits.replace(value, site.local(text, value))
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if all(
                    isinstance(t, ast.Name) for t in targets
                ):
                    self._unpack(statement, [t.id for t in targets if isinstance(t, ast.Name)], carried)
                case ast.If() if (
                    self._plain(statement.test)
                    and all(isinstance(s, (ast.Break, ast.Pass)) for s in statement.body)
                    and not statement.orelse
                ):
                    continue
                case ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case _:
                    raise Unclear(f"`{site.brief(statement)}` in the loop can't be weighed")

    def _another_shape(self, name: str, value: ast.expr) -> bool:
        """Each pass has a layer of its own, which may give another shape: what only later passes read stays as it is,
        since these are weighed."""
        if not isinstance(self.loop, ast.For) or not isinstance(value, ast.Call):
            return False  # a sum with what was there keeps its shape
        own = {n.id for n in ast.walk(self.loop.target) if isinstance(n, ast.Name)}
        called = any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in own for n in ast.walk(value)
        )
        if called and self._read_after(name):
            raise Unclear(f"`{name}` may get another shape with each pass")
        return called

    def _unpack(self, statement: ast.Assign, targets: list[str], carried: set[str]) -> None:
        site = self.site
        new = {t: names.fresh(site.edits, statement, t) for t in targets if t in carried}
        if not new:
            return
        for name in new:
            self._bound_before(name)
        value = site.text(statement.value)
        lines = [f"{', '.join(new.get(t, t) for t in targets)} = {value}\n"]
        for old, fresh in new.items():
            lines.append(f"{old} = {self.gates.blend(self.running, fresh, old)}\n")
        site.edits.replace_statement(statement, "".join(lines))

    def _plain(self, test: ast.expr) -> bool:
        """A Python test: no weights are in it but by way of the number of passes that the loop itself counts."""
        if not self.site.trained(test):
            return True
        counters = {
            s.target.id
            for s in self.loop.body
            if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name) and self._counts(s)
        }
        lengths = [n for n in ast.walk(test) if isinstance(n, ast.Call) and ast.unparse(n.func) == "len"]
        inside = {inner for n in lengths for inner in ast.walk(n)}
        names_read = [n for n in ast.walk(test) if isinstance(n, ast.Name) and n not in inside]
        read = {n.id for n in names_read if self.site.trained(n)}
        calls = any(isinstance(n, ast.Call) and n not in inside for n in ast.walk(test))
        return read <= counters and not calls

    def _counts(self, statement: ast.AugAssign) -> bool:
        """A Python counter."""
        site = self.site
        return (
            isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, int)
            and not site.model.is_tensor(statement.target)
            and self._is_whole(statement.target)
        )

    def _is_whole(self, target: ast.expr) -> bool:
        assert isinstance(target, ast.Name)
        _, bindings = self.site.syntax.visible(target.id, target)
        for binding in bindings:
            parent = self.site.syntax.parent(binding)
            if isinstance(parent, ast.Tuple):
                assign = self.site.syntax.parent(parent)
                if isinstance(assign, ast.Assign) and isinstance(assign.value, ast.Tuple):
                    value: ast.expr = assign.value.elts[parent.elts.index(binding)]  # type: ignore[arg-type]
                    if not (isinstance(value, ast.Constant) and isinstance(value.value, int)):
                        return False
            elif isinstance(parent, ast.Assign) and not (
                isinstance(parent.value, ast.Constant) and isinstance(parent.value.value, int)
            ):
                return False
        return True

    def _count_passes(self, statement: ast.AugAssign, name: str) -> None:
        """A counter that is read after the loop gets the number that it would have had where the loop ended."""
        site = self.site
        if "tf.function" in site.document.text or ".fit(" in site.document.text:
            raise Unclear(f"`{name}` counts the passes and is read after the loop, perhaps in a graph")
        if not isinstance(statement.op, (ast.Add, ast.Sub)):
            raise Unclear(f"`{name}` counts in an unusual way and is read after the loop")
        taken = names.fresh(site.edits, self.loop, f"{name}_taken")
        by = site.text(statement.value)
        change = self.running if by == "1" else joined("{n} * {r}", n=by, r=self.running)
        site.edits.insert_before(self.loop, f"{taken} = {name}\n")
        site.edits.insert_after(statement, f"{taken} {OPERATORS[type(statement.op)]}= {change}\n")
        site.edits.insert_after(self.loop, f"{name} = round(float({taken}))\n")

    def _read_after(self, name: str) -> bool:
        syntax = self.site.syntax
        scope = syntax.function(self.loop) or syntax.tree
        end = syntax.end(self.loop)
        return any(
            isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and syntax.order[n] > end
            for n in ast.walk(scope)
        )

    def _carried(self) -> set[str]:
        """Names that are bound in the loop and read in a later pass or after it."""
        stored = {
            n.id
            for s in self.loop.body
            for n in ast.walk(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        return {name for name in stored if self._read_after(name) or self._read_first(name)}

    def _read_first(self, name: str) -> bool:
        """Whether a pass may read the name before it binds it."""
        test = self.loop.test if isinstance(self.loop, ast.While) else None
        if test is not None and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(test)):
            return True
        for statement in self.loop.body:
            if (
                isinstance(statement, ast.AugAssign)
                and isinstance(statement.target, ast.Name)
                and statement.target.id == name
            ):
                return True
            if any(
                isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(statement)
            ):
                return True
            if any(
                isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(statement)
            ):
                return False
        return False

    def _bound_before(self, name: str) -> None:
        syntax = self.site.syntax
        _, bindings = syntax.visible(name, self.loop.body[0])
        if not any(syntax.order[b] < syntax.order[self.loop] for b in bindings):
            raise Unclear(f"`{name}` is bound in the loop only")
