"""Findings in public code, each of which has to be true for a careful reader; the verdicts are in `precision.md`.

    python benchmarks/precision.py FOLDER... [--jobs N]

FOLDER: unpacked packages. Printed is one line a cut (file, row, manner, whether other ways remain, for whose gradient),
then the number of files, of crashes and of files in which the model gave up.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tapefix.documents.document import Document, UnreadableDocument
from tapefix.flow import RepositoryLoader, understand

RECURSION = 3000
Finding = tuple[str, int, str, bool, str, str]  # file, row, manner, partial, origins, targets


def cuts_of(path: Path) -> tuple[list[Finding], str]:
    """A file's cuts, and what went wrong: "crash: ...", "budget" or ""."""
    sys.setrecursionlimit(RECURSION)
    try:
        model = understand(Document(path, path.read_bytes()), RepositoryLoader())
    except UnreadableDocument:
        return [], ""
    except Exception as error:
        return [], f"crash: {type(error).__name__}: {error}"
    found = [
        (
            cut.spot.filename,
            getattr(cut.spot.node, "lineno", 0),
            cut.how.value,
            cut.partial,
            ", ".join(origin.name for origin in cut.origins[:3]),
            ", ".join(sorted({target.what for target in cut.targets})),
        )
        for cut in model.cuts
    ]
    return found, "" if model.complete else "budget"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    files = sorted(path for folder in options.folders for path in folder.rglob("*.py"))
    if not files:
        sys.exit("no Python file there")
    findings: dict[tuple[str, int, str], Finding] = {}
    crashes, unfinished = [], []
    with ProcessPoolExecutor(options.jobs) as pool:
        for path, (found, trouble) in zip(files, pool.map(cuts_of, files, chunksize=16)):
            if trouble.startswith("crash"):
                crashes.append(f"{path}: {trouble}")
            elif trouble:
                unfinished.append(str(path))
            for finding in found:
                findings.setdefault(finding[:3], finding)
    for filename, row, how, partial, origins, targets in sorted(findings.values()):
        print(f"{filename}:{row} {how}{' (partial)' if partial else ''}: {origins} -> {targets}")
    for crash in crashes:
        print(crash)
    for name in unfinished:
        print(f"{name}: gave up")
    print(f"{len(files)} files, {len(findings)} cuts, {len(crashes)} crashes, {len(unfinished)} given up")


if __name__ == "__main__":
    main()
