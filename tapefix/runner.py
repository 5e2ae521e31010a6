"""Files, processes and the cache around the engine: what `check` and `apply` do with paths."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tapefix.cache import Cache
from tapefix.codemod import Finding
from tapefix.config import Config
from tapefix.documents.suppressions import Suppression
from tapefix.documents.workspace import Workspace
from tapefix.engine import Checked, Failed, Fixed, Result, Skipped, check_document
from tapefix.reading import Tools, order
from tapefix.registry import load_codemods
from tapefix.selection import Selection

if TYPE_CHECKING:
    from tapefix.documents.document import Document
    from tapefix.flow import Model

#: a file's result and every file it rests on, with its digest
Answer = tuple[Result, dict[str, "str | None"]]

MOST_OBJECTS = 400_000  # made since garbage was last collected, most of them syntax trees that go by themselves
CHUNKS = 32  # a process: files of one folder stay together, and none waits long for the last
SERIAL_BELOW = 12  # files: starting processes costs more than reading so few


@dataclass(frozen=True)
class Run:
    """What came of all files: findings in stable order, and what happened to the rest."""

    workspace: Workspace
    findings: tuple[Finding, ...]
    checked: int
    skipped: tuple[Skipped, ...] = ()
    failed: tuple[Failed, ...] = ()
    crashes: tuple[str, ...] = ()
    unused: tuple[tuple[str, Suppression], ...] = ()


def load_tools(config: Config) -> Tools:
    """The rules and the model, as the settings want them. Raises TapefixError for codes that no rule has."""
    codemods = load_codemods()
    selection = Selection(config)
    selection.check_codes(codemod.code for codemod in codemods)
    for codemod in codemods:
        codemod.threshold = config.gates.threshold
        codemod.unsafe = config.unsafe_fixes
    return Tools(codemods, understand, selection)


def understand(document: Document, workspace: Workspace) -> Model:
    """The flow model of a document, with imports looked up in the workspace."""
    from tapefix import flow

    return flow.understand(document, flow.RepositoryLoader(workspace))


def check_files(files: Sequence[str], config: Config, *, jobs: int = 0, cache: Cache | None = None) -> Iterator[Result]:
    """Each file's result, in the order of `files`; the same whatever the number of jobs (0: one a core)."""
    jobs = min(jobs or os.cpu_count() or 1, len(files))
    known = {name: result for name in files if cache and (result := cache.get(name)) is not None}
    missing = [name for name in files if name not in known]
    if jobs <= 1 or (len(missing) < SERIAL_BELOW):
        tools = load_tools(config)
        fresh: Iterable[Answer] = (_check(name, tools) for name in missing)
        yield from _merged(files, known, fresh, cache)
        return
    load_tools(config)  # where processes are forked, they share what was imported
    with ProcessPoolExecutor(jobs, initializer=_start_worker, initargs=(config,)) as pool:
        fresh = pool.map(_check_in_worker, missing, chunksize=max(1, len(missing) // (jobs * CHUNKS)))
        yield from _merged(files, known, fresh, cache)


def _merged(
    files: Sequence[str],
    known: dict[str, Result],
    fresh: Iterable[Answer],
    cache: Cache | None,
) -> Iterator[Result]:
    fresh = iter(fresh)
    for name in files:
        if name in known:
            yield known[name]
            continue
        result, consulted = next(fresh)
        if cache:
            cache.put(name, result, consulted)
        yield result


_worker_tools: Tools | None = None


def _start_worker(config: Config) -> None:
    global _worker_tools
    _worker_tools = load_tools(config)
    gc.disable()  # syntax trees are many objects without cycles: walking them again and again costs a third of the run


def _check_in_worker(filename: str) -> Answer:
    assert _worker_tools is not None
    if gc.get_count()[0] > MOST_OBJECTS:
        gc.collect()
        gc.freeze()  # what is still there is kept for other files: it need not be walked again
    return _check(filename, _worker_tools)


def _check(filename: str, tools: Tools) -> Answer:
    workspace = Workspace()
    return check_document(workspace, filename, tools), workspace.consulted


def gather(results: Iterable[Result], workspace: Workspace) -> Run:
    """All results in one: a finding that several files lead to is told once."""
    findings: dict[tuple[object, ...], Finding] = {}
    checked = 0
    skipped: list[Skipped] = []
    failed: list[Failed] = []
    crashes: list[str] = []
    unused: list[tuple[str, Suppression]] = []
    used = set[tuple[str, int]]()
    for result in results:
        if isinstance(result, Skipped):
            skipped.append(result)
        elif isinstance(result, Failed):
            failed.append(result)
        else:
            checked += 1
            crashes += result.crashes
            used.update(result.used_elsewhere)
            unused += [(result.filename, comment) for comment in result.unused]
            for finding in result.findings:
                _add(findings, finding, result)
    ordered = tuple(sorted(findings.values(), key=order))
    idle = tuple((name, comment) for name, comment in unused if (name, comment.row) not in used)
    return Run(workspace, ordered, checked, tuple(skipped), tuple(failed), tuple(crashes), idle)


def _add(findings: dict[tuple[object, ...], Finding], finding: Finding, result: Checked) -> None:
    """The file's own word about itself comes before what others say about it."""
    key = order(finding)
    if key not in findings or finding.place.filename == result.filename:
        findings[key] = finding


def open_cache(config: Config) -> Cache:
    """The cache of a project, valid for the rules that are installed."""
    packages = ["tapefix", *(type(codemod).__module__.partition(".")[0] for codemod in load_codemods())]
    return Cache(config.root, config, packages)


def remaining(before: Run, fixed: Fixed) -> Run:
    """What is left after repairs: the new word on the files that were gone through, the old one on the others."""
    after = gather(fixed.results.values(), fixed.workspace)
    touched = {*fixed.results, *fixed.workspace.changed}
    others = [finding for finding in before.findings if finding.place.filename not in touched]
    findings = tuple(sorted({order(f): f for f in (*others, *after.findings)}.values(), key=order))
    return replace(before, workspace=fixed.workspace, findings=findings, crashes=before.crashes + after.crashes)
