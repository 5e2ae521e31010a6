"""Silence is not precision: known cuts, put into public code, must be found.

    python benchmarks/injection.py FOLDER... [--count 200] [--seed 1] [--verbose]

FOLDER: unpacked packages. In files taken at random a cut of each kind is written behind a value on the way from a
weight to a result: a name that holds what a layer gave in `call`, a prediction that a loss function gets, or what is
computed under a tape. The flow model must point at a line of the cut. Printed are the hits of each kind and what was
missed. Files in which the model already finds something are left out.
"""

from __future__ import annotations

import argparse
import ast
import collections
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tapefix.documents.document import Document, UnreadableDocument
from tapefix.flow import RepositoryLoader, is_graph_code, may_hold_findings, understand

IMPORTS = ("import numpy as np", "import tensorflow as tf")
#: each kind of cut of the value `{x}`: the lines behind it, under the code of the rule that speaks for it
CUTS: dict[str, tuple[str, ...]] = {
    "TAP101": ("_v = tf.Variable(tf.zeros([8, 4]), trainable=False)", "_v[0].assign({x})", "{x} = _v * 1.0"),
    "TAP102": ("_v = tf.Variable(0.0, trainable=False)", "_v.assign({x})", "{x} = _v * 1.0"),
    "TAP103": ("{x} = tf.Variable({x}) * 1.0",),
    "TAP104": ("_b = np.zeros((8, 4))", "_b[0] = {x}", "{x} = tf.constant(_b)"),
    "TAP105": ("{x} = tf.constant(np.stack([{x}, {x}]))[0]",),
    "TAP201": ("{x} = tf.constant({x}.numpy())",),
    "TAP202": ("{x} = tf.constant(np.tanh({x}))",),
    "TAP203": ("{x} = tf.ones([8, 4]) * float(tf.reduce_mean({x}))",),
    "TAP205": ("{x} = tf.constant({x}, shape=(8, 4))",),
    "TAP206": ("{x} = tf.numpy_function(lambda a: 2 * a, [{x}], tf.float32)",),
    "TAP208": ("import scipy.special", "{x} = tf.constant(scipy.special.expit({x}))"),
    "TAP301": ("if tf.reduce_mean({x}) > 0.0:", "    {x} = tf.ones([8, 4])", "else:", "    {x} = tf.zeros([8, 4])"),
    "TAP302": ("{x} = tf.cond(tf.reduce_mean({x}) > 0.0, lambda: tf.ones([8, 4]), lambda: tf.zeros([8, 4]))",),
    "TAP303": ("{x} = tf.where({x} > 0.0, 1.0, 0.0)",),
    "TAP304": (
        "_n, _t = 0.0, tf.reduce_sum({x})",
        "while _t < 3.0:",
        "    _t, _n = _t + 1.0, _n + 1.0",
        "{x} = tf.ones([8, 4]) * _n",
    ),
    "TAP401": ("{x} = tf.cast(tf.argmax({x}, axis=-1), tf.float32)",),
    "TAP402": ("{x} = tf.round({x})",),
    "TAP403": ("{x} = tf.cast({x} > 0.5, tf.float32)",),
    "TAP404": ("{x} = tf.cast(tf.cast({x}, tf.int32), tf.float32)",),
    "TAP405": ("{x} = tf.one_hot(tf.cast({x}, tf.int32), 4)",),
    "TAP406": ("{x} = tf.cast(tf.random.categorical({x}, 1), tf.float32)",),
    "TAP407": ("{x} = tf.stop_gradient({x})",),
    "TAP408": ("{x} = tf.cast(tf.math.bincount(tf.cast({x}, tf.int32)), tf.float32)",),
    "TAP409": ("{x} = tf.keras.metrics.binary_accuracy(tf.ones([8, 4]), {x})",),
}


@dataclass(frozen=True)
class Place:
    """Behind which row of a file, and of which name."""

    path: Path
    row: int
    indent: str
    name: str
    kind: str  # "call", "loss" or "tape"


def places_of(path: Path, tree: ast.Module, text: str) -> Iterator[Place]:
    lines = text.split("\n")

    def place(row: int, sample: ast.stmt, name: str, kind: str) -> Place:
        line = lines[sample.lineno - 1]
        return Place(path, row, line[: len(line) - len(line.lstrip())], name, kind)

    for cls in [n for n in tree.body if isinstance(n, ast.ClassDef)]:
        if not any(word in ast.unparse(b) for b in cls.bases for word in ("Layer", "Model")):
            continue
        for method in [n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "call"]:
            made = made_of_layers(cls)
            for i, statement in enumerate(method.body[:-1]):
                name = bound_to_layer(statement, made)
                if name and goes_on(name, method.body[i + 1 :]):
                    yield place(statement.end_lineno or 0, statement, name, "call")
    for function in [n for n in tree.body if isinstance(n, ast.FunctionDef)]:
        names = [a.arg for a in function.args.args]
        if "loss" in function.name.lower() and names[:2] == ["y_true", "y_pred"]:
            body = function.body[1:] if ast.get_docstring(function) else function.body
            if body and goes_on("y_pred", body):
                yield place(body[0].lineno - 1, body[0], "y_pred", "loss")
    for block in [n for n in ast.walk(tree) if isinstance(n, ast.With)]:
        if "GradientTape" not in ast.unparse(block.items[0]):
            continue
        for i, statement in enumerate(block.body[:-1]):
            name = bound_to_model(statement)
            if name and goes_on(name, block.body[i + 1 :]):
                yield place(statement.end_lineno or 0, statement, name, "tape")


def made_of_layers(cls: ast.ClassDef) -> set[str]:
    """The attributes of `self` that hold a layer with weights, as far as its name tells."""
    return {
        node.targets[0].attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).endswith(("Dense", "Conv1D", "Conv2D", "EinsumDense", "LSTM", "GRU"))
    }


def bound_to_layer(statement: ast.stmt, made: set[str]) -> str:
    """The name in `x = self.layer(...)`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call):
        return ""
    head, _, attribute = ast.unparse(value.func).partition(".")
    return target.id if head == "self" and attribute in made else ""


def bound_to_model(statement: ast.stmt) -> str:
    """The name in `y = model(...)`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call):
        return ""
    called = ast.unparse(value.func)
    return target.id if called.endswith("model") or called == "self" else ""


def goes_on(name: str, rest: list[ast.stmt]) -> bool:
    """The name's value is computed with in what follows, before it is bound anew."""
    for statement in rest:
        if isinstance(statement, (ast.Assign, ast.Return, ast.AugAssign)):
            value = statement.value
            if value is not None and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(value)):
                return True
        if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(statement)):
            return False
    return False


def injected(text: str, place: Place, code: str) -> tuple[str, range]:
    """The text with the cut, and the rows of the cut."""
    lines = text.split("\n")
    cut = [line.format(x=place.name) for line in (*IMPORTS, *CUTS[code])]
    lines[place.row : place.row] = [place.indent + line for line in cut]
    first = place.row + 1 + len(IMPORTS)
    return "\n".join(lines), range(first, first + len(CUTS[code]))


def found_at(path: Path, text: str, rows: range | None = None) -> tuple[bool, str]:
    """Whether the model points at one of the rows (any row without), and else what may be the reason."""
    model = understand(Document(path, text.encode()), RepositoryLoader())
    own = [c for c in model.cuts if c.spot.filename == str(path)]
    hit = any(rows is None or getattr(c.spot.node, "lineno", 0) in rows for c in own)
    return hit, "" if hit else "not run" if not model.looked else "budget" if not model.complete else "not seen"


def collect(folders: list[Path], generator: random.Random, wanted: int) -> list[tuple[Place, str]]:
    """Places in files taken at random, at most two in a file."""
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    generator.shuffle(files)
    places: list[tuple[Place, str]] = []
    for path in files:
        if len(places) >= wanted:
            break
        data = path.read_bytes()
        if not may_hold_findings(data) or is_graph_code(data) or b"\r" in data:
            continue
        try:
            document = Document(path, data)
            here = list(places_of(path, document.tree, document.text))
        except UnreadableDocument:
            continue
        if here and not found_at(path, document.text)[0]:
            places += [(p, document.text) for p in generator.sample(here, min(2, len(here)))]
    return places


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="also name the place of each miss")
    options = parser.parse_args()
    sys.setrecursionlimit(3000)
    places = collect(options.folders, random.Random(options.seed), options.count)
    hits: collections.Counter[str] = collections.Counter()
    total: collections.Counter[str] = collections.Counter()
    missed: collections.Counter[tuple[str, str]] = collections.Counter()
    for i, (place, text) in enumerate(places):
        code = list(CUTS)[i % len(CUTS)]
        changed, rows = injected(text, place, code)
        hit, reason = found_at(place.path, changed, rows)
        total[code] += 1
        hits[code] += hit
        if not hit:
            missed[place.kind, reason] += 1
            if options.verbose:
                print(f"missed {code} {place.kind} {place.path}:{rows.start} `{place.name}` ({reason})", flush=True)
    for code in CUTS:
        print(f"{code} {hits[code]}/{total[code]}")
    for (kind, reason), number in missed.most_common():
        print(f"missed in a {kind}: {reason}: {number}")
    found, tried = sum(hits.values()), sum(total.values())
    print(f"found {found} of {tried}: {found / max(1, tried):.1%}")


if __name__ == "__main__":
    main()
