"""A small model and three rules of its own, to test the engine without the real ones.

Here a call of `np.exp`, `np.mean` or `np.fft` is cut where its argument is still a tensor: the innermost call that is
not wrapped around another NumPy call. As in real code, a repair may only move the cut one call outwards.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tapefix.codemod import Applicability, Codemod, Finding, Fix, Refusal
from tapefix.config import Config
from tapefix.documents.document import Document, Edit
from tapefix.documents.workspace import Workspace
from tapefix.flow.facts import Spot
from tapefix.reading import Tools
from tapefix.selection import Selection

METHODS = ("tolist", "item")


@dataclass(frozen=True)
class ToyMisuse:
    spot: Spot
    message: str


class ToyModel:
    """Reads `import NAME` of files beside it, as a real model does."""

    looked = True
    veiled = ()

    def release(self) -> None:
        """It holds nothing that would have to be let go."""

    def __init__(self, document: Document, loader: Workspace):
        self.documents = [document]
        for node in ast.walk(document.tree):
            if isinstance(node, ast.Import):
                folder = document.filename.rpartition("/")[0]
                found = [loader(f"{folder}/{alias.name}.py") for alias in node.names]
                self.documents += [one for one in found if one is not None]
        self.document = document
        self.skipped = "TensorFlow 1 graph code" if "tf.Session" in document.text else ""

    @property
    def misuses(self) -> Iterator[ToyMisuse]:
        """`.tolist()` and `.item()` work on an array and not on a tensor."""
        for document in self.documents:
            for node in ast.walk(document.tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                    if document.source(node.func.value).startswith("tf."):
                        yield ToyMisuse(Spot(document.filename, node), f"a tensor has no {node.func.attr}()")

    def explain(self, row: int) -> list[str]:
        return [f"row {row} of {self.document.rows}"]


def cuts(model, function: str) -> Iterator[tuple[Document, ast.Call]]:
    for document in model.documents if isinstance(model, ToyModel) else [model.document]:
        for node in ast.walk(document.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                if "np." not in "".join(map(ast.unparse, node.args)):
                    yield document, node


class _Renamed(Codemod):
    function = ""
    replacement = ""
    applicability = Applicability.SAFE

    def find(self, model) -> Iterator[Finding]:
        for document, node in cuts(model, self.function):
            start, end = document.span(node.func)
            edit = Edit(document.filename, start, end, self.replacement)
            yield Finding(
                code=self.code,
                name=self.name,
                message=f"no gradient flows through `{self.function}`",
                why="NumPy knows nothing of the tape",
                place=document.place(node),
                outcome=Fix(self.applicability, f"{self.replacement} in place of {self.function}", (edit,)),
            )


class Exp(_Renamed):
    code, name, function, replacement = "TOY101", "numpy-exp", "np.exp", "tf.exp"


class Mean(_Renamed):
    code, name, function, replacement = "TOY102", "numpy-mean", "np.mean", "tf.reduce_mean"
    applicability = Applicability.UNSAFE


class Broken(_Renamed):
    code, name, function, replacement = "TOY103", "numpy-sum", "np.sum", "tf.reduce sum"


class Stubborn(_Renamed):
    code, name, function, replacement = "TOY104", "numpy-abs", "np.abs", "np.abs"


class Endless(_Renamed):
    """Turns `np.log` into `np.log10` and that into `np.log`."""

    code, name = "TOY105", "numpy-log"

    def find(self, model):
        for self.function, self.replacement in (("np.log", "np.log10"), ("np.log10", "np.log")):
            yield from super().find(model)


class Wrong(_Renamed):
    """A rewrite that keeps no value: proof must leave it out."""

    code, name, function, replacement = "TOY106", "plus", "tf.add", "tf.subtract"


class Item(Codemod):
    """Mends `.item()`: a tensor of one element is good as it is."""

    code, name = "TOY301", "item"

    def find(self, model):
        yield from ()

    def mend(self, model, misuse):
        if "item" not in misuse.message:
            return None
        document, call = model.document, misuse.spot.node
        edit = Edit(document.filename, document.span(call.func.value)[1], document.span(call)[1], "")
        fix = Fix(Applicability.SAFE, "the tensor itself", (edit,))
        return Finding(self.code, self.name, "no item()", "a tensor has none", document.place(call), fix)


class Refused(Codemod):
    code, name = "TOY201", "numpy-fft"

    def find(self, model):
        for document, node in cuts(model, "np.fft"):
            yield Finding(
                code=self.code,
                name=self.name,
                message="no gradient flows through `np.fft`",
                why="NumPy knows nothing of the tape",
                place=document.place(node),
                outcome=Refusal("there is no one transform that fits"),
            )


class Crashing(Codemod):
    code, name = "TOY901", "crash"

    def find(self, model):
        if "crash" in model.document.text:
            raise ZeroDivisionError("by design")
        yield from ()


RULES = (Exp(), Mean(), Broken(), Stubborn(), Endless(), Wrong(), Refused(), Item(), Crashing())


def tools(**settings) -> Tools:
    return Tools(RULES, ToyModel, Selection(Config(**settings)))


def workspace(**texts: str) -> Workspace:
    """A workspace of files /p/NAME.py that exist nowhere else."""
    data = {f"/p/{name}.py": text.encode() for name, text in texts.items()}
    return Workspace(data.get)
