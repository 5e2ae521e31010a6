"""Networks that are stopped on purpose and still trainable."""

from __future__ import annotations

import ast
from collections.abc import Set
from dataclasses import replace
from typing import Any

from tapefix.flow.facts import Cut, How, Spot, Target
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.library import Library
from tapefix.flow.objects import Instance, Layer, Mapping, Sequence, flat, parts_of
from tapefix.flow.values import CutSite, Lost, Source, Tape, Value, Var

_WEIGHING = frozenset({"matmul", "einsum", "tensordot", "conv1d", "conv2d", "dense"})


def is_statistic(source: Source, which: str = "variables") -> bool:
    """What `variables` holds and `trainable_variables` does not."""
    if isinstance(source, Var):
        return not source.trainable
    if not isinstance(source, Layer):
        return False
    if source.frozen and source.weights and not source.opaque:
        return True
    return source.api in ops.LAYERS_WITH_STATISTICS or (which == "variables" and source.api in ops.LAYERS_WITH_SEEDS)


def may_normalise(source: Source) -> bool:
    """It behaves otherwise once it is frozen, or may: a batch normalisation, or a model whose layers are not seen."""
    if not isinstance(source, Layer):
        return False
    return is_statistic(source) or (source.weights and not source.lazy and source.template is None)


def goes_on(stop: Spot) -> bool:
    """What is stopped is used in its function without the stop, too."""
    if stop.function is None:
        return False
    stopped = [node for node in ast.walk(stop.node) if isinstance(node, ast.Name)]
    loads = [n for n in ast.walk(stop.function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    given = stop.node.args[0] if isinstance(stop.node, ast.Call) and stop.node.args else None
    for node in ast.walk(stop.function):
        if isinstance(node, ast.Assign) and node.value is stop.node:
            if any(isinstance(t, ast.Name) and t.id == getattr(given, "id", "") for t in node.targets):
                return False  # the name stands for what is stopped from here on
    return isinstance(given, ast.Name) and any(n.id == given.id and n not in stopped for n in loads)


class Teachers(Library):
    """Tells teachers from what was stopped by mistake."""

    cuts: dict[CutSite, Cut]

    teachers: dict[CutSite, set[Source]]

    #: what a target of a tape, known by its statement, trains
    trained: dict[tuple[Source, ast.AST | None], None]

    def tensor_operation(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        result = super().tensor_operation(path, tail, given, node)
        if tail in _WEIGHING and any(isinstance(v.ref, Var) and v.ref.trainable for v in given.all):
            return self.standing_alone(result)
        return self.standing_alone(result) if result.reduced and not result.live else result

    def call_LossObject(self, value: Value, loss: Any, given: Arguments, node: ast.AST) -> Value:
        result = super().call_LossObject(value, loss, given, node)
        return result if result.live else self.standing_alone(result)

    def layer_output(self, value: Value, layer: Layer, given: Arguments, node: ast.AST) -> Value:
        result = super().layer_output(value, layer, given, node)
        return self.standing_alone(result) if layer.weights and not layer.frozen and not layer.opaque else result

    @staticmethod
    def standing_alone(value: Value) -> Value:
        """What was stopped is no mere goal: it is a term of its own, or trained layers work on it."""
        if any(x.site.how is How.STOPPED for x in value.lost):
            value = value.with_(lost=frozenset(replace(x, alone=x.site.how is How.STOPPED) for x in value.lost))
        return value

    def without_teachers(
        self,
        weak: list[Lost],
        alive: set[Source],
        wanted: set[Source],
        tape: Tape | None,
        seen: Target,
        heads: Set[CutSite] = frozenset(),
    ) -> list[Lost]:
        """Tells teachers: networks that are stopped on purpose and still trainable. What remains is to be trained.

        What another target of the same tape trains is no teacher, and there is nothing wrong with it.
        """
        if not any(source in alive for source in wanted):
            return weak
        run = tape.node if tape is not None else None
        self.trained.update(dict.fromkeys((source, run) for source in alive & wanted))
        for site, sources in list(self.teachers.items()):
            if any((source, run) in self.trained for source in sources):
                self.cuts.pop(site, None)
        groups: dict[Source, list[Lost]] = {}
        for lost in weak:
            groups.setdefault(lost.source, []).append(lost)
        taught = [
            source
            for source, group in groups.items()
            if self.is_teacher(source, group) and not any(x.site in heads for x in group)
        ]
        for source in taught:
            group = groups.pop(source)
            if seen.what == "call" or (source, run) in self.trained:
                continue  # what the output of a layer is for is not known
            for lost in group:
                self.report_teacher(lost, alive, seen)
        return [lost for group in groups.values() for lost in group]

    @staticmethod
    def is_teacher(source: Source, group: list[Lost]) -> bool:
        if not isinstance(source, (Layer, Instance)) or any(x.site.how is not How.STOPPED for x in group):
            return False
        return source.given or not any(x.alone for x in group)

    def report_teacher(self, lost: Lost, alive: set[Source], seen: Target) -> None:
        stop = lost.site.spot
        site = self.sites.setdefault((How.TEACHER, id(stop.node)), CutSite(How.TEACHER, stop))
        found = self.network_of(lost.source, stop, alive)
        if found is None or goes_on(stop):
            return  # a part of something larger
        site.lost = (found[0],)
        site.detail = "statistics" if any(may_normalise(s) for s in self.reach(found[1])) else ""
        self.report(Lost(site, lost.source, lost.tapes), seen, partial=False)
        self.teachers.setdefault(site, set()).add(lost.source)
        wrong = self.cuts.get(lost.site)
        if wrong is not None and all(origin in self.cuts[site].origins for origin in wrong.origins):
            del self.cuts[lost.site]  # told before its weights were seen to come from elsewhere

    def network_of(self, source: Source, at: Spot, alive: set[Source]) -> tuple[ast.expr, Source] | None:
        """The call of a whole network that holds a source and nothing that is alive: its expression and the network."""
        around: list[ast.AST] = [at.node]
        if at.function is not None:
            around.append(at.function)
        if at.filename == self.module.document.filename:
            around.append(self.module.document.tree)
        for node in (node for part in around for node in ast.walk(part)):
            value = self.seen.get(node.func) if isinstance(node, ast.Call) else None
            for ref in value.refs if value is not None else ():
                if isinstance(ref, (Layer, Instance)) and source in self.reach(ref) and not self.reach(ref) & alive:
                    return node.func, ref  # type: ignore[attr-defined]
        return None

    def reach(self, owner: Any, trained: bool = False) -> set[Source]:
        """The owner and everything of it that holds weights; with `trained` nothing that is frozen."""
        found: set[Source] = set()
        todo = [owner]
        while todo:
            item = todo.pop()
            if isinstance(item, Value):
                todo += [p.ref for p in parts_of(item) if p.ref is not None] + [r for a in item.alts for r in a.refs]
                continue
            if isinstance(item, Source) and item not in found:
                if trained and item.frozen:
                    continue
                found.add(item)
                if isinstance(item, Instance):
                    todo += list(item.attrs.values())
                elif isinstance(item, Layer):
                    todo += list(item.children)
                    if item.template is not None:
                        inner = flat(item.template)
                        sources = {d.source for d in inner.live} | {x.source for x in inner.lost}
                        found |= {s for s in sources if not (trained and s.frozen)}
            elif isinstance(item, (Sequence, Mapping)):
                todo += [item.element()]
        return found

    # ---- provided by the targets

    def report(self, lost: Lost, seen: Target, partial: bool) -> None:
        raise NotImplementedError
