"""GitLab's code quality report."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

from tapefix.report.words import relative, remedy
from tapefix.runner import Run


def render(run: Run, folder: Path) -> str:
    seen: Counter[str] = Counter()
    issues = []
    for finding in run.findings:
        place = finding.place
        path = relative(place.filename, folder)
        document = run.workspace(place.filename)
        key = f"{path}:{finding.code}:{document.text_at(place) if document else ''}"
        seen[key] += 1  # the fingerprint must not change when lines above are added
        fingerprint = hashlib.sha256(f"{key}:{seen[key]}".encode("utf-8", "surrogatepass")).hexdigest()
        issues.append(
            {
                "type": "issue",
                "check_name": finding.code,
                "description": f"{finding.code}: {finding.message}",
                "content": {"body": f"{finding.why}\n\n{remedy(finding)}"},
                "categories": ["Bug Risk"],
                "severity": "major",
                "fingerprint": fingerprint,
                "location": {"path": path, "lines": {"begin": place.row, "end": place.end_row}},
            }
        )
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"
