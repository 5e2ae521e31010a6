"""A cheap outline of a source file, made from its text: definitions, the names they use, and what they could cut.

Understanding a file costs many times its parsing, and most files of a library can hold no finding: no code that asks
for a gradient can reach code that could lose one. The outline tells that from names alone. It errs on one side only:
what it keeps may turn out to be harmless, what it leaves out can hold nothing.
"""

from __future__ import annotations

import bisect
import functools
import re
from dataclasses import dataclass

from tapefix.flow.worth import vocabulary
from tapefix.flow.worth.vocabulary import NOTHING_ELSE, OTHERS, Away, looks_like_loss

_NOISE = re.compile(
    rb'"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*',
    re.S,
)
_HEADER = re.compile(rb"^([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+(\w+)[ \t]*(\([^:]*\))?", re.M)
LAYER_BASES = re.compile(
    rb"Layer|Model|Module|Cell|Sequential|Wrapper|Network|Loss|Functional|Net\b|Block|Dense|Conv|Attention|Embedding"
)
_TOP_LEVEL = re.compile(rb"^[A-Za-z_@(\[]", re.M)
NAMES = re.compile(rb"[A-Za-z_]\w*")
_IMPORT = re.compile(rb"^[ \t]*import[ \t]+([\w.]+)(?:[ \t]+as[ \t]+(\w+))?", re.M)
_FROM = re.compile(rb"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|(?:[^\n\\]|\\\n)*)", re.M)
_ONE_IMPORT = re.compile(rb"(\w+)(?:[ \t]+as[ \t]+(\w+))?")

_BOUND = re.compile(rb"^(\w+)[ \t]*(?::[^=\n]*)?=", re.M)
ASK, CUT, TAPE = 1, 2, 4
_SETTING = re.compile(
    rb"\bself\.\w+\s*(?:\[[^\]\n]*\]\s*)?(?:[-+*/|&]|//)?=(?!=)|\bsetattr\(|\bself\.\w+\s*,[^\n(]*=(?!=)"
)
KEPT = 600  # outlines
#: methods that make what the others use
MAKING = frozenset({b"__init__", b"build", b"__post_init__", b"setup"})
#: methods that tell about a layer and compute nothing
TELLING = frozenset(
    b"get_config from_config compute_output_shape compute_output_spec __repr__ __str__ from_preset presets".split()
)


@dataclass(eq=False)
class Definition:
    """A function or method: where its `def` is, the class around it, and its text with that of its inner functions."""

    name: bytes
    row: int
    owner: bytes
    text: bytes
    owner_is_layer: bool = False  # its bases say so, or it has none
    owner_has_layer_base: bool = False

    @functools.cached_property
    def names(self) -> frozenset[bytes]:
        """What its text mentions, its own name left aside."""
        return frozenset(NAMES.findall(self.text, self.text.index(self.name) + len(self.name)))

    def bits(self, own: Outline) -> int:
        if self._bits < 0:
            self._bits = own.bits(self.text, self.names)
            if self.owner_is_layer and self.name in (b"call", b"__call__") and vocabulary.makes_layers(self.text):
                self._bits |= CUT
        return self._bits

    @functools.cached_property
    def sets_attributes(self) -> bool:
        return bool(_SETTING.search(self.text))

    def making_bits(self, own: Outline) -> int:
        return self.bits(own) & ~CUT | (CUT if own.away.buffers.search(self.text) else 0)

    _bits: int = -1


def is_root_by_itself(definition: Definition) -> bool:
    return is_layer_call(definition) or is_loss(definition)


def is_layer_call(definition: Definition) -> bool:
    """What Keras runs when a layer is called; any object can be called, so there a base has to tell."""
    return (definition.name == b"call" and definition.owner_is_layer) or (
        definition.name == b"__call__" and definition.owner_has_layer_base
    )


def is_loss(definition: Definition) -> bool:
    """What Keras runs as a loss, or a function that makes one."""
    if definition.name in (b"call", b"__call__"):
        return b"Loss" in definition.owner
    if definition.name == b"compute_loss":
        return b"y_pred" in definition.text
    return looks_like_loss(definition.text)


@dataclass(eq=False)
class Outline:
    filename: str
    text: bytes  # the source without comments and docstrings
    top: bytes  # module-level code
    definitions: list[Definition]
    classes: dict[bytes, list[Definition]]
    by_name: dict[bytes, list[Definition]]
    imports: dict[bytes, tuple[str, int, str]]  # name -> module, level, name in it ("" for the module itself)
    stars: list[tuple[str, int]]
    bodies: dict[bytes, bytes]  # class -> header and class-level code
    away: Away = NOTHING_ELSE

    @functools.cached_property
    def top_names(self) -> frozenset[bytes]:
        return frozenset(NAMES.findall(self.top))

    @functools.cached_property
    def asks(self) -> bool:
        """Whether any code of the file asks for a gradient itself."""
        return vocabulary.asking(self.text)

    @functools.cached_property
    def assigned(self) -> frozenset[bytes]:
        """The names that module-level code binds by assignment."""
        return frozenset(_BOUND.findall(self.top))

    @functools.cached_property
    def known(self) -> frozenset[bytes]:
        return self.assigned | self.by_name.keys() | self.classes.keys() | self.imports.keys()

    def body_names(self, name: bytes) -> frozenset[bytes]:
        return frozenset(NAMES.findall(self.bodies.get(name, b""))) - {name}

    def bits(self, text: bytes, names: frozenset[bytes]) -> int:
        tapes = TAPE if vocabulary.opens_tape(names) else 0
        asks = ASK if vocabulary.asks(text, names) else 0
        return tapes | asks | (CUT if vocabulary.cuts(text, names, self.away) else 0)


def code_of(data: bytes) -> bytes:
    """The source without comments and docstrings; line numbers stay."""
    return _NOISE.sub(_quiet, data)


def _quiet(match: re.Match[bytes]) -> bytes:
    text = match.group()
    if text[:1] == b"#":
        return b""
    if text[:3] in (b'"""', b"'''"):
        return b"''" + b"\n" * text.count(b"\n")
    sentence = b" " in text and match.string[match.start() - 1 : match.start()] not in (b"f", b"F")
    return b"''" if sentence else text


@functools.lru_cache(maxsize=KEPT)
def outline(filename: str, data: bytes) -> Outline:
    """The outline of a file. Kept for the process: many files import the same modules."""
    text = code_of(data)
    headers = list(_HEADER.finditer(text))
    top_level = [m.start() for m in _TOP_LEVEL.finditer(text)]
    found = Outline(filename, text, b"", [], {}, {}, {}, [], {})
    spans: list[tuple[int, int]] = []
    open_: list[tuple[int, bytes, bytes, bool | None]] = []  # indent, kind, name, is a layer by its bases (None: none)
    indents = [len(header[1].expandtabs()) for header in headers]
    row, counted = 1, 0
    for i, (header, indent) in enumerate(zip(headers, indents)):
        row += text.count(b"\n", counted, header.start())
        counted = header.start()
        while open_ and open_[-1][0] >= indent:
            open_.pop()
        name, kind = header[3], header[2]
        if kind == b"class":
            bases = header[4] or b""
            open_.append((indent, kind, name, bool(LAYER_BASES.search(bases)) if bases else None))
            found.classes.setdefault(name, [])
            end = headers[i + 1].start() if i + 1 < len(headers) else len(text)
            found.bodies[name] = found.bodies.get(name, b"") + text[header.start() : end]
            if indent == 0:
                spans.append((header.start(), _next(top_level, header.start(), len(text))))
            continue
        if not any(kind_ == b"def" for _, kind_, _, _ in open_):
            end = _next(top_level, header.start(), len(text))
            after = next((k for k in range(i + 1, len(headers)) if indents[k] <= indent), None)
            end = min(end, headers[after].start()) if after is not None else end
            owner = open_[-1] if open_ else None
            definition = Definition(name, row, owner[2] if owner else b"", text[header.start() : end])
            definition.owner_has_layer_base = bool(owner and owner[3] is True)
            definition.owner_is_layer = bool(owner and owner[3] is not False)
            found.definitions.append(definition)
            found.by_name.setdefault(name, []).append(definition)
            if owner:
                found.classes[owner[2]].append(definition)
            if indent == 0:
                spans.append((header.start(), end))
        open_.append((indent, kind, name, False))
    found.top = _without(text, sorted([*spans, *_read_imports(found, text)]))
    return found


def _next(starts: list[int], position: int, end: int) -> int:
    i = bisect.bisect_right(starts, position)
    return starts[i] if i < len(starts) else end


def _without(text: bytes, spans: list[tuple[int, int]]) -> bytes:
    pieces, done = [], 0
    for start, end in spans:
        if start >= done:
            pieces.append(text[done:start])
            done = end
    return b"".join([*pieces, text[done:]])


def _read_imports(found: Outline, text: bytes) -> list[tuple[int, int]]:
    """Takes note of what is imported. The spans of the imports: a name that stands nowhere else is not used."""
    others: set[bytes] = set()
    spans: list[tuple[int, int]] = []
    for match in _IMPORT.finditer(text):
        spans.append(match.span())
        module, alias = match[1], match[2]
        if module.split(b".")[0] in OTHERS:
            others.add(alias or module.split(b".")[0])
        elif alias:
            found.imports[alias] = (module.decode(), 0, "")
        else:
            found.imports[module.split(b".")[0]] = (module.split(b".")[0].decode(), 0, "")
    for match in _FROM.finditer(text):
        spans.append(match.span())
        module, level = match[2], len(match[1])
        if match[3].strip().startswith(b"*"):
            found.stars.append((module.decode(), level))
            continue
        for item in match[3].strip(b"()").replace(b"\\\n", b" ").split(b","):
            one = _ONE_IMPORT.match(item.strip())
            if one is None:
                continue
            alias = one[2] or one[1]
            if module.split(b".")[0] in OTHERS:
                others.add(alias)
            else:
                found.imports[alias] = (module.decode(), level, one[1].decode())
    found.away = Away.of(others)
    return spans
