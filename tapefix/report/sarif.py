"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tapefix.codemod import Finding, Fix
from tapefix.documents.document import Edit, Place
from tapefix.documents.workspace import Workspace
from tapefix.registry import load_codemods, page
from tapefix.report.words import relative, remedy
from tapefix.runner import Run

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(run: Run, folder: Path) -> str:
    codes = sorted({finding.code for finding in run.findings})
    driver = {
        "name": "tapefix",
        "semanticVersion": version("tapefix"),
        "rules": _rules(run, codes),
    }
    results = [_result(finding, codes.index(finding.code), run.workspace, folder) for finding in run.findings]
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rules(run: Run, codes: list[str]) -> list[dict[str, Any]]:
    pages = {codemod.code: page(codemod) for codemod in load_codemods()} if codes else {}
    names = {finding.code: finding.name for finding in run.findings}
    return [
        {
            "id": code,
            "name": names[code],
            "shortDescription": {"text": pages.get(code, "").split("\n")[0] or names[code]},
            "help": {"text": pages.get(code) or names[code]},
        }
        for code in codes
    ]


def _result(finding: Finding, index: int, workspace: Workspace, folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "error",
        "message": {"text": f"{finding.message}. {finding.why}. Fix: {remedy(finding)}"},
        "locations": [_location(finding.place, folder)],
    }
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": other.message}, **_location(other.place, folder)}
            for number, other in enumerate(finding.related)
        ]
    if finding.fix:
        result["fixes"] = [_fix(finding.fix, workspace, folder)]
    return result


def _location(place: Place, folder: Path) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(place.filename, folder), "region": _region(place)}}


def _artifact(filename: str, folder: Path) -> dict[str, str]:
    from urllib.parse import quote

    return {"uri": quote(relative(filename, folder))}


def _region(place: Place) -> dict[str, int]:
    return {
        "startLine": place.row,
        "startColumn": place.column,
        "endLine": place.end_row,
        "endColumn": place.end_column,
    }


def _fix(fix: Fix, workspace: Workspace, folder: Path) -> dict[str, Any]:
    by_file: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_file.setdefault(edit.filename, []).append(edit)
    return {
        "description": {"text": fix.message},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(filename, folder),
                "replacements": [_replacement(edit, workspace) for edit in edits],
            }
            for filename, edits in by_file.items()
        ],
    }


def _replacement(edit: Edit, workspace: Workspace) -> dict[str, Any]:
    place = workspace.open(edit.filename).place_of(edit.start, edit.end)
    return {"deletedRegion": _region(place), "insertedContent": {"text": edit.content}}
