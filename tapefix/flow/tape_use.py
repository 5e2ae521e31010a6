"""What a tape is asked for: twice where it answers once, or for integers, which have no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tapefix.flow.asked import Asked, both_answered, is_repeated
from tapefix.flow.facts import How, Spot, Target
from tapefix.flow.libraries.library import Library
from tapefix.flow.objects import Instance, WeightOf, Weights, parts_of
from tapefix.flow.syntax import children
from tapefix.flow.values import CutSite, Kind, Lost, Source, Tape, Value, Var


class TapeUse(Library):
    """Looks at each gradient call before its target is judged."""

    def tape_asked(
        self, tape: Tape | None, sources: Value | None, known: set[Source], target: Value, node: ast.AST
    ) -> None:
        """`known` are the sources, those that a model or module hands out among them."""
        if self.expects_none(self.spot(node).function):
            return
        if tape is not None and tape.once:
            self.count(tape, node)
        for spot in self.integers(tape, sources, known, target, node):
            site = self.sites.setdefault((How.INTEGER_SOURCE, id(spot.node)), CutSite(How.INTEGER_SOURCE, spot))
            lost = Lost(site, Source(self.text(spot.node)[:40], spot), frozenset())
            self.report(lost, Target(self.spot(node), "gradient"), partial=False)

    def count(self, tape: Tape, node: ast.AST) -> None:
        """A tape that is not persistent is spent by its first answer."""
        ask = Asked(node, self.trail())
        again = is_repeated(ask, tape) or any(both_answered(one, ask) for one in tape.asked)
        tape.asked.append(ask)
        if again:
            site = self.site(How.TAPE_SPENT, node, "asked again")
            lost = Lost(site, Source(tape.label, tape.made), frozenset({tape}))
            self.report(lost, Target(self.spot(node), "gradient"), partial=False)

    def integers(
        self, tape: Tape | None, sources: Value | None, known: set[Source], target: Value, node: ast.AST
    ) -> Iterator[Spot]:
        """Where sources of integer type are made; a tensor that comes from elsewhere: where it is watched or listed."""
        for part in parts_of(sources) if sources is not None else ():
            for leaf in part.alts or (part,):
                if isinstance(leaf.ref, Var):
                    if leaf.ref.integer and leaf.ref.trainable and leaf.ref.spot is not None:
                        yield leaf.ref.spot
                elif isinstance(leaf.ref, (Weights, WeightOf)):
                    yield from integer_parameters(leaf.ref.owner, known)
                elif tape is not None and is_integer_tensor(leaf):
                    yield from self.integer_tensor(tape, leaf, target, node)

    def integer_tensor(self, tape: Tape, leaf: Value, target: Value, node: ast.AST) -> Iterator[Spot]:
        watched = tape.watched.get(id(leaf))
        if watched is not None and watched.source not in {d.source for d in self.whole(target).live}:
            return  # it only chooses, as an index does: what it is used for is the cut
        spot = self.spot(node)
        scope = spot.function or self.module.document.tree
        if leaf.node is not None and any(leaf.node is n for n in own_nodes(scope)):
            yield self.spot(leaf.node)
        else:
            yield watched.spot if watched is not None else spot

    if TYPE_CHECKING:  # provided by the parts that know weights and targets

        def expects_none(self, function: ast.AST | None) -> bool: ...
        def report(self, lost: Lost, seen: Target, partial: bool) -> None: ...


def is_integer_tensor(value: Value) -> bool:
    """A tensor that surely holds integers, and was computed of nothing that is trained."""
    plain = value.kind == Kind.TENSOR and value.ref is None and isinstance(value.node, ast.expr)
    return plain and value.dtype == "int" and not value.live and not value.lost


def integer_parameters(owner: object, known: set[Source]) -> Iterator[Spot]:
    """Integer Variables of a tf.Module that are read as floats: its `trainable_variables` hold them."""
    if not isinstance(owner, Instance) or owner.cls is None or not owner.cls.derives("Module"):
        return
    for source in known:
        if isinstance(source, Var) and source.integer and source.trainable and source.spot is not None:
            if source.read_as_float and not source.counts:
                yield source.spot


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module without those of the functions inside it."""
    todo = children(scope)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo += children(node)
