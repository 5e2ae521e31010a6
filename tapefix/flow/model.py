"""The model of one document: what a codemod may ask."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tapefix.documents.document import Document
from tapefix.flow.facts import Buffer, Cut, How, Spot
from tapefix.flow.objects import Api, flat
from tapefix.flow.unused import Unused, unused
from tapefix.flow.values import Kind, Value

_WANTS_NUMBERS = {
    "item": "a tensor's elements cannot be assigned",
    "index": "a tensor is not indexed by an array; tf.gather and tf.gather_nd take one",
    "round": "round() takes no tensor",
    "json": "a tensor cannot be written as JSON",
}


@dataclass(frozen=True)
class Misuse:
    """Something only an array has is asked of a tensor, so that the program raises there."""

    spot: Spot
    name: str

    @property
    def message(self) -> str:
        if self.name == "complex":
            return "a real tensor takes no complex factor"
        if self.name == "constant":
            return "tf.constant takes no list of tensors"
        if self.name == "retyped":
            return "a tensor keeps its type; tf.cast gives it another"
        if self.name == "dtype":
            return "NumPy does not know a tensor's type"
        if self.name in _WANTS_NUMBERS:
            return _WANTS_NUMBERS[self.name]
        return f"a tensor has no `.{self.name}`"


@dataclass
class Model:
    """What is understood of a document. `cuts` may lie in modules that it imports."""

    document: Document
    cuts: list[Cut] = field(default_factory=list)
    #: what meets a factor that carries the gradient, as what was detached on purpose does; no finding by itself
    veiled: list[Cut] = field(default_factory=list)
    misuses: list[Misuse] = field(default_factory=list)
    skipped: str = ""
    documents: dict[str, Document] = field(default_factory=dict)
    seen: dict[ast.AST, Value] = field(default_factory=dict)
    graph_functions: set[ast.AST] = field(default_factory=set)
    complete: bool = True
    looked: bool = False  # whether it was run at all: what can hold no finding is not
    release: Callable[[], None] = field(default=lambda: None, repr=False)
    """Lets go of what was seen. Values, scopes and classes hold each other; without it they wait for the collector."""

    def value_of(self, node: ast.AST) -> Value | None:
        """What was seen at an expression, over all contexts; None where it never ran."""
        return self.seen.get(node)

    def kind_of(self, node: ast.AST) -> int:
        value = self.seen.get(node)
        return flat(value).kind if value is not None else Kind.UNKNOWN

    def is_tensor(self, node: ast.AST) -> bool:
        """Surely a tensor or Variable, in every context."""
        kind = self.kind_of(node)
        return bool(kind & (Kind.TENSOR | Kind.VARIABLE)) and not kind & ~(Kind.TENSOR | Kind.VARIABLE | Kind.CONTAINER)

    def may_be_tensor(self, node: ast.AST) -> bool:
        return bool(self.kind_of(node) & (Kind.TENSOR | Kind.VARIABLE | Kind.UNKNOWN))

    def depends(self, node: ast.AST) -> bool:
        """A gradient of some source reaches the value."""
        value = self.seen.get(node)
        return value is not None and bool(flat(value).live)

    def lost_at(self, node: ast.AST) -> bool:
        """A gradient was lost before the value got here."""
        value = self.seen.get(node)
        return value is not None and bool(flat(value).lost)

    def api_of(self, node: ast.AST) -> str:
        """The full dotted name of the library thing an expression stands for, or ""."""
        value = self.seen.get(node)
        names = {ref.name if isinstance(ref, Api) else "" for ref in value.refs} if value is not None else set()
        return names.pop() if len(names) == 1 else ""

    def of(self, *hows: How) -> Iterator[Cut]:
        """The cuts of some manners, in the order of the source."""
        wanted = set(hows)
        return (cut for cut in self.cuts if cut.how in wanted)

    def document_of(self, spot: Spot) -> Document:
        return self.documents.get(spot.filename, self.document)

    def buffers(self) -> list[Buffer]:
        return list(dict.fromkeys(c.buffer for c in self.cuts if c.buffer is not None))

    def unused(self) -> list[Unused]:
        """Layers, models and Variables of this document that are made and never used."""
        return list(unused(self.document, self.seen)) if self.complete and self.seen else []

    def explain(self, row: int) -> list[str]:
        """What is believed of the values on a line, for a person."""
        lines = []
        for node, value in sorted(
            self.seen.items(), key=lambda i: (getattr(i[0], "col_offset", 0), -getattr(i[0], "end_col_offset", 0))
        ):
            if getattr(node, "lineno", None) != row or not isinstance(node, ast.expr) or self.document.tree is None:
                continue
            if isinstance(node, (ast.Constant, ast.Starred)) or node not in self._own_nodes:
                continue
            lines.append(f"`{self.document.source(node)[:60]}`: {describe(value)}")
        for cut in self.cuts:
            if getattr(cut.spot.node, "lineno", None) == row and cut.spot.filename == self.document.filename:
                origins = ", ".join(o.name for o in cut.origins[:4])
                lines.append(
                    f"cut here ({cut.how.value}): the gradient of {origins} is lost"
                    f"{' on one of its ways' if cut.partial else ''}"
                )
        return lines

    @property
    def _own_nodes(self) -> set[ast.AST]:
        return set(ast.walk(self.document.tree))


_KIND_WORDS = {
    Kind.TENSOR: "tensor",
    Kind.VARIABLE: "Variable",
    Kind.ARRAY: "NumPy value",
    Kind.NUMBER: "Python value",
    Kind.SHAPE: "shape",
    Kind.CONTAINER: "container",
    Kind.OBJECT: "object",
    Kind.UNKNOWN: "unknown",
}


def describe(value: Value) -> str:
    whole = flat(value)
    words = " or ".join(word for kind, word in _KIND_WORDS.items() if whole.kind & kind) or "unknown"
    live = sorted({d.source.label or "a weight" for d in whole.live if not d.source.assumed})
    lost = sorted(
        {f"{x.source.label or 'a weight'} (line {getattr(x.site.spot.node, 'lineno', '?')})" for x in whole.lost}
    )
    text = words
    if live:
        text += f"; carries the gradient of {', '.join(live[:5])}"
    elif any(d.source.assumed for d in whole.live):
        text += "; carries the gradient of the layer's input"
    if lost:
        text += f"; has lost that of {', '.join(lost[:5])}"
    return text if live or lost or whole.live else text + "; depends on no source"
