"""How many axes a call gives: of a library, a layer, or a function of the program."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapefix.rewrite.accumulators.maker import shape_of_argument
from tapefix.rewrite.accumulators.positions import Positions
from tapefix.rewrite.accumulators.rank_tables import (
    BROADCAST,
    FIRST_OPERAND,
    FIXED,
    LAYERS,
    LAYERS_SAME,
    RECURRENT,
    REDUCTIONS,
    SAME_RANK,
    SHAPED,
)
from tapefix.rewrite.accumulators.syntax import Function, dotted

#: of a name or function that is being looked up already: agrees with whatever else there is
OPEN = -1


class CallRanks(Positions):
    """The part of `Ranks` that follows calls."""

    def _rank(self, node: ast.expr, busy: frozenset[ast.AST], depth: int) -> int | None:
        raise NotImplementedError

    def _widest(self, nodes: Iterable[ast.expr], busy: frozenset[ast.AST], depth: int) -> int | None:
        raise NotImplementedError

    # whose callers and constructors a subclass may know better

    def callee(self, call: ast.Call) -> ast.FunctionDef | None:
        """The function of this document that a call runs, where there is one such name."""
        name = (dotted(call.func) or "").split(".")[-1]
        found = self.syntax.functions_named(name)
        return found[0] if len(found) == 1 else None

    def calls_of(self, function: ast.FunctionDef) -> list[ast.Call] | None:
        """Every call of a function; None where not all are seen."""
        method = isinstance(self.syntax.parent(function), ast.ClassDef)
        if function.name.startswith("__") or (method and function.name in _BY_KERAS):
            return None
        if len(self.syntax.functions_named(function.name)) > 1 or function.decorator_list[1:]:
            return None
        named = self.syntax.uses_named(function.name)
        calls = [self.syntax.parent(node) for node in named]
        if not all(isinstance(c, ast.Call) and c.func is n for c, n in zip(calls, named)):
            return None
        return calls or None  # type: ignore[return-value]

    def constructor(self, node: ast.expr) -> ast.Call | None:
        """The call that made what an expression stands for: `layers.Dense(3)` of `self.out`."""
        match node:
            case ast.Name():
                value = self.dims.single_value(node)
                if value is None:
                    _, bindings = self.syntax.visible(node.id, node)
                    return self._element_made(bindings[0]) if len(bindings) == 1 else None
                return value if isinstance(value, ast.Call) else None
            case ast.Attribute(attr=attr):
                values = self.syntax.values_of_attribute(attr, node)
                return values[0] if len(values) == 1 and isinstance(values[0], ast.Call) else None
            case ast.Subscript(value=whole):
                return self._one_maker(whole)
            case ast.Call():
                return node
        return None

    def _element_made(self, binding: ast.AST) -> ast.Call | None:
        """The call that made each element that a loop runs over: `for layer in self.layers`."""
        above = self.syntax.parent(binding)
        if isinstance(above, ast.For | ast.comprehension) and above.target is binding:
            return self._one_maker(above.iter)
        return None

    def _one_maker(self, whole: ast.expr) -> ast.Call | None:
        """The call that made every element of a list, where all were made alike."""
        value: ast.expr | None = whole
        if isinstance(whole, ast.Name):
            value = self.dims.single_value(whole)
        elif isinstance(whole, ast.Attribute):
            values = self.syntax.values_of_attribute(whole.attr, whole)
            value = values[0] if len(values) == 1 else None
        elements = [value.elt] if isinstance(value, ast.ListComp) else getattr(value, "elts", [])
        calls = [e for e in elements if isinstance(e, ast.Call)]
        if not calls or len(calls) < len(elements) or len({dotted(c.func) for c in calls}) > 1:
            return None
        return calls[0]

    # calls

    def _call(self, node: ast.Call, busy: frozenset[ast.AST], depth: int) -> int | None:
        path = dotted(node.func) or ""
        name = path.split(".")[-1]
        if isinstance(node.func, ast.Name) and name in ("float", "int", "len", "abs", "max", "min", "sum"):
            return 0 if name in ("float", "int", "len") else None
        if _of_library(path):
            return self._library_call(node, name, path, busy, depth)
        if name == "add_weight":
            return self._made_with(node, name, path, busy, depth)
        if isinstance(node.func, ast.Attribute) and not path.startswith("self."):
            of_method = self._method(node, node.func, busy, depth)
            if of_method is not None:
                return of_method
        function = self.callee(node)
        if function is not None:
            return self._given_back(function, None, busy, depth)
        return self._layer_call(node, busy, depth)

    def _method(self, node: ast.Call, func: ast.Attribute, busy: frozenset[ast.AST], depth: int) -> int | None:
        """`x.numpy()`, `x.astype(t)`, `x.mean(axis=0)`, `x.reshape(2, 3)`, `rng.normal(size=n)`."""
        if func.attr in ("normal", "uniform", "standard_normal", "random") and isinstance(
            func.value, ast.Call | ast.Name
        ):
            return self._made_with(node, func.attr, "numpy.random", busy, depth)
        if func.attr in ("rand", "randn") and isinstance(func.value, ast.Call | ast.Name):
            return _counted(node.args)
        if func.attr in ("numpy", "astype", "copy", "value", "read_value", "clip"):
            return self._rank(func.value, busy, depth - 1)
        if func.attr in ("mean", "sum", "max", "min", "std", "var", "prod"):
            return self._reduced(func.value, node.args[:1], node, busy, depth)
        if func.attr in ("ravel", "flatten"):
            return 1
        if func.attr == "reshape" and node.args:
            first = node.args[0]
            return len(first.elts) if isinstance(first, ast.List | ast.Tuple) else _counted(node.args)
        return None

    def _library_call(self, node: ast.Call, name: str, path: str, busy: frozenset[ast.AST], depth: int) -> int | None:
        keywords = {k.arg: k.value for k in node.keywords}
        first = node.args[0] if node.args else next(iter(keywords.values()), None)
        second = node.args[1] if len(node.args) > 1 else None
        if name in ("rand", "randn"):
            return _counted(node.args)
        if name in SHAPED:
            return self._made_with(node, name, path, busy, depth)
        if name in FIXED:
            return FIXED[name]
        if first is None:
            return None
        if name in REDUCTIONS:
            return self._reduced(first, node.args[1:2], node, busy, depth)
        if name in BROADCAST:
            return self._widest(node.args, busy, depth) if len(node.args) >= 2 else None
        if name == "where" and len(node.args) == 3:
            return self._widest(node.args, busy, depth)
        if name == "reshape" or name == "broadcast_to":
            size = keywords.get("shape", second)
            return len(size.elts) if isinstance(size, ast.List | ast.Tuple) else None
        if name == "einsum":
            _, arrow, result = str(first.value if isinstance(first, ast.Constant) else "").partition("->")
            return len(result.strip()) if arrow and "." not in result else None
        if name in ("stack", "concat", "concatenate"):
            whole = self._rank(first, busy, depth - 1)  # a list of tensors has an axis more than they
            return whole if whole is None or whole == OPEN or name == "stack" else whole - 1
        inner = self._rank(first, busy, depth - 1)
        if name in SAME_RANK or name in FIRST_OPERAND:
            return inner
        if inner is None or inner == OPEN:
            return inner
        return self._from_first(name, inner, second, keywords, busy, depth)

    def _from_first(
        self,
        name: str,
        inner: int,
        second: ast.expr | None,
        keywords: dict[str | None, ast.expr],
        busy: frozenset[ast.AST],
        depth: int,
    ) -> int | None:
        """Operations whose rank is that of the first argument and some more or less."""
        if name in ("expand_dims", "one_hot", "split"):  # `split` gives a list
            return inner + 1
        if name == "squeeze":
            axis = keywords.get("axis", second)
            return inner - 1 if isinstance(axis, ast.Constant | ast.UnaryOp) else None
        other = self._rank(second, busy, depth - 1) if second is not None else None
        if other is None or other == OPEN:
            return other
        if name in ("matmul", "dot"):
            return product(inner, other)
        if name == "matvec":
            return max(inner - 1, other)
        if name == "tensordot" and "axes" not in keywords:
            return None if second is None else self._contracted(inner + other, keywords)
        if name in ("gather", "take", "embedding_lookup"):
            batched = keywords.get("batch_dims")
            return inner + other - 1 if batched is None else None
        return None

    @staticmethod
    def _contracted(total: int, keywords: dict[str | None, ast.expr]) -> int | None:
        return total - 2 if not keywords else None

    def _made_with(self, node: ast.Call, name: str, path: str, busy: frozenset[ast.AST], depth: int) -> int | None:
        keywords = {k.arg: k.value for k in node.keywords}
        size = keywords.get("shape") or keywords.get("size") or keywords.get("dims")
        numpy = path.startswith(("np.", "numpy."))
        if size is None and node.args:
            place = 2 if numpy and name in ("normal", "uniform") else 0
            size = node.args[place] if len(node.args) > place else None
        if size is None:
            return None
        sizes, like = shape_of_argument(size, self.dims)
        if like is not None:
            return self._rank(like, busy, depth - 1)
        return len(sizes) if sizes is not None else None

    def _reduced(
        self, whole: ast.expr, after: list[ast.expr], node: ast.Call, busy: frozenset[ast.AST], depth: int
    ) -> int | None:
        keywords = {k.arg: k.value for k in node.keywords}
        keep = keywords.get("keepdims")
        axis = keywords.get("axis", after[0] if after else None)
        kept = isinstance(keep, ast.Constant) and keep.value is True
        if keep is not None and not isinstance(keep, ast.Constant):
            return None
        if not kept and (axis is None or (isinstance(axis, ast.Constant) and axis.value is None)):
            return 0
        inner = self._rank(whole, busy, depth - 1)
        if inner is None or inner == OPEN or kept:
            return inner
        taken = len(axis.elts) if isinstance(axis, ast.List | ast.Tuple) else 1
        return inner - taken if inner >= taken else None

    # layers and functions

    def _layer_call(self, node: ast.Call, busy: frozenset[ast.AST], depth: int) -> int | None:
        made = self.constructor(node.func)
        if made is None or not node.args:
            return None
        return self._through(made, self._rank(node.args[0], busy, depth - 1), depth)

    def _through(self, made: ast.Call, inner: int | None, depth: int) -> int | None:
        """The rank behind a layer that `made` makes, given a value of rank `inner`."""
        name = (dotted(made.func) or "").split(".")[-1]
        if name in LAYERS:
            return LAYERS[name]
        if name in LAYERS_SAME:
            return inner
        keywords = {k.arg: k.value for k in made.keywords}
        if name in RECURRENT and "return_state" not in keywords:
            sequences = keywords.get("return_sequences")
            if sequences is None:
                return 2
            return (3 if sequences.value else 2) if isinstance(sequences, ast.Constant) else None
        if name == "Embedding":
            return inner + 1 if inner is not None and inner >= 0 else inner
        if name == "Reshape" and made.args and isinstance(made.args[0], ast.List | ast.Tuple):
            return len(made.args[0].elts) + 1
        if name == "Sequential" and made.args and isinstance(made.args[0], ast.List | ast.Tuple):
            for layer in made.args[0].elts:
                made_by = self.constructor(layer)
                if made_by is None:
                    return None
                if (dotted(made_by.func) or "").split(".")[-1] not in ("Input", "InputLayer"):
                    inner = self._through(made_by, inner, depth)
            return inner
        return None

    def _given_back(
        self, function: ast.FunctionDef, place: int | None, busy: frozenset[ast.AST], depth: int
    ) -> int | None:
        """What a function returns; element `place` of the tuple that it returns."""
        if function in busy:
            return OPEN
        found: list[int | None] = []
        for inner in ast.walk(function):
            if isinstance(inner, ast.Yield | ast.YieldFrom):
                return None
            if isinstance(inner, ast.Return) and self.syntax.function(inner) is function:
                value = inner.value
                if place is not None and isinstance(value, ast.Tuple) and place < len(value.elts):
                    value = value.elts[place]
                elif place is not None or value is None or isinstance(value, ast.Tuple):
                    return None
                found.append(self._rank(value, busy | {function}, depth - 1))
        return agreed(found)

    def _argument(self, argument: ast.arg, busy: frozenset[ast.AST], depth: int) -> int | None:
        if argument in busy:
            return OPEN
        function = next(a for a in self.syntax.ancestors(argument) if isinstance(a, Function))
        calls = self.calls_of(function) if isinstance(function, ast.FunctionDef) else None
        if calls is None:
            return None
        given = [self._handed(function, argument, call) for call in calls]  # type: ignore[arg-type]
        if None in given:
            return None
        return agreed([self._rank(v, busy | {argument}, depth - 1) for v in given if v is not None])

    @staticmethod
    def _handed(function: ast.FunctionDef, argument: ast.arg, call: ast.Call) -> ast.expr | None:
        """What a call gives for an argument, or the argument's default."""
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return None
        named = next((k.value for k in call.keywords if k.arg == argument.arg), None)
        if named is not None:
            return named
        names = [*function.args.posonlyargs, *function.args.args]
        if argument not in names:
            return None
        place = names.index(argument)
        bound = 1 if names[0].arg in ("self", "cls") else 0
        if 0 <= place - bound < len(call.args):
            return call.args[place - bound]
        default = place - (len(names) - len(function.args.defaults))
        return function.args.defaults[default] if default >= 0 else None

    def _output(self, call: ast.Call, place: int, busy: frozenset[ast.AST], depth: int) -> int | None:
        """Output number `place` of a call that gives several values."""
        path = dotted(call.func) or ""
        name = path.split(".")[-1]
        if _of_library(path):
            inner = self._rank(call.args[0], busy, depth - 1) if call.args else None
            if name == "split":
                return inner
            if name == "unstack":
                return inner - 1 if inner is not None and inner >= 1 else inner
            return None
        function = self.callee(call)
        if function is not None:
            return self._given_back(function, place, busy, depth)
        made = self.constructor(call.func)
        last = (dotted(made.func) or "").split(".")[-1] if made is not None else ""
        if last in RECURRENT_CELLS:
            return 2 if place == 0 else None
        if made is not None and last in RECURRENT:  # return_state=True
            given = {k.arg: k.value for k in made.keywords}
            sequences = given.get("return_sequences", ast.Constant(False))
            if place > 0:
                return 2
            return (3 if sequences.value else 2) if isinstance(sequences, ast.Constant) else None
        return None


RECURRENT_CELLS = ("GRUCell", "LSTMCell", "SimpleRNNCell")
#: methods that other code calls by another name
_BY_KERAS = ("call", "build", "train_step", "test_step", "predict_step")
_LIBRARIES = ("tf", "tensorflow", "np", "numpy", "keras", "K", "ops", "math", "jnp")


def _of_library(path: str) -> bool:
    return path.split(".")[0] in _LIBRARIES and "layers" not in path.split(".")


def agreed(ranks: Iterable[int | None]) -> int | None:
    """The rank that all give; those still open go along with the others."""
    found = set(ranks)
    if not found or None in found:
        return None
    found.discard(OPEN)
    if not found:
        return OPEN
    return found.pop() if len(found) == 1 else None


def product(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    if OPEN in (a, b):
        return OPEN if a == b else None
    return max(a, b) if min(a, b) >= 2 else max(a + b - 2, 0)


def _counted(args: list[ast.expr]) -> int | None:
    return None if any(isinstance(a, ast.Starred) for a in args) else len(args)
