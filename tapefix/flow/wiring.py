"""What a gradient is asked for: weights that are frozen, not there yet, rebound, or not what the loss depends on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tapefix.flow.facts import Cut, How, Spot, Target
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.library import Library
from tapefix.flow.values import (
    CutSite,
    Instance,
    Layer,
    Lost,
    Mapping,
    Sequence,
    Source,
    Tape,
    Value,
    Var,
    WeightOf,
    Weights,
    flat,
    parts_of,
)

_ALL = frozenset({"variables", "weights"})
_WEIGHING = frozenset({"matmul", "einsum", "tensordot", "conv1d", "conv2d", "dense"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def leaves_of(value: Value) -> Iterator[Value]:
    """What a list of sources holds, alternatives one by one."""
    for part in parts_of(value):
        yield from part.alts or (part,)


def is_statistic(source: Source, which: str = "variables") -> bool:
    """What `variables` holds and `trainable_variables` does not."""
    if isinstance(source, Var):
        return not source.trainable
    if not isinstance(source, Layer):
        return False
    if source.frozen and source.weights and not source.opaque:
        return True
    return source.api in ops.LAYERS_WITH_STATISTICS or (which == "variables" and source.api in ops.LAYERS_WITH_SEEDS)


def sifted(tree: ast.AST) -> Iterator[ast.AST]:
    """Lists out of which only some elements are taken."""
    for node in ast.walk(tree):
        if isinstance(node, _COMPREHENSIONS):
            yield from (one.iter for one in node.generators if one.ifs)
        elif isinstance(node, ast.For):
            if any(isinstance(n, ast.Attribute) and n.attr == "trainable" for n in ast.walk(node)):
                yield node.iter
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "filter":
            yield from node.args[1:]


class Wiring(Library):
    """Checks of the sources that are handed to a tape."""

    cuts: dict[CutSite, Cut]
    #: by the file's tree
    sifted_lists: dict[ast.AST, set[ast.AST]]

    def is_sifted(self, listed: Weights | WeightOf) -> bool:
        """Whether only some of the listed weights are taken, those that are trainable perhaps."""
        tree = self.module.document.tree
        if tree not in self.sifted_lists:
            self.sifted_lists[tree] = {node for whole in sifted(tree) for node in ast.walk(whole)}
        return listed.node in self.sifted_lists[tree]

    # ---- teachers

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

    def without_teachers(self, weak: list[Lost], alive: set[Source], wanted: set[Source], seen: Target) -> list[Lost]:
        """Tells teachers: networks that are stopped on purpose and still trainable. What remains is to be trained."""
        if not any(source in alive for source in wanted):
            return weak
        groups: dict[Source, list[Lost]] = {}
        for lost in weak:
            groups.setdefault(lost.source, []).append(lost)
        taught = [source for source, group in groups.items() if self.is_teacher(source, group)]
        for source in taught:
            group = groups.pop(source)
            for lost in group if seen.what != "call" else ():  # what the output of a layer is for is not known
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
        if found is not None:
            site.lost = (found[0],)
            site.detail = "statistics" if any(is_statistic(s) for s in self.reach(found[1])) else ""
        self.report(Lost(site, lost.source, lost.tapes), seen, partial=False)
        wrong = self.cuts.get(lost.site)
        if wrong is not None and all(origin in self.cuts[site].origins for origin in wrong.origins):
            del self.cuts[lost.site]  # told before its weights were seen to come from elsewhere

    def network_of(self, source: Source, at: Spot, alive: set[Source]) -> tuple[ast.expr, Source] | None:
        """The call of a whole network that holds a source and nothing that is alive: its expression and the network."""
        around = at.function if at.function is not None else self.module.document.tree
        for node in (*ast.walk(at.node), *ast.walk(around)):
            value = self.seen.get(node.func) if isinstance(node, ast.Call) else None
            for ref in value.refs if value is not None else ():
                if isinstance(ref, (Layer, Instance)) and source in self.reach(ref) and not self.reach(ref) & alive:
                    return node.func, ref  # type: ignore[attr-defined]
        return None

    # ---- what an owner holds

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

    def listed(self, ref: Weights | WeightOf) -> set[Source]:
        """The sources that a list of weights stands for."""
        return self.reach(ref.owner, trained=ref.which.startswith("trainable"))

    # ---- the checks

    def check_sources(self, sources: Value | None, target: Value, tape: Tape | None, node: ast.AST) -> None:
        if sources is None:
            return
        asked = Target(self.spot(node), "gradient")
        self.untrained(sources, node, asked)
        self.unbuilt(sources, target, asked)
        self.rebound_sources(sources, tape, asked)
        self.unrelated(sources, target, tape, asked)

    def untrained(self, sources: Value, node: ast.AST, asked: Target) -> None:
        """`model.variables` as sources, where some of them are statistics that are never trained."""
        for leaf in leaves_of(sources):
            listed = leaf.ref
            if not isinstance(listed, (Weights, WeightOf)) or listed.which not in _ALL or self.is_sifted(listed):
                continue
            statistics = [s for s in self.reach(listed.owner) if is_statistic(s, listed.which)]
            if statistics:
                site = self.site(How.ALL_WEIGHTS, node, f".{listed.which}")
                if isinstance(listed.node, ast.expr) and listed.node not in site.lost:
                    site.lost = (*site.lost, listed.node)
                first = min(statistics, key=lambda s: (getattr(s.spot and s.spot.node, "lineno", 0), s.label))
                self.report(Lost(site, first, frozenset()), asked, partial=False)
                self.cuts[site].lost = site.lost

    def unrelated(self, sources: Value, target: Value, tape: Tape | None, asked: Target) -> None:
        """The weights of a model that the target has nothing to do with, neither now nor before a cut."""
        whole = self.whole(target)
        touched = {d.source for d in whole.live} | {x.source for x in whole.lost}
        if tape is None or tape.unsure or not whole.live or not all(self.is_known(source) for source in touched):
            return
        held = touched.union(*(self.reach(source) for source in touched))
        for leaf in leaves_of(sources):
            listed = leaf.ref
            if not isinstance(listed, (Weights, WeightOf)) or listed.node is None or not self.is_known(listed.owner):
                continue
            parts = self.reach(listed.owner)
            if any(self.places_of(part, tape) for part in parts):
                continue  # it ran for nothing: that is told where its output is dropped
            if parts & held or not any(isinstance(part, Var) or getattr(part, "weights", False) for part in parts):
                continue
            site = self.site(How.UNRELATED, listed.node, self.text(listed.node))
            right = self.network_with(touched, asked.spot)
            site.lost = (right,) if right is not None else ()
            self.report(Lost(site, listed.owner, frozenset()), asked, partial=False)

    def is_known(self, source: Source) -> bool:
        """A model or Variable that the program makes in sight, all of whose parts are in sight, too."""
        if source.assumed or not isinstance(source, (Layer, Instance, Var)):
            return False
        parts = self.reach(source)
        return not any(isinstance(p, Layer) and (p.opaque or p.parameter) for p in parts) and not any(
            isinstance(p, Instance) and (p.cls is None or len(p.cls.node.bases) > len(p.cls.bases)) for p in parts
        )

    def network_with(self, sources: set[Source], at: Spot) -> ast.expr | None:
        """The one model called in a function, or the module, that holds all of these sources."""
        around = at.function if at.function is not None else self.module.document.tree
        found: dict[str, ast.expr] = {}
        for node in ast.walk(around):
            value = self.seen.get(node.func) if isinstance(node, ast.Call) else None
            if value is not None and isinstance(value.ref, (Layer, Instance)) and sources <= self.reach(value.ref):
                found.setdefault(self.text(node.func), node.func)  # type: ignore[attr-defined]
        return next(iter(found.values())) if len(found) == 1 else None

    def unbuilt(self, sources: Value, target: Value, asked: Target) -> None:
        """A list of weights that was made before there were any; the model has been called since."""
        used = {d.source for d in self.whole(target).live}
        for leaf in leaves_of(sources):
            listed = leaf.ref
            if not isinstance(listed, (Weights, WeightOf)) or not listed.early or listed.node is None:
                continue
            if listed.owner.ready and used & self.reach(listed.owner):
                site = self.site(How.NOT_BUILT, listed.node, f".{listed.which}")
                self.report(Lost(site, listed.owner, frozenset()), asked, partial=False)

    def rebound_sources(self, sources: Value, tape: Tape | None, asked: Target) -> None:
        """Sources that were Variables, until a step put a tensor in their place."""
        if tape is None or tape.unsure:
            return
        for leaf in leaves_of(sources):
            found = self.rebound.get(id(leaf))
            if found is None or id(leaf) in tape.watched or (leaf.node is not None and leaf.node in tape.nodes):
                continue
            spot, source, _ = found
            key = (How.REBOUND, id(spot.node))
            if key not in self.sites:
                self.site(How.REBOUND, spot.node)
                self.sites[key].spot = spot
            self.report(Lost(self.sites[key], source, frozenset({tape})), asked, partial=False)

    def report(self, lost: Lost, seen: Target, partial: bool) -> None:
        raise NotImplementedError
