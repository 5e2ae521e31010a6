"""One rewrite in the making: the document and the model of it, names of operations, definitions, new statements."""

from __future__ import annotations

import ast
import functools
import re

from tapefix.documents.document import Document
from tapefix.flow import Model
from tapefix.flow.objects import Api, Function, Layer
from tapefix.flow.values import Kind, Var
from tapefix.rewrite import build, imports, names
from tapefix.rewrite.accumulators.facts import SyntaxFacts
from tapefix.rewrite.accumulators.syntax import Syntax, dotted, syntax_of
from tapefix.rewrite.edits import EditSet


class Unclear(Exception):
    """The rewrite is not offered; the message says why, for a person."""


#: costs little, has no effect and no chance in it, so that it may be written twice
_CHEAP = frozenset(
    """abs negative square sqrt exp log cast reshape expand_dims squeeze reduce_sum reduce_mean reduce_max reduce_min
    sum mean max min norm shape zeros_like ones_like sigmoid tanh relu softplus softmax identity clip_by_value clip
    stop_gradient convert_to_tensor constant range one_hot argmax argmin transpose maximum minimum gather""".split()
)
_MIXED = re.compile(r"float64|float16|bfloat16|\bhalf\b|\bdouble\b|mixed_precision|set_floatx")


class Exact(str):
    """The text of a value that is the hard one already and carries a gradient of its own."""


class Site:
    """What the rewriters of one fix share."""

    def __init__(self, model: Model, document: Document, threshold: str = "straight-through"):
        self.model, self.document, self.threshold = model, document, threshold
        self.syntax: Syntax = syntax_of(document)
        self.facts = SyntaxFacts(self.syntax)
        self.edits = EditSet(document)
        self.named: dict[str, str] = {}
        self.captured: list[ast.stmt] = []  # statements that will be replaced as a whole ...
        self.prelude: list[str] = []  # ... and the lines that go before what replaces them

    @property
    def soft(self) -> bool:
        """The configuration asks for soft gates, which change the forward value."""
        return self.threshold == "soft"

    def text(self, node: ast.AST) -> str:
        """The node's source, with what was rewritten inside it already."""
        return self.edits.source(node)

    def local(self, text: str, at: ast.AST, *, statement: bool = False) -> str:
        """Code that says `tf.`, said as the document says it there."""
        return imports.with_local_names(self.edits, text, at, statement=statement)

    def operation(self, node: ast.AST) -> str:
        """The last name of the library function that a call calls: "greater" for `tf.math.greater(...)`, else ""."""
        if not isinstance(node, ast.Call):
            return ""
        return self.api(node.func).rpartition(".")[2]

    def api(self, node: ast.AST) -> str:
        """The full name of the library thing that an expression stands for in every context, else ""."""
        value = self.model.value_of(node)
        names = {getattr(ref, "name", "") if isinstance(ref, Api) else "" for ref in (value.refs if value else [])}
        return names.pop() if len(names) == 1 else ""

    def argument(self, call: ast.Call, position: int, *keywords: str) -> ast.expr | None:
        for keyword in call.keywords:
            if keyword.arg in keywords:
                return keyword.value
        if position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: position + 1]):
            return call.args[position]
        return None

    # what is known of values

    def loses(self, node: ast.AST) -> bool:
        """Something inside or before the expression has lost a gradient, which it does not carry otherwise."""
        return self.model.lost_at(node)

    def alive(self, node: ast.AST) -> bool:
        return self.model.depends(node)

    def alive_or_lost(self, node: ast.AST) -> bool:
        return self.alive(node) or self.loses(node)

    def trained(self, node: ast.AST) -> bool:
        """Weights have to do with the value, whether their gradient still flows or not."""
        return any(self.alive(inner) or self.loses(inner) for inner in ast.walk(node) if isinstance(inner, ast.expr))

    def direct(self, node: ast.expr) -> bool:
        """A trained Variable itself is compared in the condition."""
        for inner in ast.walk(self.definition(node)):
            value = self.model.value_of(inner)
            if isinstance(inner, (ast.Name, ast.Attribute)) and value is not None:
                if any(isinstance(ref, Var) for ref in value.refs):
                    return True
        return False

    def is_number(self, node: ast.AST) -> bool:
        """Surely no tensor."""
        if isinstance(node, ast.Constant):
            return True
        kind = self.model.kind_of(node)
        return bool(kind) and not kind & ~(Kind.NUMBER | Kind.SHAPE)

    def dtype(self, node: ast.expr) -> str:
        """ "float", "int", "bool" or ""."""
        if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return "bool"
        if isinstance(node, ast.Constant):
            return {bool: "bool", int: "int", float: "float"}.get(type(node.value), "")
        value = self.model.value_of(node)
        return value.dtype if value is not None else ""

    @functools.cached_property
    def mixed(self) -> bool:
        """The document speaks of another float type than float32, so that types have to be said."""
        return bool(_MIXED.search(self.document.text))

    # definitions and uses

    def definition(self, node: ast.expr) -> ast.expr:
        """What a name stands for at its use, through plain assignments; the node itself where that is not clear."""
        for _ in range(8):
            if not isinstance(node, ast.Name):
                return node
            value = self.reaching(node)
            if value is None or not self.holds(value, node):
                return node
            node = value
        return node

    def origin(self, node: ast.expr) -> ast.expr:
        """What a name was made of, though the names in that may mean something else at its use."""
        for _ in range(8):
            value = self.reaching(node) if isinstance(node, ast.Name) else None
            if value is None:
                return node
            node = value
        return node

    def holds(self, value: ast.expr, at: ast.AST) -> bool:
        """Whether the names in `value` still mean the same at a later place."""
        made, use = self.syntax.statement(value), self.syntax.statement(at)
        low, high = self.syntax.end(made), self.syntax.order[use]
        for name in {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}:
            _, bindings = self.syntax.visible(name, value)
            for binding in bindings:
                own = self.syntax.inside(binding, made) and not self.syntax.inside(binding, value)
                if (own and made is not use) or low < self.syntax.order[binding] < high:
                    return False
        return True

    def uses(self, assign: ast.stmt, value: ast.expr, name: str) -> list[ast.Name]:
        """The reads of the name that get this assignment's value. Raises Unclear where another one may reach them."""
        scope, found = self.syntax.scope(assign), []
        for node in ast.walk(scope):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                reaching = self.reaching(node)
                if reaching is value:
                    found.append(node)
                elif reaching is None and self.syntax.before(assign, node):
                    raise Unclear(f"`{name}` is bound at several places")
        return found

    def reaching(self, node: ast.Name) -> ast.expr | None:
        """The expression whose value a name surely has at its use; None where several may reach it."""
        name, statement = node.id, self.syntax.statement(node)
        function = self.syntax.function(node)
        if isinstance(function, ast.Lambda) and any(a.arg == name for a in function.args.args):
            return None
        while True:
            block = self.syntax.block(statement)
            for earlier in reversed(block[: block.index(statement)]):
                if self._binds(earlier, name):
                    return _plainly(earlier, name)
            above = self.syntax.parent(statement)
            if isinstance(above, (ast.For, ast.While)) and self._binds(above, name):
                return None
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
                if isinstance(above, ast.Module) or self._binds(above, name, inside=True):
                    return None
                scope, bindings = self.syntax.visible(name, node)
                if len(bindings) != 1 or scope is above:
                    return None
                target = self.syntax.parent(bindings[0])
                return _plainly(target, name) if isinstance(target, ast.stmt) else None
            if not isinstance(above, ast.AST):
                return None
            statement = self.syntax.statement(above)

    def _binds(self, statement: ast.AST, name: str, inside: bool = False) -> bool:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.Name) and inner.id == name and not isinstance(inner.ctx, ast.Load):
                return True
            if (
                isinstance(inner, ast.arg)
                and inner.arg == name
                and self.syntax.parent(inner) is getattr(statement, "args", 0)
            ):
                return inside
            if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and inner.name == name and inner is not statement:
                return True
        return False

    def function(self, call: ast.AST) -> ast.FunctionDef | ast.Lambda | None:
        """The one function of this document that a call runs."""
        if not isinstance(call, ast.Call):
            return None
        value = self.model.value_of(call.func)
        nodes = {ref.node for ref in (value.refs if value is not None else []) if isinstance(ref, Function)}
        for ref in value.refs if value is not None else []:
            inner = getattr(getattr(ref, "function", None), "ref", None)
            if isinstance(inner, Function):
                nodes.add(inner.node)
        if len(nodes) != 1:
            return None
        (node,) = nodes
        return node if node in self.syntax.order and not isinstance(node, ast.AsyncFunctionDef) else None

    def calls_of(self, function: ast.AST) -> list[ast.Call]:
        return [n for n in ast.walk(self.document.tree) if isinstance(n, ast.Call) and self.function(n) is function]

    def activation(self, node: ast.expr) -> str:
        """The last activation by which a value was made: "softmax" for `tf.nn.softmax(x)` and such layers."""
        node = self.definition(node)
        if isinstance(node, ast.Subscript):
            return self.activation(node.value)
        if not isinstance(node, ast.Call):
            return ""
        operation = self.operation(node)
        if operation in ("softmax", "sigmoid", "tanh", "relu"):
            return operation
        if operation in ("reduce_mean", "mean", "squeeze", "reshape", "expand_dims"):
            inner = self.argument(node, 0, "input_tensor", "input", "tensor", "x")
            return self.activation(inner) if inner is not None else ""
        value = self.model.value_of(node.func)
        for ref in value.refs if value is not None else []:
            made = ref.spot.node if isinstance(ref, Layer) and ref.spot is not None else None
            if isinstance(made, ast.Call) and ref.spot.filename == self.document.filename:
                return self._layer_activation(made)
        return ""

    def _layer_activation(self, made: ast.Call) -> str:
        inner = [*made.args, *(k.value for k in made.keywords if k.arg == "layers")]
        for node in inner[:1]:
            if isinstance(node, (ast.List, ast.Tuple)) and node.elts and isinstance(node.elts[-1], ast.Call):
                return self._layer_activation(node.elts[-1])
        named = next((k.value for k in made.keywords if k.arg == "activation"), None)
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            return named.value
        tail = (dotted(named) or "").rpartition(".")[2] if named is not None else ""
        return tail or {"Softmax": "softmax"}.get((dotted(made.func) or "").rpartition(".")[2], "")

    # writing

    def free(self, node: ast.AST) -> bool:
        """A statement put before the node's own runs whenever the node does, once, and sees the same names."""
        child: ast.AST = node
        for above in self.syntax.ancestors(node):
            if isinstance(above, ast.While) and above in self.captured:
                return True
            if isinstance(above, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.While)):
                return False
            if isinstance(above, ast.IfExp) and child is not above.test:
                return False
            if isinstance(above, ast.BoolOp) and child is not above.values[0]:
                return False
            if isinstance(above, ast.stmt) and self.is_captured(node):
                return True
            if isinstance(above, ast.stmt):
                if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    return False
                return not self.edits.layout.is_elif(above)
            child = above
        return False

    def is_captured(self, node: ast.AST) -> bool:
        return any(self.syntax.inside(node, statement) for statement in self.captured)

    def cheap(self, node: ast.AST) -> bool:
        return all(
            self.operation(inner) in _CHEAP
            if isinstance(inner, ast.Call)
            else not isinstance(
                inner, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.ListComp, ast.GeneratorExp)
            )
            for inner in ast.walk(node)
        )

    def repeatable(self, node: ast.AST) -> bool:
        """Only library functions without chance are called in it: running it twice gives the same twice."""
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
                return False
            if isinstance(inner, ast.Call):
                api = self.api(inner.func)
                if not api or ".random" in api or ".layers." in api or "dropout" in api:
                    return False
        return True

    def once(self, node: ast.expr, base: str = "value") -> str:
        """Text for the node's value that may stand at several places; a costly one gets a name first.

        Raises Unclear where it can get none and must not run twice.
        """
        if self.cheap(node):
            return self.text(node)
        key = f"{self.syntax.order[node]}"
        if key in self.named:
            return self.named[key]
        if self.free(node):
            name = names.fresh(self.edits, node, base)
            self.put_before(node, name, self.text(node))
            self.edits.replace(node, name)
            self.named[key] = name
            return name
        if self.repeatable(node):
            return self.text(node)
        raise Unclear(f"`{self.brief(node)}` would run twice")

    def name_for(self, text: str, at: ast.expr, base: str) -> str:
        """A name for a new expression, given before the statement of `at`; the text itself where that can't be."""
        if text.isidentifier():
            return text
        if text in self.named:
            return self.named[text]
        if not self.free(at):
            return text
        name = names.fresh(self.edits, at, base)
        self.put_before(at, name, text)
        self.named[text] = name
        return name

    def put_before(self, at: ast.AST, name: str, text: str) -> None:
        statement = self.syntax.statement(at)
        if self.is_captured(at):
            self.prelude.append(f"{name} = {text}\n")
            return
        self.edits.insert_before(statement, f"{name} = {self.local(text, statement)}\n")

    def straight_through(self, node: ast.expr, soft: str, hard: str | None = None, base: str = "soft") -> None:
        """Give the node's value the gradient of `soft`. `hard` is a template around `{it}`, the node's own text."""
        hard = hard or "{it}"
        if self.soft or isinstance(soft, Exact):
            self.edits.replace(node, self.local(soft, node))
            return
        name = self.name_for(soft, node, base)
        template = f"{{soft}} + tf.stop_gradient({hard} - {{soft}})"
        self.edits.rewrite(node, self.local_template(template, node), it=node, soft=self.local(name, node))

    def local_template(self, template: str, at: ast.AST) -> str:
        """A template that says `tf.`, said as the document says it; its places stay."""
        places = re.findall(r"\{\w+\}", template)
        marked = template
        for i, place in enumerate(dict.fromkeys(places)):
            marked = marked.replace(place, f"__place_{i}__")
        marked = self.local(marked, at)
        for i, place in enumerate(dict.fromkeys(places)):
            marked = marked.replace(f"__place_{i}__", place)
        return marked

    def brief(self, node: ast.AST) -> str:
        text = " ".join(self.text(node).split())
        return text if len(text) <= 40 else text[:37] + "..."


def joined(template: str, **parts: str) -> str:
    """An expression from a template, in parentheses only where the meaning asks for them."""
    return build.expression(template, **parts)


def _plainly(statement: ast.AST, name: str) -> ast.expr | None:
    """The value of `name = value`."""
    if isinstance(statement, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in statement.targets):
        return statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.value
    return None
