"""`check --output-format json`: one array in Ruff's shape; its schema is schemas/check.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tapefix.codemod import Finding, Fix, Refusal
from tapefix.documents.document import Edit, Place
from tapefix.documents.workspace import Workspace
from tapefix.runner import Run


def render(run: Run, folder: Path) -> str:
    return (
        json.dumps([as_json(finding, run.workspace) for finding in run.findings], indent=2, ensure_ascii=False) + "\n"
    )


def as_json(finding: Finding, workspace: Workspace) -> dict[str, Any]:
    """One finding; rows and columns count from 1, columns count characters."""
    outcome = finding.outcome
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "why": finding.why,
        "filename": finding.place.filename,
        **_span(finding.place),
        "url": None,
        "cell": None,
        "related": [
            {"filename": other.place.filename, **_span(other.place), "message": other.message}
            for other in finding.related
        ],
        "fix": None if isinstance(outcome, Refusal) else _fix(outcome, workspace),
        "refusal": outcome.reason if isinstance(outcome, Refusal) else None,
    }


def _fix(fix: Fix, workspace: Workspace) -> dict[str, Any]:
    return {
        "id": fix.group,
        "applicability": fix.applicability.value,
        "message": fix.message,
        "edits": [_edit(edit, workspace) for edit in fix.edits],
        "alternatives": list(fix.alternatives),
    }


def _edit(edit: Edit, workspace: Workspace) -> dict[str, Any]:
    place = workspace.open(edit.filename).place_of(edit.start, edit.end)
    return {"filename": edit.filename, "content": edit.content, **_span(place)}


def _span(place: Place) -> dict[str, Any]:
    return {
        "location": {"row": place.row, "column": place.column},
        "end_location": {"row": place.end_row, "column": place.end_column},
    }
