"""Which files, and which functions in them, can hold a finding at all.

A graph of names: what a function's text mentions may be called by it. Code that asks for a gradient (a tape, `fit`,
a layer's `call`, a loss) is worth running where something is reached that can lose one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tapefix.documents.document import Document
from tapefix.flow.modules import Loader
from tapefix.flow.worth.outline import ASK, CUT, TAPE, Definition, Outline, outline

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
_ASKS = re.compile(
    rb"GradientTape|\bdef (?:call|train_step|__call__)\b|\.compile\s*\(|\.fit\s*\(|"
    rb"add_loss|\.minimize\s*\(|\.gradient\s*\(|"
    rb"def \w*[lL]oss\w*\s*\(|Loss\)"
)
_GRAPH_CODE = re.compile(
    rb"disable_v2_behavior|disable_eager_execution|\btf\.(?:compat\.v1\.)?(?:Session|placeholder|InteractiveSession)\b|"
    rb"tensorflow\.contrib|tf\.contrib|\bslim\.|\btf\.app\.run"
)
_V2 = re.compile(rb"GradientTape|tf\.function|enable_eager|\.fit\s*\(")
MOST_NODES = 3_000
MOST_MODULES = 14
#: methods that make what the others use
MAKING = frozenset({b"__init__", b"build", b"__post_init__", b"setup"})
#: methods that tell about a layer and compute nothing
TELLING = frozenset(
    b"get_config from_config compute_output_shape compute_output_spec __repr__ __str__ from_preset presets".split()
)


def may_hold_findings(data: bytes) -> bool:
    """Whether a file may hold a finding, by its own bytes: it mentions TensorFlow and asks for a gradient."""
    return (
        any(word in data for word in _MENTION_WORDS)
        and any(word in data for word in _ASK_WORDS)
        and bool(_MENTIONS.search(data))
        and bool(_ASKS.search(data))
    )


def is_graph_code(data: bytes) -> bool:
    """TensorFlow 1 graph code: sessions and placeholders."""
    return bool(_GRAPH_CODE.search(data)) and not _V2.search(data)


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
    """The functions of a file from which code is reached that asks for a gradient, beside code that can lose one."""
    own = outline(document.filename, document.data)
    graph = _Graph(loader)
    # where nothing asks, only what Keras asks for is a beginning, and what the module itself does
    worth = own.definitions if own.asks else [d for d in own.definitions if is_layer_call(d) or is_loss(d)]
    starts = {definition: graph.definition(own, definition) for definition in worth}
    top = graph.top(own)
    graph.explore()
    if graph.full:
        return Roots(everything=True)
    asks, cuts, tapes = graph.closure(ASK), graph.closure(CUT), graph.closure(TAPE)
    near = graph.closure(CUT, far=False)
    roots = Roots(top in tapes or (top in asks and top in cuts))
    roots.setting = {d.row for d in own.definitions if d.sets_attributes}
    roots.taping = {d.row for d in own.definitions if d.bits(own) & TAPE}
    for definition, node in starts.items():
        alone = is_layer_call(definition) or is_loss(definition)
        if node in tapes or (node in cuts and node in asks) or (alone and node in near):
            roots.rows.add(definition.row)
    return roots


def is_layer_call(definition: Definition) -> bool:
    return definition.name in (b"call", b"__call__") and definition.owner_is_layer


def is_loss(definition: Definition) -> bool:
    return b"loss" in definition.name.lower() or b"Loss" in definition.owner


class _Graph:
    """Who may reach whom, by names alone, through the modules of the repository."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.numbers: dict[tuple[object, ...], int] = {}
        self.edges: list[list[int]] = []
        self.far: set[tuple[int, int]] = set()  # to a class of another module: it is a root there itself
        self.bits: list[int] = []
        self.todo: deque[tuple[int, tuple[object, ...]]] = deque()
        self.modules: set[str] = set()
        self.full = False

    exploring: int = -1

    def node(self, *key: object) -> int:
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.edges)
            self.edges.append([])
            self.bits.append(0)
            self.todo.append((number, key))
        return number

    def definition(self, own: Outline, definition: Definition) -> int:
        return self.node("definition", own, definition)

    def top(self, own: Outline) -> int:
        return self.node("top", own)

    def explore(self) -> None:
        while self.todo:
            if len(self.edges) > MOST_NODES:
                self.full = True
                return
            number, key = self.todo.popleft()
            targets: list[int] = []
            self.exploring = number
            self.bits[number] = getattr(self, "explore_" + str(key[0]))(targets, *key[1:])
            self.edges[number] = targets

    def explore_top(self, targets: list[int], own: Outline) -> int:
        self.follow(targets, own, own.top_names, own.top)
        return own.bits(own.top, own.top_names)

    def explore_definition(self, targets: list[int], own: Outline, definition: Definition) -> int:
        self.follow(targets, own, definition.names, definition.text)
        if definition.owner:
            targets.append(self.node("making", own, definition.owner))
        return definition.bits(own)

    def explore_making(self, targets: list[int], own: Outline, name: bytes) -> int:
        """What the objects of a class are made of: the buffers and layers that its methods use."""
        bits = 0
        for definition in own.classes.get(name, []):
            if definition.name in MAKING:
                self.follow(targets, own, definition.names, definition.text)
                bits |= definition.making_bits(own)
        body = own.bodies.get(name, b"")
        self.follow(targets, own, own.body_names(name), body)
        return bits

    def explore_class(self, targets: list[int], own: Outline, name: bytes) -> int:
        targets += [self.definition(own, d) for d in own.classes.get(name, []) if d.name not in TELLING]
        targets.append(self.node("making", own, name))
        return own.bits(own.bodies.get(name, b""), own.body_names(name))

    def follow(self, targets: list[int], own: Outline, names: frozenset[bytes], text: bytes) -> None:
        for name in (names & own.by_name.keys()) - MAKING - TELLING:
            targets += [self.definition(own, definition) for definition in own.by_name[name]]
        targets += [self.node("class", own, name) for name in names & own.classes.keys()]
        for alias in names & own.imports.keys():
            self.imported(targets, own, alias, text)
        for module, level in own.stars:
            self.enter(targets, self.find(module, level, own), names)

    def imported(self, targets: list[int], own: Outline, alias: bytes, text: bytes) -> None:
        module, level, name = own.imports[alias]
        found = self.find(module, level, own)
        if found is None:
            return
        if name and self.enter(targets, found, frozenset({name.encode()})):
            return
        inner = self.find(name, 1, found) if name else found
        if inner is not None:
            self.enter(targets, inner, frozenset(members_of(alias, text)))

    def find(self, module: str, level: int, own: Outline) -> Outline | None:
        """The outline of an imported module; what lies beyond the modules that are read can't be understood either."""
        document = self.loader(module, level, own.filename)
        if document is None:
            return None
        if document.filename not in self.modules:
            if len(self.modules) >= MOST_MODULES:
                return None
            self.modules.add(document.filename)
        return outline(document.filename, document.data)

    def enter(self, targets: list[int], found: Outline | None, names: frozenset[bytes], depth: int = 8) -> bool:
        """Goes on with some names of a module; whether it has any of them."""
        if found is None or not depth:
            return False
        known = names & found.known
        if not known:
            entered = [self.enter(targets, self.find(m, level, found), names, depth - 1) for m, level in found.stars]
            return True in entered
        if known & found.assigned:
            targets.append(self.top(found))
        for name in known & found.by_name.keys():
            targets += [self.definition(found, d) for d in found.by_name[name] if not d.owner]
        for name in known & found.classes.keys():
            targets.append(self.node("class", found, name))
            self.far.add((self.exploring, targets[-1]))
        for alias in known & found.imports.keys():
            module, level, wanted = found.imports[alias]
            inner = self.find(module, level, found)
            if inner is not None and inner is not found and wanted:
                self.enter(targets, inner, frozenset({wanted.encode()}), depth - 1)
        return True

    def closure(self, bit: int, far: bool = True) -> set[int]:
        """The nodes from which one with the bit is reached; without `far`, not through classes of other modules."""
        back: dict[int, list[int]] = {}
        for number, targets in enumerate(self.edges):
            for target in targets:
                if not far and (number, target) in self.far:
                    continue
                back.setdefault(target, []).append(number)
        todo = [number for number, bits in enumerate(self.bits) if bits & bit]
        found = set(todo)
        while todo:
            for number in back.get(todo.pop(), ()):
                if number not in found:
                    found.add(number)
                    todo.append(number)
        return found


def members_of(alias: bytes, text: bytes) -> Iterator[bytes]:
    """The names that are asked of a module: `helpers.scale(x)` -> `scale`."""
    for match in re.finditer(rb"\b" + re.escape(alias) + rb"\.(\w+)(?:\.(\w+))?", text):
        yield match[1]
        if match[2]:
            yield match[2]
