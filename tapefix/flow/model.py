"""The model of one document: what a codemod may ask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tapefix.documents.document import Document, UnreadableDocument
from tapefix.flow.facts import Buffer, Cut, How, Spot, Target
from tapefix.flow.interpreter import BudgetSpent, Frame
from tapefix.flow.modules import Loader, no_modules
from tapefix.flow.scope import ModuleState, Scope, argument_names
from tapefix.flow.targets import Targets
from tapefix.flow.values import (
    UNKNOWN,
    Api,
    ClassObject,
    Dep,
    Function,
    Imported,
    Instance,
    Kind,
    Source,
    Tape,
    Value,
    flat,
)

_MENTIONS = re.compile(rb"\b(?:tensorflow|keras)\b")
_ASKS = re.compile(
    rb"GradientTape|\bdef (?:call|train_step|__call__)\b|\.compile\s*\(|\.fit\s*\(|add_loss|\.minimize\s*\(|\.gradient\s*\(|def \w*[lL]oss\w*\s*\(|Loss\)"
)
_CUTS = re.compile(
    rb"\bnp\.|\bnumpy\b|\.assign|scatter_|tf\.Variable|\.predict|float\(|int\(|bool\(|\bmath\b|\.eval\(|get_value|tolist\(|\.item\(|"
    rb"arg(?:max|min|sort)|top_k|\bround|floor|ceil|\bsign\b|one_hot|categorical|bernoulli|sample\(|stop_gradient|bincount|histogram|"
    rb"py_func|numpy_function|\bcond\b|tf\.case|switch_case|tf\.where|boolean_mask|gather|greater|less|equal|[<>]=?|==|cast\(|count_nonzero|"
    rb"set_weights|get_weights|\bif\b|metrics|constant\(|watch"
)
_GRAPH_CODE = re.compile(
    rb"disable_v2_behavior|disable_eager_execution|\btf\.(?:compat\.v1\.)?(?:Session|placeholder|InteractiveSession)\b|tensorflow\.contrib|tf\.contrib|\bslim\.|\btf\.app\.run"
)
_V2 = re.compile(rb"GradientTape|tf\.function|enable_eager|\.fit\s*\(")
#: a module that can have to do with gradients
_MATTERS = re.compile(rb"\b(?:tensorflow|keras|numpy|math|scipy)\b|\btf\.|^\s*(?:from \.|class |def )", re.M)
MOST_MODULES = 12
MOST_FOR_IMPORT = 6_000


def may_hold_findings(data: bytes) -> bool:
    """Whether a file can hold a finding at all: it mentions TensorFlow, asks for a gradient, and does something that can cut one."""
    return bool(_MENTIONS.search(data)) and bool(_ASKS.search(data)) and bool(_CUTS.search(data))


def is_graph_code(data: bytes) -> bool:
    """TensorFlow 1 graph code: sessions and placeholders."""
    return bool(_GRAPH_CODE.search(data)) and not _V2.search(data)


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
        return f"a tensor has no `.{self.name}`"


@dataclass
class Model:
    """What is understood of a document. `cuts` may lie in modules that it imports."""

    document: Document
    cuts: list[Cut] = field(default_factory=list)
    misuses: list[Misuse] = field(default_factory=list)
    skipped: str = ""
    documents: dict[str, Document] = field(default_factory=dict)
    seen: dict[ast.AST, Value] = field(default_factory=dict)
    graph_functions: set[ast.AST] = field(default_factory=set)
    complete: bool = True

    def value_of(self, node: ast.AST) -> Value | None:
        """What was seen at an expression, over all contexts; None where it never ran."""
        return self.seen.get(node)

    def kind_of(self, node: ast.AST) -> Kind:
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
        return value.ref.name if value is not None and isinstance(value.ref, Api) else ""

    def of(self, *hows: How) -> Iterator[Cut]:
        """The cuts of some manners, in the order of the source."""
        wanted = set(hows)
        return (cut for cut in self.cuts if cut.how in wanted)

    def document_of(self, spot: Spot) -> Document:
        return self.documents.get(spot.filename, self.document)

    def buffers(self) -> list[Buffer]:
        return list(dict.fromkeys(c.buffer for c in self.cuts if c.buffer is not None))

    def explain(self, row: int) -> list[str]:
        """What is believed of the values on a line, for a person."""
        lines = []
        for node, value in sorted(self.seen.items(), key=lambda i: (getattr(i[0], "col_offset", 0), -getattr(i[0], "end_col_offset", 0))):
            if getattr(node, "lineno", None) != row or not isinstance(node, ast.expr) or self.document.tree is None:
                continue
            if isinstance(node, (ast.Constant, ast.Starred)) or node not in self._own_nodes:
                continue
            lines.append(f"`{self.document.source(node)[:60]}`: {describe(value)}")
        for cut in self.cuts:
            if getattr(cut.spot.node, "lineno", None) == row and cut.spot.filename == self.document.filename:
                origins = ", ".join(o.name for o in cut.origins[:4])
                lines.append(f"cut here ({cut.how.value}): the gradient of {origins} is lost{' on one of its ways' if cut.partial else ''}")
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
    lost = sorted({f"{x.source.label or 'a weight'} (line {getattr(x.site.spot.node, 'lineno', '?')})" for x in whole.lost})
    text = words
    if live:
        text += f"; carries the gradient of {', '.join(live[:5])}"
    elif any(d.source.assumed for d in whole.live):
        text += "; carries the gradient of the layer's input"
    if lost:
        text += f"; has lost that of {', '.join(lost[:5])}"
    return text if live or lost or whole.live else text + "; depends on no source"


class Analysis(Targets):
    """One run of the interpreter over a document and the modules it imports."""

    def __init__(self, document: Document, loader: Loader, budget: int) -> None:
        super().__init__(budget)
        self.document = document
        self.loader = loader
        self.modules: dict[str, ModuleState] = {}
        self.cuts = {}
        self.misuses = {}
        self.buffers = {}
        self.choices = []
        self.misused_spots: dict[ast.AST, Spot] = {}

    def misuse(self, node: ast.AST, name: str) -> None:
        if node not in self.misuses:
            self.misuses[node] = name
            self.misused_spots[node] = self.spot(node)

    # ---- modules

    def find_module(self, name: str, level: int) -> Document | None:
        return self.loader(name, level, self.module.filename)

    def imported(self, ref: Imported) -> Value:
        whole = self.read_module(ref.document, ref.module)
        if whole is None or not ref.name:
            return whole or UNKNOWN
        value = whole.ref.vars.get(ref.name)
        if value is None:  # a module of a package
            inner = self.loader(f"{ref.module}.{ref.name}" if ref.module else ref.name, ref.level, self.module.filename)
            return self.read_module(inner, ref.name) or UNKNOWN
        return self.imported(value.ref) if isinstance(value.ref, Imported) else value

    def read_module(self, document: Document | None, name: str) -> Value | None:
        if document is None:
            return None
        state = self.modules.get(document.filename)
        if state is None:
            if len(self.modules) >= MOST_MODULES or len(self.frames) > 30 or not _MATTERS.search(document.data):
                return None
            try:
                document.tree  # noqa: B018
            except UnreadableDocument:
                return None
            state = self.enter(document, name or document.filename)
            self.run_imported(state)
        return Value(Kind.OBJECT, ref=state.scope)

    def run_imported(self, state: ModuleState) -> None:
        """Runs a module that was imported, on a budget of its own."""
        mine, self.budget = self.budget, min(self.budget, MOST_FOR_IMPORT)
        start = self.budget
        try:
            self.run_module(state)
        except BudgetSpent:
            pass
        self.budget = mine - (start - max(self.budget, 0))

    def enter(self, document: Document, name: str) -> ModuleState:
        state = ModuleState(name, document)
        state.scope = Scope(state)
        self.modules[document.filename] = state
        return state

    def run_module(self, state: ModuleState) -> None:
        saved, self.tapes = self.tapes, []
        self.frames.append(Frame(None, state.scope))
        try:
            self.run(state.document.tree.body)
        finally:
            self.frames.pop()
            self.tapes = saved

    # ---- the whole

    def analyse(self) -> bool:
        """Runs the program, then what nobody called. True if the budget sufficed."""
        state = self.enter(self.document, "__main__")
        try:
            self.run_module(state)
            self.roots(state)
        except BudgetSpent:
            return False
        except RecursionError:
            return False
        return True

    def roots(self, state: ModuleState) -> None:
        self.frames.append(Frame(None, state.scope))
        try:
            for value in list(state.scope.vars.values()):
                if isinstance(value.ref, ClassObject) and value.ref.scope.module is state:
                    self.class_roots(value, value.ref)
            for value in list(state.scope.vars.values()):
                ref = value.ref
                if isinstance(ref, Function) and ref.runs == 0 and ref.scope.module is state:
                    self.function_root(value, ref)
        finally:
            self.frames.pop()

    def function_root(self, value: Value, function: Function) -> None:
        names = argument_names(function.node)
        args = self.unknown_parameters(function)
        name = getattr(function.node, "name", "")
        if self.looks_like_loss(name, names):
            self.loss_root(function, args, names)
            return
        self.tapes = []
        result = self.call_function(function, args, {}, function.node)
        # a function that only makes another one (a loss, a train step): the inner one is what counts
        if isinstance(result.ref, Function) and result.ref.runs == 0:
            self.function_root(result, result.ref)

    @staticmethod
    def looks_like_loss(name: str, names: list[str]) -> bool:
        truth = ("y_true", "true", "labels", "y", "target", "targets", "label")
        guess = ("y_pred", "pred", "y_hat", "logits", "predictions", "yhat", "prediction")
        return "loss" in name.lower() and len(names) >= 2 and names[0] in truth and names[1] in guess

    def loss_root(self, function: Function, args: list[Value], names: list[str]) -> None:
        tape = Tape(function.node, "fit")
        self.tapes = [tape]
        source = Source(names[1], self.spot(function.node))
        prediction = Value(Kind.TENSOR, frozenset({Dep(source, frozenset({tape}), self.spot(function.node))}))
        values = [Value(Kind.TENSOR), prediction, *args[2:]]
        result = self.call_function(function, values, {}, function.node)
        self.judge(result, {source}, True, tape, Target(self.spot(function.node), "loss"))
        self.tapes = []

    def class_roots(self, value: Value, cls: ClassObject) -> None:
        methods = [(n, m.ref) for n, m in cls.members.items() if isinstance(m.ref, Function) and isinstance(m.ref.node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        pending = [(n, f) for n, f in methods if f.runs == 0 and n not in ("__init__", "build", "get_config", "from_config", "__repr__", "compute_output_shape")]
        if not pending or any(f.runs and n in ("call", "__call__", "train_step") for n, f in methods) and not any("tape" in n or "train" in n for n, _ in pending):
            pending = [(n, f) for n, f in pending if self.has_tape(f)]
        if not pending:
            return
        instance = self.symbolic(value, cls)
        for name, function in pending:
            if function.runs:
                continue
            self.tapes = []
            if function.kind in ("static", "class", "property"):
                continue
            args = self.unknown_parameters(function, 1)
            if name == "call" and cls.derives("Layer", "Model", "Sequential", "Module", "AbstractRNNCell", "Wrapper"):
                self.call_root(instance, function, args)
            elif name in ("call", "__call__") and cls.derives("Loss") or (name == "call" and cls.node.name.endswith("Loss")):
                self.loss_method_root(instance, function, args)
            else:
                self.call_function(function, [instance, *args], {}, function.node)

    @staticmethod
    def has_tape(function: Function) -> bool:
        return any(isinstance(n, (ast.Name, ast.Attribute)) and (getattr(n, "id", "") == "GradientTape" or getattr(n, "attr", "") == "GradientTape") for n in ast.walk(function.node))

    def symbolic(self, value: Value, cls: ClassObject) -> Value:
        """An object of a class that nobody makes: its `__init__` runs on unknown arguments."""
        instance = Instance(cls.node.name, self.spot(cls.node), cls=cls)
        made = Value(Kind.OBJECT, ref=instance)
        found = cls.find("__init__")
        if found is not None and isinstance(found[1].ref, Function):
            self.tapes = []
            self.call_function(found[1].ref, [made, *self.unknown_parameters(found[1].ref, 1)], {}, cls.node)
        return made

    def call_root(self, instance: Value, function: Function, args: list[Value]) -> None:
        owner = instance.ref
        tape = Tape(function.node, "fit")
        self.build(instance, owner, function.node)
        self.tapes = [tape]
        source = Source("the layer's input", self.spot(function.node), assumed=True)
        inputs = Value(Kind.TENSOR, frozenset({Dep(source, frozenset({tape}), self.spot(function.node))}))
        values = [inputs if i == 0 else a for i, a in enumerate(args)]
        result = self.call_function(function, [instance, *values], {}, function.node)
        self.judge(result, self.reach(owner), True, tape, Target(self.spot(function.node), "call"))
        self.tapes = []

    def loss_method_root(self, instance: Value, function: Function, args: list[Value]) -> None:
        tape = Tape(function.node, "fit")
        self.tapes = [tape]
        names = argument_names(function.node)
        source = Source(names[2] if len(names) > 2 else "y_pred", self.spot(function.node))
        prediction = Value(Kind.TENSOR, frozenset({Dep(source, frozenset({tape}), self.spot(function.node))}))
        values = [Value(Kind.TENSOR), prediction, *args[2:]][: max(len(args), 2)]
        result = self.call_function(function, [instance, *values], {}, function.node)
        self.judge(result, {source}, True, tape, Target(self.spot(function.node), "loss"))
        self.tapes = []


def _spot_order(spot: Spot | None) -> tuple[str, int, int]:
    if spot is None:
        return ("", 0, 0)
    return spot.filename, getattr(spot.node, "lineno", 0), getattr(spot.node, "col_offset", 0)


def budget_for(document: Document) -> int:
    """How many expressions may be evaluated: linear in the size of the file."""
    return min(40_000 + 4 * len(document.data), 400_000)


def understand(document: Document, loader: Loader = no_modules, budget: int | None = None) -> Model:
    """Runs the document on abstract values. Raises UnreadableDocument where it does not parse."""
    model = Model(document)
    if not may_hold_findings(document.data):
        document.tree  # noqa: B018 - a named file that does not parse is an error
        return model
    if is_graph_code(document.data):
        model.skipped = "TensorFlow 1 graph code"
        return model
    document.tree  # noqa: B018
    analysis = Analysis(document, loader, budget or budget_for(document))
    model.complete = analysis.analyse()
    model.documents = {name: state.document for name, state in analysis.modules.items()}
    model.cuts = sorted(analysis.cuts.values(), key=lambda c: (c.spot.filename, getattr(c.spot.node, "lineno", 0), getattr(c.spot.node, "col_offset", 0), c.how.value))
    for cut in model.cuts:  # dependencies are sets: put what they gave in an order that every run shares
        cut.origins = tuple(sorted(cut.origins, key=lambda o: (_spot_order(o.spot), o.name)))
        cut.targets.sort(key=lambda t: _spot_order(t.spot))
    model.misuses = [Misuse(analysis.misused_spots[node], name) for node, name in analysis.misuses.items()]
    model.seen = analysis.seen
    return model


