"""The lists of weights that a tape is asked for: frozen, not there yet, or not what the loss depends on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from tapefix.flow.facts import How, Spot, Target
from tapefix.flow.objects import Instance, Layer, WeightOf, Weights, parts_of
from tapefix.flow.sources.teachers import Teachers, is_statistic
from tapefix.flow.syntax import nodes_of
from tapefix.flow.values import CutSite, Lost, Source, Tape, Value, Var

_WEIGHT_NAMES = frozenset({"kernel", "bias", "gamma", "beta", "embeddings", "recurrent_kernel"})
ALL = frozenset({"variables", "weights"})


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def leaves_of(value: Value) -> Iterator[Value]:
    """What a list of sources holds, alternatives one by one."""
    for part in parts_of(value):
        yield from part.alts or (part,)


def sifted(tree: ast.AST) -> Iterator[ast.AST]:
    """Lists out of which only some elements are taken."""
    for node in nodes_of(tree):
        if isinstance(node, _COMPREHENSIONS):
            yield from (one.iter for one in node.generators if one.ifs)
        elif isinstance(node, ast.For):
            if any(isinstance(n, ast.Attribute) and n.attr == "trainable" for n in nodes_of(node)):
                yield node.iter
        elif isinstance(node, ast.Call) and is_call_of(node, "filter"):
            yield from node.args[1:]


def is_call_of(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def is_plain_object(instance: Instance) -> bool:
    """Its class is of the program's own, all of it, and derives from nothing that a library tracks."""
    return instance.cls is not None and all(
        not cls.node.bases or [ast.unparse(base) for base in cls.node.bases] == ["object"] for cls in instance.cls.mro()
    )


def sources_of(call: ast.AST) -> ast.expr | None:
    """What a gradient is asked for, as written in the call."""
    if not isinstance(call, ast.Call):
        return None
    named = next((k.value for k in call.keywords if k.arg == "sources"), None)
    return named if named is not None or len(call.args) < 2 else call.args[1]


def puts_weights(node: ast.AST) -> bool:
    """`layer.kernel = ...`, `layer.__dict__[name] = ...`, `setattr(layer, name, ...)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__"
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr in _WEIGHT_NAMES and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    return is_call_of(node, "setattr")


class Lists(Teachers):
    """Checks of the sources that are handed to a tape."""

    #: the gradient calls that ask for the weights listed at a place
    asked_lists: dict[ast.AST, set[ast.AST]]
    #: whose weights a gradient call asks for
    asked_owners: dict[ast.AST, set[Source]]
    #: lists of weights of a model that ran before the tape: the place, whose they are, what ran under it, the gradient
    exchanges: list[tuple[CutSite, Source, Source, Target]]
    #: lists of weights that a loss does not depend on: the place, whose they are, and the gradient
    strangers: list[tuple[CutSite, Source, Target]]
    #: by the file's tree
    sifted_lists: dict[ast.AST, set[ast.AST]]
    replacing: dict[ast.AST, bool]

    def is_sifted(self, listed: Weights | WeightOf) -> bool:
        """Whether only some of the listed weights are taken, those that are trainable perhaps."""
        tree = self.module.document.tree
        if tree not in self.sifted_lists:
            self.sifted_lists[tree] = {node for whole in sifted(tree) for node in nodes_of(whole)}
        return listed.node in self.sifted_lists[tree]

    def listed(self, ref: Weights | WeightOf) -> set[Source]:
        """The sources that a list of weights stands for."""
        return self.reach(ref.owner, trained=ref.which.startswith("trainable"))

    def check_sources(self, sources: Value | None, target: Value, tape: Tape | None, node: ast.AST) -> None:
        if sources is None:
            return
        asked = Target(self.spot(node), "gradient")
        for leaf in leaves_of(sources):
            if isinstance(leaf.ref, (Weights, WeightOf)) and leaf.ref.node is not None:
                self.asked_lists.setdefault(leaf.ref.node, set()).add(node)
                self.asked_owners.setdefault(node, set()).add(leaf.ref.owner)
        self.untrained(sources, node, asked)
        self.unbuilt(sources, target, asked)
        self.rebound_sources(sources, tape, asked)
        self.unrelated(sources, target, tape, asked)
        self.exchanged(sources, target, tape, asked)
        self.untracked(sources, target, asked)

    def untrained(self, sources: Value, node: ast.AST, asked: Target) -> None:
        """`model.variables` as sources, where some of them are statistics that are never trained."""
        for leaf in leaves_of(sources):
            listed = leaf.ref
            if not isinstance(listed, (Weights, WeightOf)) or listed.which not in ALL or self.is_sifted(listed):
                continue
            if listed.owner.frozen:
                continue  # frozen for another model: what is trained here is not listed by any other name
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
        if any(tape in source.made_under for source in touched) or self.replaces_weights():
            return  # a copy with other weights in it, made for this step: what these are made of is not known
        held = touched.union(*(self.reach(source) for source in touched))
        for part in parts_of(sources):
            # of several that it may be, one that is right is enough
            lists: list[Any] = [leaf.ref for leaf in part.alts or (part,)]
            if not all(self.is_apart(one, held, tape) for one in lists):
                continue
            for listed in lists:
                site = self.site(How.UNRELATED, listed.node, self.text(listed.node))
                right = self.network_with(touched, asked.spot)
                site.lost = (right,) if right is not None else ()
                self.strangers.append((site, listed.owner, asked))

    def is_apart(self, listed: object, held: set[Source], tape: Tape) -> bool:
        """A list of weights of which none is among `held`."""
        if not isinstance(listed, (Weights, WeightOf)) or listed.node is None or not self.is_known(listed.owner):
            return False
        parts = self.reach(listed.owner)
        if any(self.places_of(part, tape) for part in parts):
            return False  # it ran for nothing: that is told where its output is dropped
        return not parts & held and any(isinstance(part, Var) or getattr(part, "weights", False) for part in parts)

    def exchanged(self, sources: Value, target: Value, tape: Tape | None, asked: Target) -> None:
        """The weights of a model that ran before the tape; the one that ran under it is asked for nowhere."""
        listed = [leaf.ref for leaf in leaves_of(sources)]
        if tape is None or tape.unsure or len(listed) != 1 or not isinstance(listed[0], Weights):
            return
        (weights,) = listed
        live = self.whole(target).live
        under = {dep.source for dep in live if tape in dep.tapes}
        before = {dep.source for dep in live if not dep.tapes}
        parts = self.reach(weights.owner)
        if weights.node is None or not parts & before or parts & under or not under:
            return
        if not all(
            self.is_known(source) and not getattr(source, "frozen", False) for source in (weights.owner, *under)
        ):
            return
        right = self.network_with(under, asked.spot)
        value = self.seen.get(right) if right is not None else None
        if right is None or value is None or not isinstance(value.ref, (Layer, Instance)):
            return
        text, name = self.module.document.text, self.text(right)
        if any(f"{name}.{does}(" in text for does in ("fit", "train_on_batch", "load_weights")):
            return  # trained in another way
        site = self.site(How.UNRELATED, weights.node, self.text(weights.node))
        site.lost = (right,)
        self.exchanges.append((site, weights.owner, value.ref, asked))

    def tell_exchanges(self) -> None:
        """A step that is asked for the weights of another step: those that it trains are asked for nowhere."""
        mistaken = {asked.spot.node for _, _, _, asked in self.exchanges}
        for site, owner, right, asked in self.exchanges:
            others = {call: owners for call, owners in self.asked_owners.items() if call not in mistaken}
            trained = {part for owners in self.asked_owners.values() for one in owners for part in self.reach(one)}
            if trained & self.reach(right) or not any(owner in owners for owners in others.values()):
                continue
            for outside, cut in list(self.cuts.items()):
                if cut.how is How.OUTSIDE_TAPE:
                    cut.targets = [one for one in cut.targets if one.spot.node is not asked.spot.node]
                    if not cut.targets:
                        del self.cuts[outside]
            self.strangers.append((site, owner, asked))

    def tell_strangers(self) -> None:
        """Weights that a loss does not depend on, told where they are listed.

        A list that serves another gradient as well is right there: then they are told where this one is asked for.
        """
        self.tell_exchanges()
        wrong = {(site.spot.node, asked.spot.node) for site, _, asked in self.strangers}
        for site, owner, asked in self.strangers:
            node, call = site.spot.node, asked.spot.node
            others = (other for other in self.asked_lists[node] if (node, other) not in wrong)
            sources = sources_of(call)
            if sources is not None and any(others) and node not in ast.walk(call):
                key = (How.UNRELATED, id(sources))
                there = self.sites.setdefault(
                    key, CutSite(How.UNRELATED, Spot(asked.spot.filename, sources, asked.spot.function), lost=site.lost)
                )
                if site.detail not in there.detail.split(", "):
                    there.detail = ", ".join(filter(None, (there.detail, site.detail)))
                site = there
            self.report(Lost(site, owner, frozenset()), asked, partial=False)

    def replaces_weights(self) -> bool:
        """Tensors are put where layers keep their weights, as for the inner step of a meta learner."""
        classes = [f.self_value.ref.cls for f in self.frames if f.self_value and isinstance(f.self_value.ref, Instance)]
        trees = {self.module.document.tree} | {
            one.scope.module.document.tree for cls in classes if cls is not None for one in cls.mro()
        }
        for tree in trees - self.replacing.keys():
            self.replacing[tree] = any(map(puts_weights, nodes_of(tree)))
        return any(self.replacing[tree] for tree in trees)

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
            if listed.owner.ready and used & self.reach(listed.owner) and not self.is_called_elsewhere(listed.node):
                site = self.site(How.NOT_BUILT, listed.node, f".{listed.which}")
                self.report(Lost(site, listed.owner, frozenset()), asked, partial=False)

    def is_called_elsewhere(self, listed: ast.AST) -> bool:
        """A method lists the weights of a model that another one calls: perhaps before."""
        if not isinstance(listed, ast.Attribute) or not isinstance(listed.value, ast.Attribute):
            return False
        owner = ast.dump(listed.value)
        holding, calling = set(), set()
        for function in ast.walk(self.module.document.tree):
            if isinstance(function, ast.FunctionDef):
                inner = list(ast.walk(function))
                if listed in inner:
                    holding.add(function)
                elif any(isinstance(node, ast.Call) and ast.dump(node.func) == owner for node in inner):
                    calling.add(function)
        return bool(calling) and not any(function.name == "__init__" for function in holding)

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
