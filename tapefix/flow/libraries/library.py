"""Which part knows a library's name."""

from __future__ import annotations

import ast

from tapefix.flow.facts import How
from tapefix.flow.interpreter.calls import Arguments
from tapefix.flow.libraries import operations as ops
from tapefix.flow.libraries.keras_training import KerasTraining
from tapefix.flow.objects import Api
from tapefix.flow.values import Kind, Value


class Library(KerasTraining):
    """Calls of whatever a library offers."""

    def call_Api(self, value: Value, api: Api, given: Arguments, node: ast.AST) -> Value:
        root, _, rest = api.name.partition(".")
        tail = api.name.rsplit(".", 1)[-1]
        if root == "builtins":
            return self.call_builtin(tail, given, node)
        given = self.as_arrays(given, node)
        if root == "tensorflow":
            return self.call_tensorflow(rest, tail, given, node)
        if root == "keras":
            return self.call_keras(rest, tail, given, node)
        if root == "numpy":
            return self.call_numpy(rest, tail, given, node)
        if root in ("math", "cmath"):
            return self.away(How.NUMPY_CALL, node, given.all, api.name, Kind.NUMBER, tail in ("floor", "ceil", "trunc"))
        if root == "tensorflow_probability":
            return self.call_probability(tail, given, node)
        if root in ops.FOREIGN:
            return self.foreign(api.name, given, node)
        return self.call_python_library(api.name, tail, given, node)
