"""Who may reach whom in a file and the modules it imports, by names alone: what a text mentions it may call."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator

from tapefix.flow.modules import Loader
from tapefix.flow.worth.outline import MAKING, TELLING, Definition, Outline, is_layer_call, outline

MOST_NODES = 3_000
MOST_MODULES = 14


class NameGraph:
    """Who may reach whom, by names alone, through the modules of the repository."""

    def __init__(self, loader: Loader, goes_far: bool = True) -> None:
        self.loader = loader
        self.goes_far = goes_far  # functions lead to classes of other modules
        self.numbers: dict[tuple[object, ...], int] = {}
        self.edges: list[list[int]] = []
        self.far: set[tuple[int, int]] = set()  # to a class of another module: it is a root there itself
        self.bits: list[int] = []
        self.todo: deque[tuple[int, tuple[object, ...]]] = deque()
        self.modules: set[str] = set()
        self.found: dict[tuple[str, int, str], Outline | None] = {}
        self.full = False

    exploring: int = -1
    exploring_top: bool = False

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
            self.exploring, self.exploring_top = number, key[0] == "top"
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
        key = (module, level, own.filename)
        if key not in self.found:
            self.found[key] = self._find(*key)
        return self.found[key]

    def _find(self, module: str, level: int, importer: str) -> Outline | None:
        document = self.loader(module, level, importer)
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
        for name in known & found.classes.keys() if self.goes_far or self.exploring_top else ():
            targets.append(self.node("class", found, name))
            self.far.add((self.exploring, targets[-1]))
        for alias in known & found.imports.keys():
            module, level, wanted = found.imports[alias]
            inner = self.find(module, level, found)
            if inner is not None and inner is not found and wanted:
                self.enter(targets, inner, frozenset({wanted.encode()}), depth - 1)
        return True

    def edges_out_of(self, own: Outline) -> set[tuple[int, int]]:
        """The edges to what other modules define."""
        inside = {number for key, number in self.numbers.items() if key[1] is own}
        return {(i, target) for i, targets in enumerate(self.edges) for target in targets if target not in inside}

    def edges_to_layers(self, own: Outline) -> set[tuple[int, int]]:
        """The edges to classes of the file that are layers: each is a root itself."""
        layers = {
            number
            for key, number in self.numbers.items()
            if key[0] == "class" and key[1] is own and any(is_layer_call(d) for d in own.classes.get(key[2], ()))  # type: ignore[call-overload]
        }
        return {(i, target) for i, targets in enumerate(self.edges) for target in targets if target in layers}

    def names_of_others(self, own: Outline, among: set[int]) -> frozenset[str]:
        """What the functions and classes of other modules are called that are among some nodes."""
        found: set[bytes] = set()
        for key, number in self.numbers.items():
            if number in among and key[1] is not own:
                if key[0] == "definition":
                    found.add(key[2].name)  # type: ignore[attr-defined]
                elif key[0] == "class":
                    found.add(key[2])  # type: ignore[arg-type]
        return frozenset(name.decode() for name in found - MAKING - TELLING - {b"call", b"__call__"})

    def closure(self, bit: int, without: Collection[tuple[int, int]] = ()) -> set[int]:
        """The nodes from which one with the bit is reached; some edges are not followed."""
        back: dict[int, list[int]] = {}
        for number, targets in enumerate(self.edges):
            for target in targets:
                if not without or (number, target) not in without:
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
