"""How many axes a value has, as far as layers and operations tell."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tapefix.flow.objects import Instance, Layer
from tapefix.rewrite.accumulators.syntax import dotted
from tapefix.rewrite.routing.site import Site

_FLAT = ("Flatten", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D", "GlobalMaxPooling1D",
         "GlobalMaxPooling2D", "GlobalMaxPooling3D", "GlobalAvgPool2D", "GlobalMaxPool2D")  # fmt: skip
_SAME = frozenset(
    """round sign floor ceil cast stop_gradient sigmoid tanh relu softmax exp log abs square sqrt clip_by_value
    identity softplus convert_to_tensor""".split()
)


class Ranks:
    """Ranks of expressions; None where they are not known."""

    def __init__(self, site: Site):
        self.site = site

    def of(self, node: ast.expr, given: Mapping[str, int | None] | None = None, depth: int = 8) -> int | None:
        site = self.site
        if depth == 0:
            return None
        if isinstance(node, ast.Name) and given is not None and node.id in given:
            return given[node.id]
        known = site.facts.rank(node)
        if known is not None:
            return known
        node = site.definition(node)
        if isinstance(node, ast.Name) and (given is None or node.id not in given):
            return self._unpacked(node, depth)
        match node:
            case ast.Name() if given is not None and node.id in given:
                return given[node.id]
            case ast.Subscript(value=value, slice=index):
                return self._indexed(self.of(value, given, depth - 1), index)
            case ast.BinOp(left=left, right=right):
                sides = [self.of(side, given, depth - 1) for side in (left, right)]
                return max((s for s in sides if s is not None), default=None) if None not in sides else None
            case ast.Constant():
                return 0
            case ast.Call():
                if site.operation(node) in _SAME and node.args:
                    return self.of(node.args[0], given, depth - 1)
                return self._called(node, None, given, depth)
        return None

    def _called(
        self, node: ast.Call, position: int | None, given: Mapping[str, int | None] | None, depth: int
    ) -> int | None:
        """What a call returns, or one element of it."""
        if isinstance(node.func, ast.Call) and node.args:  # Dense(1)(x)
            return self._layer(node.func, self.of(node.args[0], given, depth - 1))
        function = self.site.function(node) or self._method(node)
        if isinstance(function, ast.FunctionDef):
            return self._returned(function, node, position, given, depth)
        outputs = self._outputs(node.func)
        if outputs is not None:
            chosen = (
                outputs.elts[position]
                if isinstance(outputs, (ast.List, ast.Tuple)) and position is not None
                else outputs
            )
            return self.of(chosen, None, depth - 1) if not isinstance(chosen, (ast.List, ast.Tuple)) else None
        return (
            self.output(node.func, self.of(node.args[0], given, depth - 1)) if node.args and position is None else None
        )

    def _method(self, node: ast.Call) -> ast.AST | None:
        """The `call` of the program's own model or layer."""
        value = self.site.model.value_of(node.func)
        for ref in value.refs if value is not None else []:
            found = ref.cls.find("call") or ref.cls.find("__call__") if isinstance(ref, Instance) and ref.cls else None
            function: ast.AST | None = getattr(found[1].ref, "node", None) if found is not None else None
            if function in self.site.syntax.order:
                return function
        return None

    def _outputs(self, function: ast.expr) -> ast.expr | None:
        """The outputs of a functional model."""
        value = self.site.model.value_of(function)
        for ref in value.refs if value is not None else []:
            made = ref.spot.node if isinstance(ref, Layer) and ref.spot is not None else None
            if (
                isinstance(made, ast.Call)
                and (dotted(made.func) or "").rpartition(".")[2] == "Model"
                and made in self.site.syntax.order
            ):
                return self.site.argument(made, 1, "outputs")
        return None

    def _unpacked(self, node: ast.Name, depth: int) -> int | None:
        """`_, x = f(...)`."""
        _, bindings = self.site.syntax.visible(node.id, node)
        if len(bindings) != 1:
            return None
        target = self.site.syntax.parent(bindings[0])
        assign = self.site.syntax.parent(target) if target is not None else None
        if isinstance(target, ast.Tuple) and isinstance(assign, ast.Assign) and isinstance(assign.value, ast.Call):
            position = next(i for i, element in enumerate(target.elts) if element is bindings[0])
            return self._called(assign.value, position, None, depth - 1)
        return None

    def _indexed(self, rank: int | None, index: ast.expr) -> int | None:
        if rank is None:
            return None
        for element in index.elts if isinstance(index, ast.Tuple) else [index]:
            if isinstance(element, ast.Slice) or (isinstance(element, ast.Constant) and element.value is ...):
                continue
            rank += 1 if is_new_axis(element) else -1
        return rank if rank >= 0 else None

    def _returned(
        self,
        function: ast.FunctionDef,
        call: ast.Call,
        position: int | None,
        given: Mapping[str, int | None] | None,
        depth: int,
    ) -> int | None:
        returns = [
            n for n in ast.walk(function) if isinstance(n, ast.Return) and self.site.syntax.function(n) is function
        ]
        if len(returns) != 1 or returns[0].value is None:
            return None
        names = [a.arg for a in function.args.args]
        if names and names[0] == "self":
            names = names[1:]
        inner = {name: self.of(arg, given, depth - 1) for name, arg in zip(names, call.args, strict=False)}
        value = returns[0].value
        if isinstance(value, ast.Tuple) and any("custom_gradient" in ast.unparse(d) for d in function.decorator_list):
            value = value.elts[0]
        elif isinstance(value, ast.Tuple):
            if position is None or position >= len(value.elts):
                return None
            value = value.elts[position]
        return self.of(value, inner, depth - 1)

    def output(self, function: ast.expr, rank: int | None) -> int | None:
        """The rank of what a layer or model returns for an input of that rank."""
        value = self.site.model.value_of(function)
        for ref in value.refs if value is not None else []:
            made = ref.spot.node if isinstance(ref, Layer) and ref.spot is not None else None
            if isinstance(made, ast.Call) and ref.spot.filename == self.site.document.filename:
                return self._layer(made, rank)
            helper = self.site.function(made) if isinstance(made, ast.Call) else None
            if helper is not None:
                return None
        return None

    def _layer(self, made: ast.Call, rank: int | None) -> int | None:
        kind = (dotted(made.func) or "").rpartition(".")[2]
        if kind in ("Sequential",):
            layers = made.args[0] if made.args else next((k.value for k in made.keywords if k.arg == "layers"), None)
            if not isinstance(layers, (ast.List, ast.Tuple)):
                return None
            for layer in layers.elts:
                if not isinstance(layer, ast.Call):
                    return None
                rank = self._layer(layer, rank)
            return rank
        if kind in ("Input", "InputLayer"):
            shape = made.args[0] if made.args else next((k.value for k in made.keywords if k.arg == "shape"), None)
            return len(shape.elts) + 1 if isinstance(shape, (ast.Tuple, ast.List)) else rank
        if kind in _FLAT:
            return 2
        if kind in (
            "Dense",
            "Dropout",
            "Activation",
            "ReLU",
            "LeakyReLU",
            "Softmax",
            "BatchNormalization",
            "LayerNormalization",
            "Lambda",
        ):
            return rank
        if kind.startswith(("Conv", "MaxPool", "AveragePool")):
            return rank
        if kind == "Reshape" and made.args and isinstance(made.args[0], (ast.Tuple, ast.List)):
            return len(made.args[0].elts) + 1
        if kind in ("LSTM", "GRU", "SimpleRNN"):
            whole = any(k.arg == "return_sequences" for k in made.keywords)
            return 3 if whole else 2
        return None


def is_new_axis(element: ast.expr) -> bool:
    """`None` or `tf.newaxis` in an index."""
    if isinstance(element, ast.Constant):
        return element.value is None
    return (dotted(element) or "").endswith("newaxis")
