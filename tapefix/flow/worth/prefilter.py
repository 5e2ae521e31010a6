"""Which files, and which functions in them, can hold a finding at all.

A graph of names: what a function's text mentions may be called by it. Code that asks for a gradient (a tape, `fit`,
a layer's `call`, a loss) is worth running where something is reached that can lose one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tapefix.documents.document import Document
from tapefix.flow.modules import Loader
from tapefix.flow.worth.name_graph import NameGraph
from tapefix.flow.worth.outline import ASK, CUT, TAPE, Definition, Outline, is_root_by_itself, outline
from tapefix.flow.worth.sketch import losing_rows

_MENTIONS = re.compile(rb"\b(?:tensorflow|keras)\b")
#: searching for plain words first is many times faster
_MENTION_WORDS = (b"tensorflow", b"keras")
_ASK_WORDS = (
    b"def call",
    b".compile",
    b"oss",
    b"GradientTape",
    b".fit",
    b".gradient",
    b"__call__",
    b"_step",
    b".minimize",
)
#: each begins with a plain text, which is searched for many times faster than one of several
_ASKS = tuple(
    re.compile(pattern)
    for pattern in (
        rb"GradientTape",
        rb"add_loss",
        rb"Loss\)",
        rb"def (?:call|train_step|__call__)\b",
        rb"\.compile\s*\(",
        rb"\.fit\s*\(",
        rb"\.minimize\s*\(",
        rb"\.gradient\s*\(",
        rb"def \w*[lL]oss\w*\s*\(",
    )
)
_GRAPH_WORDS = (b"disable_", b"Session", b"placeholder", b"contrib", b"slim.", b"tf.app.run")
_GRAPH_CODE = re.compile(
    rb"disable_v2_behavior|disable_eager_execution|\btf\.(?:compat\.v1\.)?(?:Session|placeholder|InteractiveSession)\b|"
    rb"tensorflow\.contrib|tf\.contrib|\bslim\.|\btf\.app\.run"
)
_V2 = re.compile(rb"GradientTape|tf\.function|enable_eager|\.fit\s*\(")
LOSES, LOSES_CALLED = 8, 16  # bits beside those of the outline


def may_hold_findings(data: bytes) -> bool:
    """Whether a file may hold a finding, by its own bytes: it mentions TensorFlow and asks for a gradient."""
    return (
        any(word in data for word in _MENTION_WORDS)
        and any(word in data for word in _ASK_WORDS)
        and bool(_MENTIONS.search(data))
        and any(pattern.search(data) for pattern in _ASKS)
    )


def is_graph_code(data: bytes) -> bool:
    """TensorFlow 1 graph code: sessions and placeholders."""
    return any(word in data for word in _GRAPH_WORDS) and bool(_GRAPH_CODE.search(data)) and not _V2.search(data)


@dataclass
class Roots:
    """What of a file is worth running: the rows of the functions that ask for a gradient and may lose one."""

    top: bool = False  # the module's own code
    rows: set[int] = field(default_factory=set)
    setting: set[int] = field(default_factory=set)  # those that set attributes of their object
    taping: set[int] = field(default_factory=set)  # those that open a tape themselves
    everything: bool = False  # it is too large to tell

    @property
    def any(self) -> bool:
        return self.top or bool(self.rows) or self.everything


def roots_of(document: Document, loader: Loader) -> Roots:
    """The functions of a file from which code is reached that asks for a gradient, beside code that can lose one.

    Raises UnreadableDocument where the file does not parse, if it is looked at that closely.
    """
    own = outline(document.filename, document.data)
    graph = NameGraph(loader, goes_far=own.asks)  # else only what layers lose by themselves counts
    # where nothing asks, only what Keras asks for is a beginning, and what the module itself does
    worth = own.definitions if own.asks else [d for d in own.definitions if is_root_by_itself(d)]
    starts = {definition: graph.definition(own, definition) for definition in worth}
    top = graph.top(own)
    graph.explore()
    if graph.full:
        return Roots(everything=True)
    asks, cuts, tapes = graph.closure(ASK), graph.closure(CUT), graph.closure(TAPE)
    near = graph.closure(CUT, graph.far)
    roots = Roots(top in tapes or (top in asks and top in cuts))
    found = {
        definition: node
        for definition, node in starts.items()
        if node in tapes or (node in cuts and node in asks) or (is_root_by_itself(definition) and node in near)
    }
    if found:
        found = _narrowed(document, own, graph, found, asks | tapes, cuts)
    roots.rows = {definition.row for definition in found}
    roots.setting = {d.row for d in own.definitions if d.sets_attributes}
    roots.taping = {d.row for d in own.definitions if d.bits(own) & TAPE}
    return roots


def _narrowed(
    document: Document, own: Outline, graph: NameGraph, found: dict[Definition, int], asking: set[int], cuts: set[int]
) -> dict[Definition, int]:
    """Those of the functions from which a place is reached that something with a gradient gets to.

    Where this file itself asks for the gradient, other things can be wrong than what is lost.
    """
    asking_here = graph.closure(TAPE | ASK, graph.edges_out_of(own))
    if all(node in asking_here for node in found.values()):
        return found
    away = frozenset(name.decode() for name in own.away.names)
    imported = {alias.decode(): name for alias, (_, _, name) in own.imports.items()}
    try:
        losing = losing_rows(document.tree, graph.names_of_others(own, cuts), away, imported)
    except RecursionError:  # an expression is nested too deeply for one walk
        return found
    rows = {definition.row: graph.definition(own, definition) for definition in own.definitions}
    if not losing.alone | losing.called <= rows.keys() | {0}:
        return found  # the lines are counted in another way
    graph.explore()
    for row, node in rows.items():
        graph.bits[node] |= (LOSES if row in losing.alone else 0) | (LOSES_CALLED if row in losing.called else 0)
    everywhere = graph.closure(LOSES | LOSES_CALLED)
    by_itself = graph.closure(LOSES, graph.far | graph.edges_to_layers(own)) | graph.closure(LOSES_CALLED)
    return {
        definition: node
        for definition, node in found.items()
        if node in asking_here or node in (everywhere if node in asking else by_itself)
    }
