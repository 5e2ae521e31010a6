"""Layers made anew in every call."""

from __future__ import annotations

import ast

from tapefix.flow.facts import How, Target
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.objects import ClassObject, Instance, Layer
from tapefix.flow.sources.lists import Lists
from tapefix.flow.values import Lost, Source, Tape, Value


class MadeAnew(Lists):
    """Remembers where layers are made, and under which tape."""

    def make_layer(self, tail: str, path: str, given: Arguments, node: ast.AST) -> Value:
        return self.born(super().make_layer(tail, path, given, node), self.is_called_at_once(node))

    def is_called_at_once(self, made: ast.AST) -> bool:
        """`Dense(3)(x)`: the layer is kept nowhere, whatever branch this is."""
        return not self.is_beginning() and any(
            isinstance(node, ast.Call) and node.func is made for node in ast.walk(self.statement)
        )

    def call_keras(self, path: str, tail: str, given: Arguments, node: ast.AST) -> Value:
        result = super().call_keras(path, tail, given, node)
        return self.born(result) if tail == "Sequential" else result

    def call_ClassObject(self, value: Value, cls: ClassObject, given: Arguments, node: ast.AST) -> Value:
        result = super().call_ClassObject(value, cls, given, node)
        return self.born(result)

    def born(self, made: Value, each_time: bool = False) -> Value:
        """Remembers under which tapes a layer was made; what a branch or a cache makes may be made only once."""
        ref = made.ref
        once = any(f.branch_depth or (f.function is not None and f.function.kept is not None) for f in self.frames)
        if isinstance(ref, (Layer, Instance)) and self.tapes and (each_time or not once):
            ref.made_under = frozenset(self.tapes)
        for child in ref.children if isinstance(ref, Layer) else ():
            for part in child.refs:
                if isinstance(part, Source):
                    part.holder = ref
        return made

    def made_anew(self, whole: Value, wanted: set[Source], tape: Tape, seen: Target) -> None:
        """Layers that were made under the tape and are kept nowhere: the next step makes others."""
        for dep in whole.live:
            source = dep.source
            if not isinstance(source, Layer) or source in wanted or source.spot is None:
                continue
            made: Source = source
            whole_of = {made}
            while made.holder is not None and made.holder not in whole_of:
                made = made.holder
                whole_of.add(made)
            if any(s.given or s.frozen for s in whole_of) or self.replaces_weights():
                continue
            if tape in made.made_under and made.spot is not None:
                site = self.site(How.MADE_ANEW, made.spot.node, self.text(made.spot.node))
                site.spot = made.spot
                self.report(Lost(site, made, frozenset({tape})), seen, partial=False)
