"""One run of the interpreter over a document and the modules it imports."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable

from tapefix.documents.document import Document, UnreadableDocument
from tapefix.flow.entries import Entries
from tapefix.flow.facts import Cut, Spot
from tapefix.flow.interpreter.core import BudgetSpent, Frame
from tapefix.flow.model import Misuse, Model
from tapefix.flow.modules import TREES, Loader, no_modules
from tapefix.flow.objects import Imported
from tapefix.flow.scope import ModuleState, Scope
from tapefix.flow.values import UNKNOWN, Kind, Value
from tapefix.flow.waiting import Waiting
from tapefix.flow.worth.prefilter import Roots, is_graph_code, may_hold_findings, roots_of

#: a module that can have to do with gradients
_MATTERS = re.compile(rb"\b(?:tensorflow|keras|numpy|math|scipy)\b|\btf\.|^\s*(?:from |class |def )", re.M)
MOST_MODULES = 12
MOST_FOR_IMPORT = 6_000
MOST_REEXPORTS = 8


class Analysis(Entries):
    """The interpreter with the modules it may read."""

    def __init__(self, document: Document, loader: Loader, budget: int, worth: Roots) -> None:
        super().__init__(budget)
        self.document = document
        self.loader = loader
        self.worth = worth
        self.modules: dict[str, ModuleState] = {}
        self.cuts = {}
        self.veiled = {}
        self.misuses = {}
        self.buffers = {}
        self.choices = []
        self.reads = {}
        self.dropped = {}
        self.shows_none = {}
        self.rebound = {}
        self.sifted_lists = {}
        self.replacing = {}
        self.asked_lists = {}
        self.asked_owners = {}
        self.exchanges = []
        self.strangers = []
        self.gradients = {}
        self.teachers = {}
        self.trained = {}
        self.terms = []
        self.misused_spots: dict[ast.AST, Spot] = {}

    def misuse(self, node: ast.AST, name: str) -> None:
        if node not in self.misuses:
            self.misuses[node] = name
            self.misused_spots[node] = self.spot(node)

    def release(self) -> None:
        """Empties the tables by which everything that was made holds everything else."""
        for state in self.modules.values():
            state.scope.vars.clear()
            state.demand = None
        for table in vars(self).values():
            if isinstance(table, (dict, list)):
                table.clear()

    # ---- modules

    def find_module(self, name: str, level: int) -> Document | None:
        return self.loader(name, level, self.module.filename)

    def imported(self, ref: Imported) -> Value:
        for _ in range(MOST_REEXPORTS):
            whole = self.read_module(ref.document, ref.module)
            if whole is None or not ref.name:
                return whole or UNKNOWN
            value: Value | None = whole.ref.lookup(ref.name)
            again = value.ref if value is not None and isinstance(value.ref, Imported) else None
            if value is None or (again is not None and again.document is ref.document and again.name == ref.name):
                inner = self.loader(ref.name, 1, ref.document.filename)  # a module of a package
                return self.read_module(inner, ref.name) or UNKNOWN
            if again is None:
                return value
            ref = again
        return UNKNOWN

    def read_module(self, document: Document | None, name: str) -> Value | None:
        if document is None:
            return None
        state = self.modules.get(document.filename)
        if state is None:
            if len(self.modules) >= MOST_MODULES or len(self.frames) > 30 or not _MATTERS.search(document.data):
                return None
            try:
                TREES.share(document)
            except UnreadableDocument:
                return None
            state = self.enter(document, name or document.filename)
            self.wait(state)
        return Value(Kind.OBJECT, ref=state.scope)

    def wait(self, state: ModuleState) -> None:
        """A module that was imported is run where its names are asked for, on a budget of its own."""
        waiting = Waiting(state.document.tree)
        budget = MOST_FOR_IMPORT

        def demand(name: str) -> bool:
            nonlocal budget
            statements = waiting.take(name) if budget > 0 else []
            if statements:
                mine, self.budget = self.budget, min(self.budget, budget)
                start = self.budget
                with contextlib.suppress(BudgetSpent):
                    self.run_module(state, statements)
                spent = start - max(self.budget, 0)
                self.budget = mine - spent
                budget -= spent
            return bool(statements)

        state.demand = demand

    def enter(self, document: Document, name: str) -> ModuleState:
        state = ModuleState(name, document)
        state.scope = Scope(state)
        self.modules[document.filename] = state
        return state

    def run_module(self, state: ModuleState, statements: list[ast.stmt]) -> None:
        saved, self.tapes = self.tapes, []
        self.frames.append(Frame(None, state.scope))
        try:
            self.run(statements)
        finally:
            self.frames.pop()
            self.tapes = saved

    # ---- the whole

    def analyse(self) -> bool:
        """Runs the program, then what nobody called. True if the budget sufficed."""
        state = self.enter(self.document, "__main__")
        complete = True
        try:
            self.run_module(state, self.document.tree.body)
            self.roots(state)
            self.tell_terms()
        except (BudgetSpent, RecursionError):
            complete = False
        self.tell_strangers()
        return complete


def _spot_order(spot: Spot | None) -> tuple[str, int, int]:
    if spot is None:
        return ("", 0, 0)
    return spot.filename, getattr(spot.node, "lineno", 0), getattr(spot.node, "col_offset", 0)


def _ordered(cuts: Iterable[Cut]) -> list[Cut]:
    """Cuts in the order of the source; dependencies are sets, so that what each holds is ordered as well."""
    for cut in (found := list(cuts)):
        cut.origins = tuple(sorted(cut.origins, key=lambda o: (_spot_order(o.spot), o.name)))
        cut.targets.sort(key=lambda t: _spot_order(t.spot))
    return sorted(found, key=lambda c: (*_spot_order(c.spot), c.how.value))


def budget_for(document: Document) -> int:
    """How many expressions may be evaluated: linear in the size of the file."""
    return min(40_000 + 4 * len(document.data), 400_000)


def understand(
    document: Document, loader: Loader = no_modules, budget: int | None = None, thorough: bool = False
) -> Model:
    """Runs the document on abstract values. Raises UnreadableDocument where it does not parse.

    What can hold no finding is left out, unless a person wants to know what is believed there (`thorough`).
    """
    model = Model(document)
    if not may_hold_findings(document.data) and not thorough:
        return model
    if is_graph_code(document.data):
        model.skipped = "TensorFlow 1 graph code"
        return model
    worth = Roots(everything=True) if thorough else roots_of(document, loader)
    if not worth.any:
        return model
    _ = document.tree
    analysis = Analysis(document, loader, budget or budget_for(document), worth)
    model.looked = True
    model.complete = analysis.analyse()
    model.documents = {name: state.document for name, state in analysis.modules.items()}
    model.cuts = _ordered(analysis.cuts.values())
    model.veiled = _ordered(cut for site, cut in analysis.veiled.items() if site not in analysis.cuts)
    model.misuses = [Misuse(analysis.misused_spots[node], name) for node, name in analysis.misuses.items()]
    model.seen = analysis.seen
    model.release = analysis.release
    return model
