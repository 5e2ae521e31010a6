"""What the branches of a Python `if` do: names they bind, lists they fill, what they return; as text."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tapefix.rewrite import names
from tapefix.rewrite.routing.conditions import constant
from tapefix.rewrite.routing.gates import Gates
from tapefix.rewrite.routing.numbers import Soften
from tapefix.rewrite.routing.site import Site, Unclear, joined

OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "**"}


@dataclass
class Outcome:
    """What a list of statements comes to. Texts are expressions that hold after the prelude."""

    bound: dict[str, str] = field(default_factory=dict)  # name -> value
    nodes: dict[str, ast.expr] = field(default_factory=dict)  # name -> the expression that was bound last
    effects: list[tuple[str, str, str]] = field(default_factory=list)  # ("append", list, value), ("set", target, value)
    returned: str | None = None
    ended: str = ""  # "", "return", "continue"

    def copy(self) -> Outcome:
        return Outcome(dict(self.bound), dict(self.nodes), list(self.effects), self.returned, self.ended)


class Branches:
    """Runs statements on texts. `emit` receives the statements that have to run whichever branch is chosen."""

    def __init__(self, site: Site):
        self.site = site
        self.soften = Soften(site)
        self.gates = Gates(site, self.soften)
        self.trained = False
        self.selecting: set[str] = set()  # conditions that stand in a gate's place: no weight is in them
        self.conditions: list[tuple[ast.expr, bool]] = []

    def run(self, statements: list[ast.stmt], start: Outcome) -> Outcome:
        out = start.copy()
        for position, statement in enumerate(statements):
            match statement:
                case ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.bind(out, name, value, statements[position + 1 :])
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.bind(out, name, value, statements[position + 1 :])
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if all(
                    isinstance(t, ast.Name) for t in targets
                ):
                    self.bind_all(out, [t.id for t in targets if isinstance(t, ast.Name)], value)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if type(op) in OPERATORS:
                    text = joined(
                        f"{{a}} {OPERATORS[type(op)]} {{b}}", a=out.bound.get(name, name), b=self.text(value, out)
                    )
                    self.keep(out, name, text, value, statements[position + 1 :])
                case ast.Assign(targets=[ast.Subscript() | ast.Attribute() as target], value=value):
                    out.effects.append(("set", self.site.text(target), self.text(value, out)))
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.expr() as owner, attr="append"), args=[value])
                ):
                    out.effects.append(("append", self.site.text(owner), self.text(value, out)))
                    out.nodes[f"append {len(out.effects)}"] = value
                case ast.Return(value=value):
                    if value is None:
                        raise Unclear("a branch returns nothing")
                    if isinstance(value, (ast.Tuple, ast.Dict, ast.List)):
                        raise Unclear("a branch returns several values")
                    out.returned, out.ended = self.text(value, out), "return"
                    return out
                case ast.Continue():
                    out.ended = "continue"
                    return out
                case ast.If():
                    return self.choose(statement, statements[position + 1 :], out)
                case ast.FunctionDef() | ast.Import() | ast.ImportFrom() | ast.Assert():
                    raise Unclear(f"a branch holds `{self.first_line(statement)}`")
                case _:
                    raise Unclear(f"`{self.first_line(statement)}` in a branch has effects beyond a value")
        return out

    def choose(self, node: ast.If, rest: list[ast.stmt], before: Outcome) -> Outcome:
        """Both branches, each with what follows it, blended."""
        site = self.site
        test = node.test
        if self.touched(test, before):
            raise Unclear(f"`{site.brief(test)}` reads what the branch around it has bound")
        plain = self.python_part(test)
        if plain is None and not site.trained(test) and site.is_number(test):
            raise Unclear(f"`{site.brief(test)}` is a plain Python test inside a branch")
        trained = site.trained(test)
        self.trained |= trained
        gate = self.gate(test)
        self.conditions.append((test, True))
        one = self.run(node.body if _ends(node.body) else [*node.body, *rest], before)
        self.conditions[-1] = (test, False)
        other = self.run(node.orelse if _ends(node.orelse) else [*node.orelse, *rest], before)
        self.conditions.pop()
        return self.merged(gate, test, trained, one, other, before)

    def gate(self, test: ast.expr) -> str:
        """The gate of a test; for one on data or chance the condition itself, to be selected by."""
        plain = self.python_part(test)
        if plain is not None:
            python, rest = plain
            inner = self.gate_of(rest, asks_for_mask=True)
            text = joined("{g} if {c} else 0.0", g=inner, c=self.site.text(python))
            return self.site.name_for(text, test, "gate")
        return self.gate_of(test)

    def gate_of(self, test: ast.expr, asks_for_mask: bool = False) -> str:
        site = self.site
        if site.trained(test):
            return self.gates.gate(test)
        hard = self.soften.hard(test)
        if asks_for_mask:
            return joined("tf.cast({c}, tf.float32)", c=hard)
        name = site.name_for(hard, test, "chosen") if not site.cheap(test) else hard
        self.selecting.add(name)
        return name

    def python_part(self, test: ast.expr) -> tuple[ast.expr, ast.expr] | None:
        """`flag and tensor`: (flag, tensor)."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and len(test.values) == 2:
            first, second = test.values
            value = self.site.model.value_of(first)
            if (
                isinstance(first, (ast.Name, ast.Attribute))
                and not self.site.trained(first)
                and not self.site.model.is_tensor(first)
            ):
                if value is None or self.site.dtype(first) != "float":
                    return first, second
        return None

    def merged(
        self, gate: str, test: ast.expr, trained: bool, one: Outcome, other: Outcome, before: Outcome
    ) -> Outcome:
        out = before.copy()
        out.ended = (
            "return"
            if "return" in (one.ended, other.ended)
            else "continue"
            if "continue" in (one.ended, other.ended)
            else ""
        )
        if (one.ended == "return") != (other.ended == "return"):
            raise Unclear("only one branch returns")
        if one.returned is not None and other.returned is not None:
            out.returned = self.blend(gate, one.returned, other.returned, test)
            return out
        for name in dict.fromkeys([*one.bound, *other.bound]):
            a, b = one.bound.get(name, name), other.bound.get(name, name)
            if a == b:
                out.bound[name] = a
                continue
            for side in (one, other):
                if name not in side.bound and not self.is_bound_before(name, test):
                    a = b = ""
                elif name in side.nodes:
                    self.refuse_no_number(side.nodes[name], name)
            if not a:
                if self.is_read_after(name, test):
                    raise Unclear(f"`{name}` is bound in one branch only")
                continue
            out.bound[name] = self.blend(gate, a, b, test)
        mine, theirs = one.effects[len(before.effects) :], other.effects[len(before.effects) :]
        if [e[:2] for e in mine] != [e[:2] for e in theirs]:
            odd = next(
                (e for e in [*mine, *theirs] if e not in mine or e not in theirs), mine[0] if mine else theirs[0]
            )
            what = f"`{odd[1]}.append(...)`" if odd[0] == "append" else f"`{odd[1]} = ...`"
            raise Unclear(f"{what} happens in one branch only, so that the result has another form in the other")
        for (kind, target, a), (_, _, b) in zip(mine, theirs, strict=True):
            out.effects.append((kind, target, self.blend(gate, a, b, test)))
        return out

    def blend(self, gate: str, one: str, other: str, test: ast.expr) -> str:
        if gate in self.selecting:
            return one if one == other else joined("tf.where({c}, {a}, {b})", c=gate, a=one, b=other)
        return self.gates.blend(gate, one, other)

    def refuse_no_number(self, node: ast.expr, name: str) -> None:
        site = self.site
        value = site.model.value_of(node)
        if isinstance(node, ast.Constant) and (isinstance(node.value, (str, bytes, bool)) or node.value is None):
            raise Unclear(f"`{name}` becomes `{site.brief(node)}`, which is no number")
        if value is not None and value.refs and constant(node) is None and not value.live:
            raise Unclear(f"`{name}` becomes `{site.brief(node)}`, which is no number")
        if site.dtype(node) in ("int", "bool") and site.model.is_tensor(node):
            raise Unclear(f"`{name}` becomes `{site.brief(node)}`, which is no float")

    # names

    def text(self, node: ast.expr, out: Outcome) -> str:
        """The expression with what the branch has bound so far in the names' places, safe to run when not chosen."""
        site = self.site
        text = site.text(node)
        for test, holds in self.conditions:
            if not site.soft:
                guarded = self.gates.guarded(node, test, holds)
                if guarded != site.text(node):
                    text = guarded
        reads = [
            n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in out.bound
        ]
        if not reads:
            return text
        tree = ast.parse(f"({text}\n)", mode="eval")
        lines = f"({text}\n)"
        places = []
        for inner in ast.walk(tree):
            if isinstance(inner, ast.Name) and inner.id in out.bound:
                places.append(_offset(lines, inner))
        for start, end, name in sorted(places, reverse=True):
            value = out.bound[name]
            value = value if _stands_alone(value) else f"({value})"
            lines = lines[:start] + value + lines[end:]
        return lines[1:-2]

    def bind(self, out: Outcome, name: str, value: ast.expr, rest: list[ast.stmt]) -> None:
        self.keep(out, name, self.text(value, out), value, rest)

    def keep(self, out: Outcome, name: str, text: str, node: ast.expr, rest: list[ast.stmt]) -> None:
        """Bind a name. What is read again gets a name of its own, so that it runs once."""
        again = sum(
            isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
            for statement in rest
            for n in ast.walk(statement)
        )
        out.nodes[name] = node
        if again == 0 or text.isidentifier() or (again == 1 and self.site.cheap(node) and not self.touched(node, out)):
            out.bound[name] = text
            return
        out.bound[name] = self.emit(name, text, node)

    def emit(self, name: str, text: str, at: ast.AST) -> str:
        fresh = names.fresh(self.site.edits, at, name)
        self.site.prelude.append(f"{fresh} = {text}\n")
        return fresh

    def bind_all(self, out: Outcome, targets: list[str], value: ast.expr) -> None:
        text = self.text(value, out)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
            values = [self.text(element, out) for element in value.elts]
            for name, one, node in zip(targets, values, value.elts, strict=True):
                out.bound[name], out.nodes[name] = one, node
            return
        fresh = [name if name == "_" else names.fresh(self.site.edits, value, name) for name in targets]
        self.site.prelude.append(f"{', '.join(fresh)} = {text}\n")
        for name, new in zip(targets, fresh, strict=True):
            if name != "_":
                out.bound[name] = new

    def touched(self, node: ast.AST, out: Outcome) -> bool:
        return any(isinstance(n, ast.Name) and n.id in out.bound for n in ast.walk(node))

    def is_bound_before(self, name: str, at: ast.AST) -> bool:
        syntax = self.site.syntax
        _, bindings = syntax.visible(name, at)
        statement = self.site.captured[0] if self.site.captured else syntax.statement(at)
        return any(syntax.order[b] < syntax.order[statement] for b in bindings)

    def is_read_after(self, name: str, at: ast.AST) -> bool:
        syntax = self.site.syntax
        scope = syntax.function(at) or syntax.tree
        end = syntax.end(self.site.captured[-1] if self.site.captured else syntax.statement(at))
        return any(
            isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and syntax.order[n] > end
            for n in ast.walk(scope)
        ) or bool(syntax.loops(at) and self._read_in_loop(name, at))

    def _read_in_loop(self, name: str, at: ast.AST) -> bool:
        """Read in a loop around before it is bound there."""
        return False

    def first_line(self, node: ast.stmt) -> str:
        line = self.site.text(node).strip().split("\n")[0]
        return line if len(line) <= 40 else line[:37] + "..."


def _ends(statements: list[ast.stmt]) -> bool:
    """The statements never go on to what follows them."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends(last.body) and _ends(last.orelse)
    return isinstance(last, (ast.Return, ast.Continue, ast.Break, ast.Raise))


def _stands_alone(text: str) -> bool:
    node = ast.parse(f"({text}\n)", mode="eval").body
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant))


def _offset(text: str, node: ast.Name) -> tuple[int, int, str]:
    lines = text.split("\n")
    start = sum(len(line) + 1 for line in lines[: node.lineno - 1])
    column = len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
    return start + column, start + column + len(node.id), node.id
