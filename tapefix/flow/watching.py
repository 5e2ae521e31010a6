"""What a tape watches: tensors that it was not told of, Variables where it watches by hand, and watches in vain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tapefix.flow.facts import How, Manner, Spot, Target
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.objects import Layer, Sequence, own_nodes, parts_of
from tapefix.flow.sources.lists import Lists, sources_of
from tapefix.flow.syntax import binds
from tapefix.flow.values import CutSite, Dep, Kind, Lost, Source, Tape, Value, Var

_TRAINS = frozenset({"assign", "assign_sub", "assign_add", "apply_gradients", "apply"})


def is_trained(function: ast.AST) -> bool:
    """What the function asks a gradient for is changed by it there."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TRAINS
        for node in ast.walk(function)
    )


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Watching(Lists):
    """Checks whether the tape that is asked has watched what it is asked for."""

    def check_watched(
        self, tape: Tape, sources: Value | None, found: set[Source], target: Value, given: Arguments, node: ast.AST
    ) -> None:
        """`found` are the sources, those that a model or module hands out among them."""
        if sources is None or self.expects_none(self.spot(node).function):
            return
        self.unwatched(tape, sources, target, node)
        if tape.unsure or self.gave_up:
            return
        self.left_to_hand(tape, found, target, node)
        if "unconnected_gradients" not in given.keywords:
            self.watched_in_vain(tape, sources, target, node)
            self.unread_variables(tape, sources, target, node)

    def unwatched(self, tape: Tape, sources: Value, target: Value, node: ast.AST) -> None:
        """Sources that are plain tensors which the tape does not watch."""
        if tape.unsure:
            return
        for part in parts_of(sources):
            for leaf in part.alts or (part,):
                if id(part) in tape.watched or leaf.node in tape.nodes:
                    continue
                if not isinstance(leaf.node, ast.expr):
                    continue
                if leaf.ref is not None or leaf.kind != Kind.TENSOR or leaf.node is None or leaf.lost:
                    continue
                if id(leaf) in tape.watched or self.live_of(leaf) or leaf.live:
                    continue
                if leaf.dtype in ("int", "bool"):
                    continue
                site = self.unwatched_site(tape, leaf.node)
                self.report(
                    Lost(site, Source(self.text(leaf.node)[:40], self.spot(leaf.node)), frozenset({tape})),
                    Target(self.spot(node), "gradient"),
                    partial=False,
                )
                self.cuts[site].lost = site.lost

    def unwatched_site(self, tape: Tape, made: ast.expr) -> CutSite:
        """The block of the tape that misses a watch; where a trained tensor is made, which should be a Variable."""
        function = self.frame.function
        if tape.entered is None or is_trained(function.node if function else self.module.document.tree):
            return self.site(How.UNWATCHED, made, Manner.NOT_TOLD)
        site = self.block_of(tape, Manner.NOT_TOLD)
        if made not in site.lost:
            site.lost = (*site.lost, made)
        return site

    def left_to_hand(self, tape: Tape, found: set[Source], target: Value, node: ast.AST) -> None:
        """Sources that a tape which watches by hand was never told of."""
        if tape.by_hand is None or tape.entered is None:
            return
        recorded = {dep.source for dep in self.whole(target).live if tape in dep.tapes}
        for source in recorded & found - tape.by_hand:
            if isinstance(source, (Var, Layer)) and not source.assumed and not getattr(source, "opaque", False):
                site = self.block_of(tape, Manner.BY_HAND)
                self.report(
                    Lost(site, Source(source.label, tape.made), frozenset({tape})),
                    Target(self.spot(node), "gradient"),
                    False,
                )

    def watched_in_vain(self, tape: Tape, sources: Value, target: Value, node: ast.AST) -> None:
        """Watched tensors that the target was made without: it was made before, or of another value."""
        whole = self.whole(target)
        touched = {dep.source for dep in whole.live} | {lost.source for lost in whole.lost}
        if not whole.live or whole.kind & Kind.UNKNOWN or not all(self.is_known(source) for source in touched):
            return
        for part in parts_of(sources):
            watch = tape.watched.get(id(part))
            if watch is None or watch.source in touched or tape.entered is None:
                continue
            if part.kind & (Kind.UNKNOWN | Kind.CONTAINER):
                continue  # it may be a list of Variables
            manner = self.manner_of(watch, tape, node)
            if manner:
                site = self.block_of(tape, manner)
                lost = Lost(site, watch.source, frozenset({tape}))
                self.report(lost, Target(self.spot(node), "gradient"), partial=False)

    def unread_variables(self, tape: Tape, sources: Value, target: Value, node: ast.AST) -> None:
        """Variables that are listed one by one, and that nothing has read under the tape."""
        whole = self.whole(target)
        touched = {dep.source for dep in whole.live} | {lost.source for lost in whole.lost}
        if tape.strange or not whole.live or whole.kind & Kind.UNKNOWN or not all(map(self.is_known, touched)):
            return
        around = self.spot(node).function or self.module.document.tree
        for variable, name in variables_listed(sources):
            if not variable.trainable or variable in touched or variable in tape.ran or not self.is_known(variable):
                continue
            listed = name if name in ast.walk(around) else sources_of(node)
            if listed is not None:
                site = self.site(How.UNRELATED, listed, self.text(name))
                self.report(Lost(site, variable, frozenset()), Target(self.spot(node), "gradient"), partial=False)

    def manner_of(self, watch: Dep, tape: Tape, asked: ast.AST) -> str:
        """Why a watched tensor is not in the target, told from where else its name is read; "" if that says nothing."""
        call = watch.spot.node
        if not (isinstance(call, ast.Call) and len(call.args) == 1):
            return ""
        told_of = call.args[0].elts if isinstance(call.args[0], (ast.List, ast.Tuple)) else call.args
        names = [one.id for one in told_of if isinstance(one, ast.Name)]
        if len(names) != len(told_of) or (len(names) > 1 and watch.source.label not in names):
            return ""
        name = names[0] if len(names) == 1 else watch.source.label
        function = watch.spot.function
        if function is not self.spot(asked).function or not isinstance(tape.entered, ast.With):
            return ""
        nodes = list(own_nodes(function if isinstance(function, FUNCTIONS) else self.module.document.tree))
        if any(unpacks(n, name) for n in nodes):
            return ""  # what a call gives beside it may be computed of it
        told = {id(n) for whole in (call, asked) for n in ast.walk(whole)}
        reads = [n for n in nodes if isinstance(n, ast.Name) and is_read(n, name) and id(n) not in told]
        block = tape.entered
        inside = [n for n in reads if block.lineno <= n.lineno <= (block.end_lineno or 0)]
        if any(n.lineno >= call.lineno for n in inside):
            return ""
        if inside:
            return Manner.TOO_LATE
        return Manner.ANOTHER if all(n.lineno > (block.end_lineno or 0) for n in reads) else ""

    def block_of(self, tape: Tape, manner: str) -> CutSite:
        """The block of a tape that has to be told what to watch."""
        assert tape.entered is not None
        site = self.site(How.UNWATCHED, tape.entered, manner)
        if tape.frames:
            opened = tape.frames[-1]
            around = opened.function.node if opened.function else None
            site.spot = Spot(opened.scope.module.filename, tape.entered, around)
        return site

    if TYPE_CHECKING:  # provided by the part that judges targets

        def expects_none(self, function: ast.AST | None) -> bool: ...


def unpacks(node: ast.AST, name: str) -> bool:
    """The name is one of several that a call gives."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(isinstance(target, (ast.Tuple, ast.List)) and binds(target, name) for target in node.targets)
    )


def is_read(node: ast.Name, name: str) -> bool:
    return node.id == name and isinstance(node.ctx, ast.Load)


def variables_listed(sources: Value) -> Iterator[tuple[Var, ast.expr]]:
    """Variables that are listed one by one, each with the expression that names it."""
    items = sources.ref.items if isinstance(sources.ref, Sequence) else None
    names = sources.node.elts if isinstance(sources.node, (ast.List, ast.Tuple)) else []
    if items and len(items) == len(names) and not any(isinstance(name, ast.Starred) for name in names):
        for item, name in zip(items, names, strict=True):
            if isinstance(item.ref, Var):
                yield item.ref, name
