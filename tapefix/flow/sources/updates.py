"""What is handed to an optimizer: pairs of gradients and weights."""

from __future__ import annotations

import ast

from tapefix.flow.facts import How, Target
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.objects import WeightOf, Weights
from tapefix.flow.sources.lists import ALL, is_call_of, leaves_of
from tapefix.flow.sources.made_anew import MadeAnew
from tapefix.flow.sources.teachers import is_statistic
from tapefix.flow.values import Kind, Lost, Source, Tape, Value, Var


class Updates(MadeAnew):
    """Checks of what gradients are put together with."""

    #: lists of gradients by their identity: the list, what it was asked for, and where
    gradients: dict[int, tuple[Value, Value, ast.AST]]

    def method_of_Tape(self, receiver: Value, tape: Tape, name: str, given: Arguments, node: ast.AST) -> Value | None:
        result = super().method_of_Tape(receiver, tape, name, given, node)
        sources = given.get(1, "sources")
        if name == "gradient" and result is not None and sources is not None and result.ref is not None:
            self.gradients[id(result.ref)] = (result, sources, node)
        return result

    def method_of_value(self, receiver: Value, name: str, given: Arguments, node: ast.AST) -> Value:
        if name == "apply_gradients" and isinstance(node, ast.Call) and node.args:
            self.check_pairs(node.args[0], Target(self.spot(node), "gradient"))
        if name == "minimize":
            self.check_minimized(given, node)
        return super().method_of_value(receiver, name, given, node)

    def asked_at(self, node: ast.expr) -> tuple[Value, ast.AST] | None:
        """The sources of a list of gradients and the call that asked for it."""
        value = self.seen.get(node)
        for ref in value.refs if value is not None else ():
            if id(ref) in self.gradients:
                return self.gradients[id(ref)][1:]
        return None

    def check_pairs(self, pairs: ast.expr, asked: Target) -> None:
        while is_call_of(pairs, "list", "tuple") and len(pairs.args) == 1:  # type: ignore[attr-defined]
            pairs = pairs.args[0]  # type: ignore[attr-defined]
        if not is_call_of(pairs, "zip"):
            found = self.asked_at(pairs)
            if found is not None:
                self.report_pairs(pairs, "alone", found[1], asked)
            return
        if len(pairs.args) != 2:  # type: ignore[attr-defined]
            return
        first, second = pairs.args  # type: ignore[attr-defined]
        found, other = self.asked_at(first), self.asked_at(second)
        if found is None and other is not None and self.only_weights(first):
            self.report_pairs(pairs, "swapped", other[1], asked)
        elif found is not None and other is None and self.is_longer(second, found[0]):
            self.report_pairs(second, "longer", found[1], asked)

    def only_weights(self, node: ast.expr) -> bool:
        value = self.seen.get(node)
        if value is None:
            return False
        leaves = [leaf.ref for leaf in leaves_of(value) if not leaf.kind & Kind.CONTAINER]
        listed = bool(leaves) and all(isinstance(ref, (Var, WeightOf)) for ref in leaves)
        return listed or isinstance(value.ref, Weights)

    def is_longer(self, node: ast.expr, sources: Value) -> bool:
        """All weights of a model beside the gradients of the trainable ones: each finds itself beside another's."""
        value = self.seen.get(node)
        if value is None or not isinstance(value.ref, Weights) or not isinstance(sources.ref, Weights):
            return False
        owner, which = value.ref.owner, value.ref.which
        return (
            owner is sources.ref.owner
            and which in ALL
            and sources.ref.which not in ALL
            and any(is_statistic(part, which) for part in self.reach(owner))
        )

    def report_pairs(self, node: ast.expr, what: str, call: ast.AST, asked: Target) -> None:
        site = self.site(How.WRONG_PAIRS, node, what)
        sources = call.args[1] if isinstance(call, ast.Call) and len(call.args) > 1 else None
        site.lost = (sources,) if sources is not None else ()
        self.report(Lost(site, Source(self.text(node)[:40], self.spot(node)), frozenset()), asked, partial=False)

    def check_minimized(self, given: Arguments, node: ast.AST) -> None:
        """A tensor, which an optimizer cannot differentiate without the tape that recorded it."""
        loss = given.get(0, "loss")
        if loss is None or loss.kind != Kind.TENSOR or not loss.live or "tape" in given.keywords:
            return
        text = self.module.document.text
        if any(d.source.assumed for d in loss.live) or "compat.v1" in text or "tf.train." in text or len(given.all) < 2:
            return
        site = self.site(How.WRONG_PAIRS, node, "minimize")
        source = min((d.source for d in loss.live), key=lambda s: s.label)
        self.report(Lost(site, source, frozenset()), Target(self.spot(node), "minimize"), partial=False)
