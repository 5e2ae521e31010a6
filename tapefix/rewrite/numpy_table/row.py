"""What a row of the correspondence is, how a call's arguments are bound to it, and what comes out."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tapefix.codemod import Refusal
from tapefix.documents.document import Document
from tapefix.rewrite import build

_OPTIONAL = re.compile(r",\s*(\w+)=(\w+)\?")
_PART = re.compile(r"\{\*?(\w+)\}")
_TNP = "tf.experimental.numpy."
_FLOATS = {
    "float": "float64", "float_": "float64", "double": "float64", "single": "float32", "half": "float16",
    "csingle": "complex64",
    "cdouble": "complex128", "complex": "complex128",
    **{name: name for name in ("float16", "float32", "float64", "complex64", "complex128", "bfloat16")},
}  # fmt: skip
_NO_GRADIENT_TYPES = re.compile(r"(u?int(8|16|32|64|p|c)?_?|bool_?|bool8|long|intc|uint|str_?|object_?)$")


@dataclass(frozen=True)
class Rewrite:
    """A call said in TensorFlow: a template for `EditSet.rewrite` or `build.expression` and its parts.

    The template says `tf` for TensorFlow (see `imports.with_local_names`).
    """

    template: str
    parts: Mapping[str, ast.expr]
    needs: frozenset[str]  # "tensorflow", and "tensorflow>=2.4" where tf.experimental.numpy is used
    note: str = ""
    exactness: str = "same"  # or "dtype": the value is the same, in the tensor's own precision
    differentiable: bool = True  # False: no gradient flows through it in TensorFlow either
    repeated: frozenset[str] = (
        frozenset()
    )  # parts that the template evaluates more than once and that are no plain names

    def text(self, document: Document) -> str:
        """The expression, with the parts as the document has them."""
        return build.expression(self.template, **{name: document.source(node) for name, node in self.parts.items()})


class Bound:
    """The arguments of one call by their NumPy names; an argument equal to its default counts as absent."""

    def __init__(
        self,
        given: dict[str, ast.expr],
        rest: list[ast.expr],
        tensors: Collection[ast.expr],
        ranks: Mapping[ast.expr, int],
    ):
        self.given = given
        self.rest = rest  # the arguments of a `*name` parameter
        self.elements: dict[str, ast.expr] = {}  # parts of arguments that a template speaks of one by one
        self.used: set[str] = set()
        self.constant = False  # set where what comes out depends on no tensor's value
        self._tensors = {id(node) for node in tensors}
        self._ranks = {id(node): rank for node, rank in ranks.items()}

    def has(self, *names: str) -> bool:
        return any(name in self.given for name in names)

    def node(self, name: str) -> ast.expr | None:
        return self.given.get(name)

    def is_tensor(self, name: str) -> bool:
        return name in self.given and holds_tensor(self.given[name], self._tensors)

    def plain(self, name: str) -> bool:
        """Whether the argument may be evaluated twice."""
        return name in self.given and is_plain(self.given[name])

    def matched(self, name: str, to: str) -> str:
        """The part `name`, brought to the type of the part `to` where it is no tensor and `to` is one.

        Eager TensorFlow converts an array to the other operand's type by itself; a graph converts later operands only.
        """
        if self.is_tensor(name) or not self.is_tensor(to):
            return f"{{{name}}}"
        return f"tf.cast({{{name}}}, {{{to}}}.dtype)"

    def listed(self, name: str) -> str:
        """A sequence argument; arrays among the tensors that it lists are brought to the type of a tensor there."""
        node = self.given.get(name)
        if not isinstance(node, (ast.List, ast.Tuple)):
            return f"{{{name}}}"
        texts = self.alike(node.elts, name)
        if texts is None:
            return f"{{{name}}}"
        self.used.add(name)
        return f"[{', '.join(texts)}]"

    def alike(self, nodes: Sequence[ast.expr], prefix: str) -> list[str] | None:
        """The nodes as parts, arrays cast to the type of a tensor among them; None where there is nothing to cast."""
        simple = [not isinstance(one, (ast.List, ast.Tuple, ast.Starred)) for one in nodes]
        tensors = [k for k, one in enumerate(nodes) if simple[k] and holds_tensor(one, self._tensors)]
        arrays = {k for k in range(len(nodes)) if simple[k] and k not in tensors and not is_number(nodes[k])}
        if not tensors or not arrays or not all(simple):
            return None
        reference = next((k for k in tensors if is_plain(nodes[k])), tensors[0])
        self.elements |= {f"{prefix}_{k}": one for k, one in enumerate(nodes)}
        parts = [f"{{{prefix}_{k}}}" for k in range(len(nodes))]
        return [f"tf.cast({part}, {parts[reference]}.dtype)" if k in arrays else part for k, part in enumerate(parts)]

    def rank(self, name: str) -> int | None:
        return self._ranks.get(id(self.given.get(name)))

    def literal(self, name: str, default: Any = None) -> Any:
        """The argument's value where it is written out (or absent), else ...; it counts as used."""
        if name not in self.given:
            return default
        try:
            value = ast.literal_eval(self.given[name])
        except (ValueError, TypeError, SyntaxError):
            return ...
        self.used.add(name)
        return value


Code = str | Callable[[Bound], "str | Refusal"]


class Parameters(NamedTuple):
    """A signature taken apart."""

    ordered: tuple[str, ...]
    keyword_only: tuple[str, ...]
    defaults: dict[str, Any]
    rest: bool  # whether there is a `*rest`


@dataclass(frozen=True)
class Row:
    """One correspondence.

    `code` is a template: `{a}` is an argument, `, axis=axis?` is there when the argument is given. Or it is a
    function of the bound arguments that returns a template or the reason why there is none. An argument that
    is given and that the template does not use is a reason to refuse.
    `source` names the TensorFlow documentation page the correspondence rests on.
    """

    name: str
    signature: str
    code: Code
    source: str = ""
    note: str = ""
    exactness: str = "same"
    differentiable: bool = True
    dropped: frozenset[str] = field(default=frozenset())  # arguments that change no value

    @functools.cached_property
    def parameters(self) -> Parameters:
        arguments = ast.parse(f"def f({self.signature}): ...").body[0].args  # type: ignore[attr-defined]
        ordered = tuple(one.arg for one in arguments.args)
        keyword_only = tuple(one.arg for one in arguments.kwonlyargs)
        values = [ast.literal_eval(node) for node in arguments.defaults]
        defaults = dict(zip(ordered[len(ordered) - len(values) :], values, strict=True))
        for name, default in zip(keyword_only, arguments.kw_defaults, strict=True):
            if default is not None:
                defaults[name] = ast.literal_eval(default)
        return Parameters(ordered, keyword_only, defaults, arguments.vararg is not None)

    def translate(
        self,
        positional: list[ast.expr],
        keywords: list[ast.keyword],
        tensors: Collection[ast.expr],
        ranks: Mapping[ast.expr, int],
    ) -> Rewrite | Refusal:
        """The call in TensorFlow, or why it has no counterpart."""
        bound = self._bind(positional, keywords, tensors, ranks)
        if isinstance(bound, Refusal):
            return bound
        template = self.code if isinstance(self.code, str) else self.code(bound)
        if isinstance(template, Refusal):
            return template
        template = _OPTIONAL.sub(lambda m: f", {m[1]}={{{m[2]}}}" if bound.has(m[2]) else "", template)
        cast = _with_dtype(template, bound, self.parameters.ordered)
        if isinstance(cast, Refusal):
            return cast
        template = cast
        uses = _PART.findall(template)
        every = {**bound.given, **bound.elements, **{f"rest{k}": node for k, node in enumerate(bound.rest)}}
        parts = {name: node for name, node in every.items() if name in uses}
        for name in bound.given:
            if name not in parts and name not in bound.used and name not in self.dropped:
                return Refusal(f"`{name}=` of {self.name} has no counterpart in TensorFlow here")
        missing = [name for name in uses if name not in parts]
        if missing:
            return Refusal(f"{self.name} is called without `{missing[0]}`")
        return Rewrite(
            template,
            parts,
            frozenset({"tensorflow"} | ({"tensorflow>=2.4"} if _TNP in template else set())),
            self.note,
            # a list of NumPy numbers and float32 tensors is float64 to NumPy
            "dtype" if any(isinstance(one, (ast.List, ast.Tuple)) for one in parts.values()) else self.exactness,
            self.differentiable and not bound.constant,
            frozenset(name for name in parts if uses.count(name) > 1 and not is_plain(parts[name])),
        )

    def _bind(
        self,
        positional: list[ast.expr],
        keywords: list[ast.keyword],
        tensors: Collection[ast.expr],
        ranks: Mapping[ast.expr, int],
    ) -> Bound | Refusal:
        ordered, keyword_only, defaults, rest = self.parameters
        if any(isinstance(one, ast.Starred) for one in positional) and not rest:
            return Refusal(f"{self.name} is called with `*` arguments: which is which is not known")
        if any(one.arg is None for one in keywords):
            return Refusal(f"{self.name} is called with `**` arguments: which is which is not known")
        if len(positional) > len(ordered) and not rest:
            return Refusal(f"{self.name} is called with more arguments than its signature ({self.signature}) has")
        given = dict(zip(ordered, positional, strict=False))
        for keyword in keywords:
            if keyword.arg is None or keyword.arg not in (*ordered, *keyword_only) or keyword.arg in given:
                return Refusal(f"`{keyword.arg}=` of {self.name} is not known here")
            given[keyword.arg] = keyword.value
        for name, default in defaults.items():
            if name in given and _equals(given[name], default):
                del given[name]
        return Bound(given, positional[len(ordered) :], tensors, ranks)


def holds_tensor(node: ast.expr, tensors: set[int]) -> bool:
    """Whether the expression is a tensor, or a list, tuple or comprehension with one in it."""
    if id(node) in tensors:
        return True
    if isinstance(node, (ast.List, ast.Tuple)):
        return any(holds_tensor(one, tensors) for one in node.elts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return holds_tensor(node.elt, tensors)
    return isinstance(node, ast.Starred) and holds_tensor(node.value, tensors)


def is_plain(node: ast.expr) -> bool:
    """Whether the expression may be evaluated twice: a name, an attribute of one, a constant."""
    if isinstance(node, ast.Attribute):
        return is_plain(node.value)
    if isinstance(node, ast.UnaryOp):
        return is_plain(node.operand)
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(is_plain(one) for one in node.elts)
    return isinstance(node, (ast.Name, ast.Constant))


def is_number(node: ast.expr | None) -> bool:
    """Whether the expression is a number that is written out: `3`, `-1e-8`, `1 / 3`, `np.pi`."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float, complex))
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Attribute) and node.attr in ("pi", "e", "inf", "nan")


def dtype_of(node: ast.expr | None) -> str | Refusal | None:
    """A NumPy dtype argument in TensorFlow's words; None where it is an expression that TensorFlow takes as it is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        name = {"f2": "float16", "f4": "float32", "f": "float32", "f8": "float64", "d": "float64"}.get(
            node.value.lstrip("<>="), node.value
        )
    elif isinstance(node, ast.Attribute):
        name = node.attr
    elif isinstance(node, ast.Name):
        name = node.id
    else:
        return None
    if name in _FLOATS:
        return f"tf.{_FLOATS[name]}"
    if _NO_GRADIENT_TYPES.match(name) or (isinstance(node, ast.Constant) and name[:1] in "iubSUO?"):
        return Refusal(f"a conversion to `{name}` has no gradient")
    if name in ("longdouble", "float128", "longfloat", "complex256", "clongdouble"):
        return Refusal(f"TensorFlow has no `{name}`")
    return None


def _with_dtype(template: str, bound: Bound, ordered: tuple[str, ...]) -> str | Refusal:
    """The template with NumPy's `dtype=` as a cast of the operands, where it does not use `{dtype}` itself."""
    node = bound.node("dtype")
    if node is None:
        return template
    known = dtype_of(node)
    if isinstance(known, Refusal):
        return known
    bound.used.add("dtype")
    dtype = known or "{dtype}"
    if "{dtype}" in template:
        return template.replace("{dtype}", dtype)
    for name in ordered[: 2 if ordered[:2] == ("x1", "x2") else 1]:
        template = template.replace(f"{{{name}}}", f"tf.cast({{{name}}}, {dtype})")
    return template


def _equals(node: ast.expr, default: Any) -> bool:
    """Whether the argument is written as its default. `True` and `1` are not the same here."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        # NumPy's marker for "not given" is the default of some parameters
        return isinstance(node, ast.Attribute) and node.attr == "_NoValue"
    return type(value) is type(default) and bool(value == default)
