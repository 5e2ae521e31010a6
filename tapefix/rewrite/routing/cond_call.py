"""`tf.cond`, `tf.case` and `tf.switch_case` as sums of branches weighed by gates."""

from __future__ import annotations

import ast

from tapefix.codemod import Fix, Refusal
from tapefix.flow import Cut, Model
from tapefix.flow.objects import Function
from tapefix.rewrite.routing.gates import Gates, refuse_other_types
from tapefix.rewrite.routing.numbers import Soften
from tapefix.rewrite.routing.repair import attempt, message
from tapefix.rewrite.routing.site import Site, Unclear, joined

ALTERNATIVES = ("a soft gate between both branches", "a Gumbel or relaxed Bernoulli gate")


def repair_cond(model: Model, cut: Cut, threshold: str) -> Fix | Refusal:
    """Both branches run, weighed by a gate whose value is the decision."""
    site = Site(model, model.document_of(cut.spot), threshold)
    node = cut.spot.node

    def rewrite() -> tuple[str, tuple[str, ...]]:
        if not isinstance(node, ast.Call):
            raise Unclear("the place is no call")
        calls = CondCall(site)
        operation = site.operation(node)
        if operation == "switch_case":
            calls.switch(node)
        elif operation == "case":
            calls.case(node)
        else:
            calls.cond(node)
        if not calls.trained:
            return "run the branches and select between their values", ("weigh the branches by a mask",)
        return message(site, "a sigmoid of the predicate, as a gate between the branches", ALTERNATIVES)

    return attempt(site, rewrite)


class CondCall:
    def __init__(self, site: Site):
        self.site = site
        self.soften = Soften(site)
        self.gates = Gates(site, self.soften)
        self.trained = False

    def cond(self, node: ast.Call) -> None:
        site = self.site
        predicate = site.argument(node, 0, "pred", "condition")
        one = site.argument(node, 1, "true_fn", "then_expression")
        other = site.argument(node, 2, "false_fn", "else_expression")
        if predicate is None or one is None or other is None:
            raise Unclear("the predicate or a branch can't be told")
        a, b = self.branch(one, predicate, True), self.branch(other, predicate, False)
        self.put(node, self.chosen(node, [(predicate, a)], b), constant=not self.alive(one) and not self.alive(other))

    def case(self, node: ast.Call) -> None:
        site = self.site
        pairs = site.argument(node, 0, "pred_fn_pairs")
        default = site.argument(node, 1, "default")
        pairs = site.definition(pairs) if pairs is not None else None
        if not isinstance(pairs, (ast.List, ast.Tuple)) or default is None:
            raise Unclear("the pairs of predicate and branch, or the default, are not in sight")
        chosen: list[tuple[ast.expr, str]] = []
        functions = [default]
        for pair in pairs.elts:
            if not isinstance(pair, (ast.List, ast.Tuple)) or len(pair.elts) != 2:
                raise Unclear("the pairs of predicate and branch are not in sight")
            predicate, function = pair.elts
            functions.append(function)
            chosen.append((predicate, self.branch(function, predicate, True)))
        alive = any(self.alive(function) for function in functions)
        self.put(node, self.chosen(node, chosen, self.branch(default, None, True)), constant=not alive)

    def chosen(self, node: ast.Call, chosen: list[tuple[ast.expr, str]], rest: str) -> str:
        """The first branch whose predicate holds, else the rest, blended from the last to the first."""
        site = self.site
        text = rest
        gates = []
        for predicate, _ in chosen:
            if site.trained(predicate):
                self.trained = True
                gates.append(self.gates.gate(predicate))
            else:
                gates.append("")
        for (predicate, branch), gate in reversed(list(zip(chosen, gates, strict=True))):
            if gate:
                text = self.gates.blend(gate, branch, text)
            else:
                text = joined("tf.where({c}, {a}, {b})", c=self.soften.hard(predicate), a=branch, b=text)
        return text

    def put(self, node: ast.Call, text: str, constant: bool) -> None:
        self.site.edits.replace(node, self.site.local(text, node))

    def switch(self, node: ast.Call) -> None:
        site = self.site
        index, branches = site.argument(node, 0, "branch_index"), site.argument(node, 1, "branch_fns")
        default = site.argument(node, 2, "default")
        if index is None or branches is None or default is not None:
            raise Unclear("the branches, or what is run by default, can't be weighed")
        spread = self.soften.distribution(index)
        if spread is None:
            raise Unclear(f"`{site.brief(index)}` is an index without probabilities")
        self.trained = True
        name, depth = spread
        hard = joined("tf.one_hot({i}, {n}, dtype={p}.dtype)", i=site.text(index), n=depth, p=name)
        choice = name if site.soft else joined("{p} + tf.stop_gradient({h} - {p})", p=name, h=hard)
        choice = site.name_for(choice, node, "choice")
        made = site.definition(branches)
        if isinstance(made, (ast.List, ast.Tuple)):
            terms = [
                joined(f"{{c}}[{i}] * {{b}}", c=choice, b=self.branch(element, None, True))
                for i, element in enumerate(made.elts)
            ]
            text = " + ".join(terms)
        else:
            text = joined(
                "tf.add_n([{c}[i] * branch() for i, branch in enumerate({b})])", c=choice, b=site.text(branches)
            )
        site.edits.replace(node, site.local(text, node))

    def branch(self, node: ast.expr, predicate: ast.expr | None, holds: bool) -> str:
        """A branch function's value as an expression."""
        site = self.site
        if isinstance(node, ast.Lambda):
            if node.args.args:
                return joined("({f})()", f=site.text(node))
            refuse_other_types(site, node.body)
            if isinstance(node.body, (ast.Tuple, ast.List, ast.Dict)):
                raise Unclear("a branch returns several values")
            return self.gates.guarded(node.body, predicate, holds) if predicate is not None else site.text(node.body)
        function = self.function(node)
        if function is not None:
            if _has_effects(function):
                raise Unclear(
                    f"`{site.brief(node)}` does more than return a value, so that it can't run when not chosen"
                )
            return f"{site.text(node)}()"
        value = site.model.value_of(node)
        if value is not None and value.refs:
            return f"{site.text(node)}()"
        refuse_other_types(site, node)
        return site.text(node)

    def function(self, node: ast.expr) -> ast.FunctionDef | None:
        value = self.site.model.value_of(node)
        for ref in value.refs if value is not None else []:
            inner = ref if isinstance(ref, Function) else getattr(getattr(ref, "function", None), "ref", None)
            if isinstance(inner, Function) and isinstance(inner.node, ast.FunctionDef):
                return inner.node
        return None

    def alive(self, node: ast.expr) -> bool:
        body = node.body if isinstance(node, ast.Lambda) else node
        function = self.function(node)
        nodes = ast.walk(function) if function is not None else ast.walk(body)
        return any(self.site.alive(n) for n in nodes if isinstance(n, ast.expr))


def _has_effects(function: ast.FunctionDef) -> bool:
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Raise, ast.Delete)):
            return True
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("assign"):
            return True
    return False
