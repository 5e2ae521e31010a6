"""Where a gradient is asked for: which cuts on the way to the target matter."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from tapefix.flow.facts import Cut, How, Origin, Spot, Target
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.interpreter.core import head_of
from tapefix.flow.objects import Bound, Function, Instance, Layer, Mapping, Sequence, WeightOf, Weights, parts_of
from tapefix.flow.sources.lists import leaves_of
from tapefix.flow.sources.updates import Updates
from tapefix.flow.syntax import nodes_of
from tapefix.flow.tape_use import TapeUse
from tapefix.flow.values import ANY_TAPE, NONE, UNKNOWN, CutSite, Dep, Kind, Left, Lost, Source, Tape, Value, Var
from tapefix.flow.watching import Watching

#: what is certain even of an input whose dependence on weights is only assumed
CERTAIN = frozenset(
    {
        How.ARRAY_WRITE,
        How.ARRAY_MADE,
        How.TO_NUMPY,
        How.NUMPY_CALL,
        How.PYTHON_NUMBER,
        How.VARIABLE_MADE,
        How.PREDICT,
        How.VARIABLE_SLICE_WRITE,
        How.VARIABLE_WRITE,
        How.PY_FUNCTION,
        How.FOREIGN_CALL,
    }
)
MOST_WEAK = 3
#: targets that others may be added to before a gradient is taken
TERMS = frozenset({"add_loss", "loss", "call"})
CONSTRUCTORS = frozenset({"__init__", "build"})
FORWARD = frozenset({"call", "__call__", "forward"})


def asserts_none(node: ast.AST) -> bool:
    """`assert g is None`, `self.assertIsNone(g)`."""
    if isinstance(node, ast.Assert):
        return any(
            isinstance(n, ast.Compare)
            and any(isinstance(op, ast.Is) for op in n.ops)
            and any(isinstance(c, ast.Constant) and c.value is None for c in n.comparators)
            for n in ast.walk(node.test)
        )
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "assertIsNone"


def _encloses(statement: ast.AST, tape: Tape) -> bool:
    """The tape's block is in the body of a loop, whose head ran the operation."""
    entered = tape.entered
    return isinstance(statement, (ast.For, ast.AsyncFor)) and any(
        node is entered for part in statement.body for node in ast.walk(part)
    )


def _makes_the_opener(common: Any, below: Any, tape: Tape) -> bool:
    """The operation ran in the constructor of the class of which another method opens the tape."""
    made = below.function
    opener = tape.frames[tape.frames.index(common) + 1 :] if common in tape.frames else ()
    return (
        made is not None
        and made.owner is not None
        and getattr(made.node, "name", "") in CONSTRUCTORS
        and any(frame.function is not None and frame.function.owner is made.owner for frame in opener)
    )


def _start_of_forward(trail: tuple[tuple[Any, Spot], ...]) -> Spot:
    """The statement that calls the first model or layer of the program; the last one if none is its own class."""
    start = trail[0][1]
    for frame, spot in trail[1:]:
        if frame.function is not None and getattr(frame.function.node, "name", "") in FORWARD:
            break
        start = spot
    return Spot(start.filename, head_of(start.node), start.function)


def keeps_state(lost: Lost) -> bool:
    """A write into what is not trained: running statistics of a layer."""
    variable = lost.site.variable
    return isinstance(variable, Var) and not variable.trainable


class Targets(TapeUse, Watching, Updates):
    shows_none: dict[ast.AST, bool]
    veiled: dict[CutSite, Cut]
    terms: list[tuple[Lost, ast.AST | None, Target]]

    # ---- sources

    def sources_of(self, value: Value | None, tape: Tape | None) -> tuple[set[Source], bool]:
        """What the gradient is wanted for, and whether that is all known."""
        if value is None:
            return set(), False
        sources: set[Source] = set()
        exact = True
        for part in parts_of(value):
            if not part.refs and not part.tainted and part.kind & Kind.CONTAINER:
                continue
            if len(part.alts) > 1 and not all(isinstance(a.ref, (Var, WeightOf, Weights)) for a in part.alts):
                exact = False
            for leaf in part.alts or (part,):
                if isinstance(leaf.ref, (Sequence, Mapping)):
                    continue
                if isinstance(leaf.ref, (Weights, WeightOf)):
                    sources |= self.listed(leaf.ref)
                elif isinstance(leaf.ref, Var):
                    sources.add(leaf.ref)
                elif tape is not None and id(leaf) in tape.watched:
                    sources.add(tape.watched[id(leaf)].source)
                elif tape is None and self.watched_anywhere(leaf):
                    sources.add(self.watched_anywhere(leaf))  # type: ignore[arg-type]
                elif isinstance(leaf.ref, Layer):
                    sources |= self.reach(leaf.ref)
                    exact = exact and not leaf.ref.opaque
                else:
                    exact = False
        return sources, exact

    @staticmethod
    def choices_of(sources: Value | None) -> frozenset[str]:
        """The tests and indices that chose what the gradient is asked for: what they leave out is not wanted."""
        leaves = leaves_of(sources) if sources is not None else ()
        lists = [leaf.ref for leaf in leaves if isinstance(leaf.ref, (Weights, WeightOf))]
        return frozenset[str]().union(*(one.chosen for one in lists))

    def watched_anywhere(self, value: Value) -> Source | None:
        for tape in self.tapes:
            if id(value) in tape.watched:
                return tape.watched[id(value)].source
        return None

    # ---- targets

    def gradient(self, tape: Tape | None, given: Arguments, node: ast.AST) -> Value:
        target = given.get(0, "target") or UNKNOWN
        sources = given.get(1, "sources")
        found, exact = self.sources_of(sources, tape)
        if tape is not None:
            self.check_watched(tape, sources, found, target, given, node)
        self.check_sources(sources, target, tape, node)
        self.tape_asked(tape, sources, found, target, node)
        chosen = self.choices_of(sources)
        self.judge(target, found, exact, tape, Target(self.spot(node), "gradient"), chosen=chosen)
        saved, self.leaving = self.leaving, How.DERIVED_OUTSIDE
        result = Value(Kind.TENSOR, self.live_of(target), self.lost_of(target), node=node)
        self.leaving = saved
        if tape is not None and result.live:
            taken = Left(tape, How.DERIVED_OUTSIDE, self.spot(head_of(self.statement)), self.trail())
            result.live = frozenset(replace(dep, derived=taken, stepped=True) for dep in result.live)
        if sources is not None and (isinstance(sources.ref, (Sequence, Weights)) or sources.kind == Kind.UNKNOWN):
            if isinstance(sources.ref, Sequence) and sources.ref.items is not None:
                return Value(Kind.CONTAINER, ref=Sequence("list", [result for _ in sources.ref.items]), node=node)
            return Value(Kind.CONTAINER, ref=Sequence("list", None, result), node=node)
        if sources is not None and isinstance(sources.ref, Mapping):
            return Value(Kind.CONTAINER, ref=Mapping(dict.fromkeys(sources.ref.items, result), result), node=node)
        return result

    def minimize(self, given: Arguments, node: ast.AST) -> Value:
        loss, variables = given.get(0, "loss"), given.get(1, "var_list")
        tape = given.keywords.get("tape")
        if loss is not None and tape is None and not isinstance(loss.ref, (Function, Bound)):
            return NONE  # a tensor without a tape: graph code
        used = (
            tape.ref
            if tape is not None and isinstance(tape.ref, Tape)
            else Tape(node, "minimize", frames=tuple(self.frames))
        )
        if loss is None:
            return NONE
        target = loss
        if isinstance(loss.ref, (Function, Bound)):
            self.tapes.append(used)
            try:
                target = self.call(loss, Arguments([], {}), node)
            finally:
                self.tapes.remove(used)
        if isinstance(variables.ref if variables else None, (Function, Bound)):
            variables = self.call(variables, Arguments([], {}), node)  # type: ignore[arg-type]
        found, exact = self.sources_of(variables, used)
        self.tape_asked(used, variables, found, target, node)
        self.judge(target, found, exact, used, Target(self.spot(node), "minimize"))
        return NONE

    def loss_reached(self, value: Value, owners: list[Any] | None, node: ast.AST, what: str) -> None:
        sources: set[Source] = set()
        for owner in owners or []:
            sources |= self.reach(owner, trained=True)
        tape = self.tapes[-1] if self.tapes else None
        if tape is None:
            # a functional model is put together: the tape of its later calls records it
            self.trained.update(((d.source, None), None) for d in self.whole(value).live if ANY_TAPE in d.tapes)
            return
        self.judge(value, sources, bool(owners), tape, Target(self.spot(node), what))

    def judge(
        self,
        target: Value,
        sources: set[Source],
        exact: bool,
        tape: Tape | None,
        seen: Target,
        chosen: frozenset[str] = frozenset(),
    ) -> None:
        whole = self.whole(target)
        if (not whole.lost and not whole.live) or self.expects_none(seen.spot.function):
            return
        alive = {d.source for d in whole.live if tape is None or tape in d.tapes or ANY_TAPE in d.tapes}
        # a model is alive where a part of it is, a part where the whole is
        for source in list(alive):
            if isinstance(source, (Layer, Instance)):
                alive |= self.reach(source)
        wanted = sources or None
        always = {d.source for d in whole.live if not d.conditional and d.source in alive}
        late = {d.source for d in whole.live} - alive
        strong: list[Lost] = []
        weak: list[Lost] = []
        for lost in whole.lost:
            source = lost.source
            if source.assumed:
                if lost.site.how in CERTAIN and not lost.weak and (seen.what != "call" or self.trains(sources)):
                    strong.append(lost)
                continue
            if wanted is not None and source not in wanted:
                continue
            recorded = tape is None or tape in lost.tapes or ANY_TAPE in lost.tapes
            written = lost.site.variable
            own = (
                written is not None and wanted is not None and written in wanted and getattr(written, "trainable", True)
            )
            if lost.choice:
                if chosen and self.text(lost.site.spot.node) in chosen:
                    continue
                if recorded and not lost.weak and not self.is_alive(source, always):
                    strong.append(lost)
                continue
            if lost.aside and recorded and not own and lost.site.how in CERTAIN and not keeps_state(lost):
                self.report(lost, seen, partial=True, among=self.veiled)
            if recorded and not lost.weak and not own:
                strong.append(lost)
            elif wanted is not None and exact and not self.is_alive(source, alive) and (recorded or source not in late):
                weak.append(lost)
        for lost in strong:
            partial = lost.source in alive and lost.site.how is not How.DROPPED
            if partial and lost.site.fraction:
                continue  # `floor(x) + bend(x - floor(x))`: the slope is that of the bend
            if partial and seen.what == "call" and (lost.site.how not in CERTAIN or keeps_state(lost)):
                continue  # nobody in sight calls the layer: what its output is for is not known
            if partial and wanted is None and getattr(lost.source, "opaque", False):
                continue  # whether it has weights, and whether they are wanted, is not known
            self.report(lost, seen, partial)
        told = {x.source for x in strong}
        # what is lost outright is no teacher that would only have to be frozen
        weak = [x for x in weak if x.source not in told]
        # what is stopped with a trained network below it is its head, not a network that only teaches
        heads = {
            x.site
            for x in whole.lost
            if x.site.how is How.STOPPED and x.source in alive & sources and self.trains(self.reach(x.source))
        }
        weak = self.without_teachers(weak, alive, sources, tape, seen, heads)
        if seen.what in TERMS and tape is not None:
            # only the sum of the terms says whether a source has another way
            later = [lost for lost in weak if lost.site.how not in CERTAIN]
            self.terms += [(lost, tape.node, seen) for lost in later]
            told |= {lost.source for lost in later}
            weak = [lost for lost in weak if lost.site.how in CERTAIN]
        told |= self.tell_weak(weak, seen)
        if tape is not None:
            self.made_anew(whole, sources, tape, seen)
        if wanted is None and tape is not None and seen.what == "gradient" and not told:
            self.all_outside(whole, tape, seen)
        if wanted is not None and exact and tape is not None:
            self.outside(whole, wanted, alive, told, tape, seen)
            known = alive | told | {d.source for d in whole.live} | {x.source for x in whole.lost}
            if seen.what != "call" and not whole.kind & Kind.UNKNOWN:
                self.unread_outputs(wanted, known, tape, seen)

    def tell_terms(self) -> None:
        """What a term of a loss lost, and no other term of the same run trains."""
        terms: dict[int, tuple[Target, list[Lost]]] = {}
        for lost, run, seen in self.terms:
            if (lost.source, run) not in self.trained and (lost.source, None) not in self.trained:
                terms.setdefault(id(seen), (seen, []))[1].append(lost)
        for seen, weak in terms.values():
            self.tell_weak(weak, seen)

    def tell_weak(self, weak: list[Lost], seen: Target) -> set[Source]:
        """Tells what has no other way to the target; gives the sources that were told."""
        told: set[Source] = set()
        by_source: dict[Source, list[Lost]] = {}
        for lost in weak:
            by_source.setdefault(lost.source, []).append(lost)
        for source, group in by_source.items():
            if (
                seen.what == "call"
                and all(x.site.how is How.STOPPED for x in group)
                and (getattr(source, "opaque", False) or getattr(source, "given", False))
            ):
                continue  # a network from elsewhere, stopped in a layer that nobody in sight calls
            if any(x.site.how is not How.STOPPED for x in group):
                group = by_source[source] = [x for x in group if x.site.how is not How.STOPPED]
            for lost in sorted(
                group, key=lambda x: (x.site.how is How.STOPPED, getattr(x.site.spot.node, "lineno", 0))
            )[:MOST_WEAK]:
                self.report(lost, seen, partial=False)
                told.add(lost.source)
        return told

    def unread_outputs(self, wanted: set[Source], known: set[Source], tape: Tape, seen: Target) -> None:
        """Layers that ran under the tape, and whose every output was dropped on the way."""
        for source in tape.ran:
            if source not in wanted or not isinstance(source, Layer) or not source.weights or self.gave_up:
                continue
            if source.opaque or source.parameter or source.frozen or self.is_alive(source, known):
                continue
            for spot in self.places_of(source, tape):
                site = self.sites.setdefault((How.DROPPED, id(spot.node)), CutSite(How.DROPPED, spot))
                self.report(Lost(site, source, frozenset({tape})), seen, partial=False)

    @staticmethod
    def trains(sources: set[Source]) -> bool:
        """Something in the layer has weights: one that has none may be there to prepare data."""
        return any(isinstance(s, Var) or (isinstance(s, Layer) and s.weights and not s.opaque) for s in sources)

    def expects_none(self, function: ast.AST | None) -> bool:
        """A test or lesson that shows a None on purpose: it asserts one beside the gradient call."""
        if function is None:
            return False
        if function not in self.shows_none:
            self.shows_none[function] = any(asserts_none(node) for node in nodes_of(function))
        return self.shows_none[function]

    def is_alive(self, source: Source, alive: set[Source]) -> bool:
        if source in alive:
            return True
        return isinstance(source, (Layer, Instance)) and any(part in alive for part in self.reach(source))

    def outside(
        self, whole: Value, wanted: set[Source], alive: set[Source], told: set[Source], tape: Tape, seen: Target
    ) -> None:
        called = self.called_under(whole, tape)
        for dep in whole.live:
            if isinstance(dep.source, Layer) and (dep.source.opaque or (dep.source.parameter and dep.source.api)):
                continue  # an object of which nothing is known may be no model
            if (
                dep.source in wanted
                and not self.is_alive(dep.source, alive)
                and dep.source not in told
                and not dep.source.assumed
            ):
                self.report_outside(*self.let_go(dep, tape), dep, seen, partial=False)
            elif self.ran_before(dep, wanted, called, tape):
                self.report_outside(How.OUTSIDE_TAPE, self.nearest(dep, tape), dep, seen, partial=True)
            elif dep.derived and dep.source in wanted and dep.source in alive and not dep.source.assumed:
                known = dep.tapes | {one.tape for one in dep.left}
                if tape not in known and ANY_TAPE not in known:
                    spot = self.nearest(dep.derived, tape)
                    self.report_outside(How.DERIVED_OUTSIDE, spot, dep, seen, partial=True)

    def all_outside(self, whole: Value, tape: Tape, seen: Target) -> None:
        """A target that the tape recorded nothing of: whatever is wanted, there is no gradient of it."""
        recorded = {tape, ANY_TAPE}
        if whole.kind != Kind.TENSOR or tape.watched or tape.unsure or not tape.ended:
            return
        if any(
            recorded & dep.tapes or dep.derived or dep.source.assumed or dep.source in tape.ran for dep in whole.live
        ):
            return
        after = [dep for dep in whole.live if dep.when >= tape.ended and dep.spot.function is not None]
        if len(after) == len(whole.live):
            for dep in after:
                self.report_outside(How.OUTSIDE_TAPE, self.nearest(dep, tape), dep, seen, partial=False)

    def called_under(self, whole: Value, tape: Tape) -> set[Source]:
        """What the target depends on by more than single weights that were read under the tape."""
        found: set[Source] = set()
        for dep in whole.live:
            if not dep.alone and (tape in dep.tapes or ANY_TAPE in dep.tapes):
                found |= self.reach(dep.source) if isinstance(dep.source, (Layer, Instance)) else {dep.source}
        return found

    def ran_before(self, dep: Dep, wanted: set[Source], called: set[Source], tape: Tape) -> bool:
        """A wanted layer was called under no tape at all; what the tape knows of it are weights by themselves."""
        source = dep.source
        if not isinstance(source, Layer) or source.frozen or source.given or source.assumed or not source.weights:
            return False
        if (
            dep.alone
            or dep.conditional
            or dep.tapes
            or dep.left
            or dep.derived
            or (tape.ended and dep.when >= tape.ended)
        ):
            return False
        return source in wanted and not self.is_alive(source, called)

    def report_outside(self, how: How, spot: Spot, dep: Dep, seen: Target, partial: bool) -> None:
        site = self.sites.setdefault((how, id(spot.node)), CutSite(how, spot, "outside the tape"))
        self.report(Lost(site, dep.source, dep.tapes), seen, partial=partial)

    def let_go(self, dep: Dep, tape: Tape) -> tuple[How, Spot]:
        """How and where it came that the tape does not know of a read: never recorded, or not to the end."""
        left = next((one for one in dep.left if one.tape is tape), None)
        if left is not None:
            return left.how, left.spot if left.how is How.NOT_RECORDED else self.nearest(left, tape)
        if tape.ended and dep.when >= tape.ended:
            return How.AFTER_TAPE, self.nearest(dep, tape)
        return How.OUTSIDE_TAPE, self.composed(dep, tape) or self.nearest(dep, tape)

    @staticmethod
    def composed(dep: Dep, tape: Tape) -> Spot | None:
        """Where a constructor that makes the source also computes with it: the object is not made in each step."""
        made = dep.source.spot.function if dep.source.spot is not None else None
        for frame, spot in dep.trail:
            if frame not in tape.frames and spot.function is made and getattr(made, "name", "") in CONSTRUCTORS:
                return Spot(spot.filename, head_of(spot.node), spot.function)
        return None

    @staticmethod
    def nearest(at: Dep | Left, tape: Tape) -> Spot:
        """The statement that ran the operation, in the frame that opened the tape or the nearest common one.

        Where that statement can't be meant, because the tape's block is inside it or it only makes the object that
        opens the tape, the statement below it that starts the forward pass.
        """
        common, below = at.spot, -1
        for index, (frame, spot) in enumerate(at.trail):
            if frame.function is not None and frame.function.kept is not None:
                return spot  # it runs once, wherever it is asked for
            if frame in tape.frames:
                common, below = Spot(spot.filename, head_of(spot.node), spot.function), index + 1
        if 0 < below < len(at.trail):
            (frame, spot), deeper = at.trail[below - 1], at.trail[below:]
            if _encloses(spot.node, tape) or _makes_the_opener(frame, deeper[0][0], tape):
                return _start_of_forward(deeper)
        return common

    def report(self, lost: Lost, seen: Target, partial: bool, among: dict[CutSite, Cut] | None = None) -> None:
        cuts = self.cuts if among is None else among
        cut = cuts.get(lost.site)
        origin = Origin(lost.source.label or "a weight", lost.source.spot)
        if cut is None:
            cut = cuts[lost.site] = Cut(
                lost.site.how,
                lost.site.spot,
                lost.site.detail,
                partial=partial,
                scale=lost.scale,
                buffer=lost.site.buffer,
                lost=lost.site.lost,
            )
        if origin not in cut.origins:
            cut.origins = (*cut.origins, origin)
        if not any(t.spot.node is seen.spot.node for t in cut.targets):
            cut.targets.append(seen)
        cut.partial = cut.partial and partial
        cut.scale = cut.scale and lost.scale
