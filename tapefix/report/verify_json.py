"""A verification report as JSON (shape: tapefix/report/schemas/verify.json)."""

from __future__ import annotations

import json
import math
from typing import Any

from tapefix.verify.outcome import Cause, Gradient, Report, Variable


def as_dict(report: Report) -> dict[str, Any]:
    """The report as one JSON object."""
    forward = report.forward
    return {
        "target": report.target,
        "python": report.python,
        "python_chosen_by": report.chosen,
        "tensorflow": report.tensorflow,
        "keras": report.keras,
        "isolation": report.isolation,
        "verdict": report.verdict.value,
        "error": None
        if report.error is None
        else {
            "type": report.error.type,
            "message": report.error.message,
            "file": report.error.file,
            "line": report.error.line,
        },
        "gradients": [_gradient(gradient) for gradient in report.gradients],
        "causes": [_cause(cause) for cause in report.causes],
        "forward": None
        if forward is None
        else {
            "equal": forward.equal,
            "max_abs_diff": _number(forward.max_abs_diff),
            "compared": forward.compared,
            "tolerance": forward.tolerance,
        },
        "numeric": [
            {
                "file": n.file,
                "line": n.line,
                "tape": _number(n.tape),
                "differences": _number(n.differences),
                "agrees": n.agrees,
                "note": n.note,
            }
            for n in report.numeric
        ],
        "notes": list(report.notes),
        "seconds": round(report.seconds, 3),
    }


def to_json(report: Report) -> str:
    """The report as text: one object, two spaces of indent, a final newline."""
    return json.dumps(as_dict(report), indent=2, allow_nan=False) + "\n"


def _gradient(gradient: Gradient) -> dict[str, Any]:
    return {
        "file": gradient.file,
        "line": gradient.line,
        "kind": gradient.kind,
        "graph": gradient.graph,
        "times": gradient.times,
        "loss": _number(gradient.loss),
        "variables": [_variable(variable) for variable in gradient.variables],
    }


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "owner": variable.owner,
        "shape": None if variable.shape is None else list(variable.shape),
        "dtype": variable.dtype,
        "status": variable.status,
        "norm": _number(variable.norm),
        "cause": None if variable.cause is None else _cause(variable.cause),
        "note": variable.note,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "code": cause.code,
        "file": cause.file,
        "line": cause.line,
        "column": cause.column,
        "message": cause.message,
        "sure": cause.sure,
        "repair": cause.repair,
        "related": [{"file": file, "line": line, "message": message} for file, line, message in cause.related],
    }


def _number(value: float | None) -> float | None:
    """JSON has no NaN and no infinity; the status says it."""
    return value if value is not None and math.isfinite(value) else None
