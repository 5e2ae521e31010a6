"""Choices by value: what a test, an index or a mask loses, and what only one of two ways uses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tapefix.flow.facts import How
from tapefix.flow.interpreter.core import CHOOSING, Core
from tapefix.flow.objects import Mapping, Sequence, parts_of
from tapefix.flow.values import (
    NO_DEPS,
    NO_LOST,
    Dep,
    Kind,
    Lost,
    Source,
    Value,
    Var,
)


def asks_for_kind(test: ast.expr) -> bool:
    """`callable(x)`: where a value is fixed it is compared with one, where it is trained it is not."""
    test = test.operand if isinstance(test, ast.UnaryOp) else test
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in ("callable", "isinstance")


def in_each(value: Value) -> frozenset[Dep]:
    """What the gradient of every element reaches, or that of the value."""
    ref = value.ref
    if not isinstance(ref, (Sequence, Mapping)):
        return value.live
    items = list(ref.items.values()) if isinstance(ref, Mapping) else list(ref.items or ())
    items += [ref.rest] if ref.rest is not None else []
    each = [frozenset(dep for part in parts_of(item) for dep in part.live) for item in items]
    common = frozenset.intersection(*each) if each else NO_DEPS
    known = ref.each if isinstance(ref, Sequence) else NO_DEPS
    return frozenset(dep for dep in common if not dep.source.several or dep in known)


class Choices(Core):
    """Tells what is lost where a value only chooses."""

    #: what ran before the loops around, for all of their rounds: to leave some rounds out is no cut
    for_each_round: frozenset[Dep] = NO_DEPS
    in_rounds = False

    @contextmanager
    def rounds(self, iterable: Value) -> Iterator[None]:
        """The rounds of a loop or comprehension."""
        saved, inside = self.for_each_round, self.in_rounds
        known = [value for value in self.scope.vars.values() if value.live or isinstance(value.ref, Sequence)]
        self.for_each_round = saved.union(*map(in_each, (iterable, *known)))
        try:
            self.in_rounds = True
            yield
        finally:
            self.for_each_round, self.in_rounds = saved, inside

    @staticmethod
    def surely_tensor(value: Value) -> bool:
        """What a known weight has gone into, and may be a tensor, is one."""
        return bool(value.kind & Kind.TENSOR) and any(not getattr(d.source, "opaque", False) for d in value.live)

    def predicate(self, test: Value, node: ast.expr, how: How) -> tuple[bool, frozenset[Lost]]:
        """Is the test a matter of data, chance or predictions; and what is lost when it only chooses."""
        if isinstance(node, ast.BoolOp) and any(asks_for_kind(part) for part in node.values):
            return False, frozenset(x.weakened() for x in self.lost_of(test))
        chosen = any(x.site.how in CHOOSING for x in test.lost)
        if (test.kind & Kind.UNKNOWN and not chosen and not self.surely_tensor(test)) or bool(
            test.kind & Kind.CONTAINER
        ):
            return False, frozenset(x.weakened() for x in self.lost_of(test))  # it may be a flag; whether it is empty
        whole = self.whole(test)
        # what a layer from elsewhere gives is true or false already
        deps = frozenset(d for d in self.live_of(test) if not getattr(d.source, "parameter", False))
        indexed = [x for x in whole.lost if x.site.how in (How.INDEX_OF, How.SAMPLED) and how is not How.SELECTION]
        compared = [x for x in whole.lost if x.site.how in (How.COMPARED, How.ROUNDED, How.INTEGER_CAST)]
        direct = isinstance(test.ref, Var) and test.ref.trainable
        sources = {(d.source, d.tapes, direct) for d in deps} | {
            (x.source, x.tapes, x.direct) for x in compared + indexed
        }
        lost = frozenset(x.weakened() for x in whole.lost if x not in compared)
        if sources and not self.is_evaluating():
            site = self.site(how, node, self.text(node)[:60], lost=(node,))
            lost |= {Lost(site, source, tapes, not straight, straight) for source, tapes, straight in sources}
        on_data = bool(whole.kind & (Kind.TENSOR | Kind.VARIABLE | Kind.ARRAY)) and not whole.kind & Kind.UNKNOWN
        return on_data or bool(lost), lost

    def exclusive(self, first: Value, second: Value, node: ast.expr, how: How) -> frozenset[Lost]:
        """Sources that only one of two branches uses: what is not chosen gets no gradient in eager mode."""
        a, b = self.live_of(first), self.live_of(second)
        ours, theirs = ({d.source for d in side if not d.conditional} for side in (a, b))
        only = {d for d in a if d.source not in theirs} | {d for d in b if d.source not in ours}
        only = {d for d in only if d.tapes and not d.source.assumed}
        if only <= a or only <= b:  # it is used in some rounds of a loop, or in others
            only -= self.for_each_round
        if not only:
            return NO_LOST
        site = self.site(how, node, self.text(node)[:60], lost=(node,))
        return frozenset(Lost(site, d.source, d.tapes, choice=True) for d in only)

    def take(self, container: Any) -> None:
        """A loop takes one part after the other out of a container."""
        if not any(container is one for one in self.frame.taken):
            self.frame.taken.append(container)

    def later_rounds(self, values: Iterable[Value], taken: list[Any], test: ast.expr, how: How) -> frozenset[Lost]:
        """What a loop uses only if it is not left before: the parts that it takes after the first."""
        live = {d for value in values for d in self.live_of(value) if d.tapes and not d.source.assumed}
        if not live or not taken:
            return NO_LOST
        later: set[Source] = set()
        for container in taken:
            items = container.items.values() if isinstance(container, Mapping) else container.items or []
            first, *others = items or [None]
            for item in [*others, *([container.rest] if container.rest is not None else [])]:
                later |= self.sources_in(item)
            later -= self.sources_in(first) if first is not None else set()
        site = self.site(how, test, self.text(test)[:60], lost=(test,))
        return frozenset(Lost(site, d.source, d.tapes, choice=True) for d in live if d.source in later)

    def sources_in(self, value: Value) -> set[Source]:
        """Everything with weights that is a part of a value."""
        parts = [leaf for part in parts_of(value) for leaf in (part, *part.alts)]
        return {source for leaf in parts for ref in leaf.refs for source in self.reach(ref)}

    @staticmethod
    def conditioned(value: Value, tags: frozenset[Lost]) -> Value:
        """The value of a choice: sources that only one branch uses are there on a condition."""
        chosen = {x.source for x in tags if x.choice}
        live = frozenset(replace(d, conditional=True) if d.source in chosen else d for d in value.live)
        return value.with_(live=live, lost=value.lost | tags)

    def tagged(self, value: Value, tags: frozenset[Lost]) -> Value:
        if any(x.choice for x in tags):
            return self.conditioned(value, tags)
        return value.with_(lost=value.lost | tags)
