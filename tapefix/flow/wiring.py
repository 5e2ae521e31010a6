"""What a gradient is asked for: weights that are frozen, not there yet, rebound, or not what the loss depends on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any

from tapefix.flow.facts import Cut, How, Spot, Target
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.library import Library
from tapefix.flow.values import (
    ClassObject,
    CutSite,
    Instance,
    Kind,
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
        elif isinstance(node, ast.Call) and is_call_of(node, "filter"):
            yield from node.args[1:]


def may_normalise(source: Source) -> bool:
    """It behaves otherwise once it is frozen, or may: a batch normalisation, or a model whose layers are not seen."""
    if not isinstance(source, Layer):
        return False
    return is_statistic(source) or (source.weights and not source.lazy and source.template is None)


def is_plain_object(instance: Instance) -> bool:
    """Its class is of the program's own, all of it, and derives from nothing that a library tracks."""
    return instance.cls is not None and all(
        not cls.node.bases or [ast.unparse(base) for base in cls.node.bases] == ["object"] for cls in instance.cls.mro()
    )


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


def is_call_of(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


class Wiring(Library):
    """Checks of the sources that are handed to a tape."""

    cuts: dict[CutSite, Cut]
    teachers: dict[CutSite, set[Source]]
    #: what a target of a tape, known by its statement, trains
    trained: dict[tuple[Source, ast.AST | None], None]
    #: lists of gradients by their identity: the list, what it was asked for, and where
    gradients: dict[int, tuple[Value, Value, ast.AST]]
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
        self.untracked(sources, target, asked)

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

    def untracked(self, sources: Value, target: Value, asked: Target) -> None:
        """Layers that a model keeps in a plain object, where Keras does not look for them."""
        used = {d.source for d in self.whole(target).live}
        owners = [leaf.ref.owner for leaf in leaves_of(sources) if isinstance(leaf.ref, (Weights, WeightOf))]
        wanted = {leaf.ref for leaf in leaves_of(sources) if isinstance(leaf.ref, Var)}
        listed = wanted.union(*(self.tracked(owner) for owner in owners))
        for owner in owners:
            hidden = self.reach(owner) & used - listed if isinstance(owner, Instance) and owner.is_keras() else set()
            for source in hidden:
                holder = source.holder if isinstance(source, Layer) else None
                if isinstance(holder, Instance) and is_plain_object(holder) and not source.frozen and source.spot:
                    site = self.site(How.UNTRACKED, source.spot.node, holder.cls.node.name if holder.cls else "")
                    site.spot = source.spot
                    self.report(Lost(site, source, frozenset()), asked, partial=False)

    def tracked(self, owner: Source) -> set[Source]:
        """What is found from a model by way of layers, modules and containers."""
        found, todo = {owner}, [owner]
        while todo:
            item = todo.pop()
            if isinstance(item, Instance) and is_plain_object(item) and item is not owner:
                continue
            held = list(item.attrs.values()) if isinstance(item, Instance) else []
            parts = {ref for value in held for part in parts_of(value) for ref in part.refs if isinstance(ref, Source)}
            if not isinstance(item, Instance):
                parts = self.reach(item)
            todo += parts - found
            found |= parts
        return found

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

    # ---- layers made anew

    def make_layer(self, tail: str, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.born(super().make_layer(tail, path, given, node))

    def call_keras(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        result = super().call_keras(path, tail, given, node)
        return self.born(result) if tail == "Sequential" else result

    def call_ClassObject(self, value: Value, cls: ClassObject, given: Arguments, node: ast.AST) -> Value:
        result = super().call_ClassObject(value, cls, given, node)
        return self.born(result)

    def born(self, made: Value) -> Value:
        """Remembers under which tapes a layer was made; what a branch makes may be made only once."""
        ref = made.ref
        if isinstance(ref, (Layer, Instance)) and self.tapes and not any(f.branch_depth for f in self.frames):
            ref.made_under = frozenset(self.tapes)
        for child in ref.children if isinstance(ref, Layer) else ():
            for part in child.refs:
                if isinstance(part, Source):
                    part.holder = ref
        return made

    def made_anew(self, whole: Value, wanted: set[Source], tape: Tape, seen: Target) -> None:
        """Layers that were made under the tape and are kept nowhere: the next step makes others."""
        for dep in whole.live:
            source = dep.source
            if not isinstance(source, Layer) or source in wanted or source.spot is None:
                continue
            made: Source = source
            whole_of = {made}
            while made.holder is not None and made.holder not in whole_of:
                made = made.holder
                whole_of.add(made)
            if tape in made.made_under and made.spot is not None and not any(s.given or s.frozen for s in whole_of):
                site = self.site(How.MADE_ANEW, made.spot.node, self.text(made.spot.node))
                site.spot = made.spot
                self.report(Lost(site, made, frozenset({tape})), seen, partial=False)

    # ---- pairs of gradients and variables

    def method_of_Tape(self, receiver: Value, tape: Tape, name: str, given: Arguments, node: ast.AST) -> Value | None:
        result = super().method_of_Tape(receiver, tape, name, given, node)
        sources = given.get(1, "sources")
        if name == "gradient" and result is not None and sources is not None and result.ref is not None:
            self.gradients[id(result.ref)] = (result, sources, node)
        return result

    def method_of_value(self, receiver: Value, name: str, given: Arguments, node: ast.AST) -> Value:
        if name == "apply_gradients" and isinstance(node, ast.Call) and node.args:
            self.check_pairs(node.args[0], Target(self.spot(node), "gradient"))
        if name == "minimize":
            self.check_minimized(given, node)
        return super().method_of_value(receiver, name, given, node)

    def asked_at(self, node: ast.expr) -> tuple[Value, ast.AST] | None:
        """The sources of a list of gradients and the call that asked for it."""
        value = self.seen.get(node)
        for ref in value.refs if value is not None else ():
            if id(ref) in self.gradients:
                return self.gradients[id(ref)][1:]
        return None

    def check_pairs(self, pairs: ast.expr, asked: Target) -> None:
        while is_call_of(pairs, "list", "tuple") and len(pairs.args) == 1:  # type: ignore[attr-defined]
            pairs = pairs.args[0]  # type: ignore[attr-defined]
        if not is_call_of(pairs, "zip"):
            found = self.asked_at(pairs)
            if found is not None:
                self.report_pairs(pairs, "alone", found[1], asked)
            return
        if len(pairs.args) != 2:  # type: ignore[attr-defined]
            return
        first, second = pairs.args  # type: ignore[attr-defined]
        found, other = self.asked_at(first), self.asked_at(second)
        if found is None and other is not None and self.only_weights(first):
            self.report_pairs(pairs, "swapped", other[1], asked)
        elif found is not None and other is None and self.is_longer(second, found[0]):
            self.report_pairs(second, "longer", found[1], asked)

    def only_weights(self, node: ast.expr) -> bool:
        value = self.seen.get(node)
        if value is None:
            return False
        leaves = [leaf.ref for leaf in leaves_of(value) if not leaf.kind & Kind.CONTAINER]
        listed = bool(leaves) and all(isinstance(ref, (Var, WeightOf)) for ref in leaves)
        return listed or isinstance(value.ref, Weights)

    def is_longer(self, node: ast.expr, sources: Value) -> bool:
        """All weights of a model beside the gradients of the trainable ones: each finds itself beside another's."""
        value = self.seen.get(node)
        if value is None or not isinstance(value.ref, Weights) or not isinstance(sources.ref, Weights):
            return False
        owner, which = value.ref.owner, value.ref.which
        return (
            owner is sources.ref.owner
            and which in _ALL
            and sources.ref.which not in _ALL
            and any(is_statistic(part, which) for part in self.reach(owner))
        )

    def report_pairs(self, node: ast.expr, what: str, call: ast.AST, asked: Target) -> None:
        site = self.site(How.WRONG_PAIRS, node, what)
        sources = call.args[1] if isinstance(call, ast.Call) and len(call.args) > 1 else None
        site.lost = (sources,) if sources is not None else ()
        self.report(Lost(site, Source(self.text(node)[:40], self.spot(node)), frozenset()), asked, partial=False)

    def check_minimized(self, given: Arguments, node: ast.AST) -> None:
        """A tensor, which an optimizer cannot differentiate without the tape that recorded it."""
        loss = given.get(0, "loss")
        if loss is None or loss.kind != Kind.TENSOR or not loss.live or "tape" in given.keywords:
            return
        text = self.module.document.text
        if any(d.source.assumed for d in loss.live) or "compat.v1" in text or "tf.train." in text or len(given.all) < 2:
            return
        site = self.site(How.WRONG_PAIRS, node, "minimize")
        source = min((d.source for d in loss.live), key=lambda s: s.label)
        self.report(Lost(site, source, frozenset()), Target(self.spot(node), "minimize"), partial=False)

    # ---- rebound Variables

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
