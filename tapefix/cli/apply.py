"""`tapefix apply`: writes repairs, or shows them as a diff."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tapefix.cli import common

if TYPE_CHECKING:
    from tapefix.chain import Identity
    from tapefix.config import Config
    from tapefix.documents.discovery import Found
    from tapefix.documents.workspace import Workspace
    from tapefix.engine import Fixed, Proposal
    from tapefix.reading import Tools
    from tapefix.runner import Run


def apply(
    context: typer.Context,
    paths: common.Paths = None,
    unsafe_fixes: Annotated[
        bool | None, typer.Option("--unsafe-fixes/--no-unsafe-fixes", help="Also fixes that need judgement.")
    ] = None,
    select: common.Select = None,
    ignore: common.Ignore = None,
    extend_select: common.ExtendSelect = None,
    exclude: common.Exclude = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print one unified diff, write nothing.")] = False,
    patch: Annotated[str, typer.Option("--patch", metavar="FILE", help="Write that diff to FILE instead.")] = "",
    interactive: Annotated[bool, typer.Option("--interactive", help="Ask fix by fix.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Prove the fixes in a scratch copy first; `-- COMMAND` is what to run.")
    ] = False,
    jobs: common.Jobs = 0,
    no_cache: common.NoCache = False,
    stdin_filename: common.StdinFilename = "",
) -> None:
    """Repair what can be repaired; what is left is printed with the reason."""
    from tapefix.errors import TapefixError
    from tapefix.runner import load_tools

    given = paths or ["."]
    config = common.settings(given, select, ignore, extend_select, exclude)
    unsafe = config.unsafe_fixes if unsafe_fixes is None else unsafe_fixes
    if context.obj and not verify:
        raise TapefixError("a command after `--` is for --verify; add --verify or leave the command out")
    if given == ["-"] and (verify or interactive or patch):
        raise TapefixError("standard input goes with --dry-run or alone; name a file for the rest")
    config = dataclasses.replace(config, unsafe_fixes=unsafe)
    tools = load_tools(config)
    found, workspace = common.inputs(given, config, stdin_filename)
    wanted = _wanted(unsafe, interactive)
    files, before = _candidates(found, workspace, tools, config, jobs, cached=not no_cache, stdin=given == ["-"])
    failed = common.tell_the_rest(before, found.named)
    if failed:
        raise typer.Exit(2)
    fixed, notes, unproven = _fixed(workspace, files, tools, wanted, config, found, context.obj, verify=verify)
    deliver(fixed, before, dry_run=dry_run, patch=patch, stdin=given == ["-"], notes=notes)
    changes = bool(fixed.workspace.changed)
    raise typer.Exit(1 if unproven or (dry_run and changes) else 0)


def _fixed(
    workspace: Workspace,
    files: list[str],
    tools: Tools,
    wanted: Callable[[Proposal], bool],
    config: Config,
    found: Found,
    command: tuple[str, ...],
    *,
    verify: bool,
) -> tuple[Fixed, tuple[str, ...], bool]:
    """The repairs, what there is to tell about their proof, and whether one could not be proven."""
    from tapefix.engine import fix_documents

    if not verify:
        return fix_documents(workspace, files, tools, wanted), (), False
    from tapefix.cli.proving import proven, told

    fixed, evidence = proven(workspace, files, tools, wanted, config, found.named, command)
    kept = {proposal.identity for proposal in fixed.applied}
    return fixed, tuple(told(fixed, evidence, Path.cwd())), bool(set(evidence) - kept)


def _candidates(
    found: Found, workspace: Workspace, tools: Tools, config: Config, jobs: int, *, cached: bool, stdin: bool
) -> tuple[list[str], Run]:
    """The files in which something can be repaired, and what the check of all of them said."""
    from tapefix.engine import Checked, check_document
    from tapefix.runner import check_files, gather, open_cache

    if stdin:
        results = [check_document(workspace, name, tools) for name in found.files]
    else:
        cache = open_cache(config) if cached else None
        results = list(check_files(found.files, config, jobs=jobs, cache=cache))
    fixable = [r.filename for r in results if isinstance(r, Checked) and any(f.fix for f in r.findings)]
    return fixable, gather(results, workspace)


def _wanted(unsafe: bool, interactive: bool) -> Callable[[Proposal], bool]:
    """Whether a repair is to be written: by its applicability, and by what the person answers."""
    from tapefix.engine import is_safe

    if not interactive:
        return lambda proposal: unsafe or is_safe(proposal)
    answers: dict[Identity, bool] = {}

    def ask(proposal: Proposal) -> bool:
        if not unsafe and not is_safe(proposal):
            return False
        if proposal.identity not in answers:
            answers[proposal.identity] = _ask(proposal)
        return answers[proposal.identity]

    return ask


def _ask(proposal: Proposal) -> bool:
    from tapefix.documents.workspace import Workspace
    from tapefix.report.text import header
    from tapefix.report.words import remedy

    folder = Path.cwd()
    print(f"{header(proposal.finding, folder)}\n  = fix: {remedy(proposal.finding)}", flush=True)
    after = Workspace(proposal.before.get).edited(proposal.fix.edits)
    sys.stdout.buffer.write(
        _diff(folder, {name: (data, after.open(name).data) for name, data in proposal.before.items()})
    )
    sys.stdout.buffer.flush()
    return typer.confirm("Apply?", default=False)


def _diff(folder: Path, texts: Mapping[str, tuple[bytes, bytes]]) -> bytes:
    """One diff of several files, each given by its name as it was and as it is."""
    from tapefix.patches import unified_diff
    from tapefix.report.words import relative

    return b"".join(unified_diff(relative(name, folder), *texts[name]) for name in sorted(texts))


def deliver(
    fixed: Fixed, before: Run, *, dry_run: bool, patch: str, stdin: bool = False, notes: tuple[str, ...] = ()
) -> None:
    """Writes what was repaired (or its diff) and prints what was done and what is left."""
    from tapefix.patches import write_files
    from tapefix.report.applied import render_applied
    from tapefix.runner import remaining

    folder = Path.cwd()
    changed = fixed.workspace.changed
    run = remaining(before, fixed)
    verb = "would be fixed" if dry_run else f"in {patch}" if patch else "fixed"
    summary = render_applied(fixed, run, folder, verb, notes)
    if stdin and not dry_run:
        for document in (fixed.workspace.open(name) for name in fixed.results):
            sys.stdout.buffer.write(document.data)
        sys.stderr.write(summary)
        return
    if not dry_run and not patch:
        write_files({name: document.data for name, document in changed.items()})
        sys.stdout.write(summary)
        return
    originals = {name: fixed.workspace.original(name) for name in changed}
    diff = _diff(folder, {name: (old.data if old else b"", changed[name].data) for name, old in originals.items()})
    if patch:
        write_files({patch: diff})
        sys.stdout.write(summary)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(diff)
    sys.stdout.buffer.flush()
    sys.stderr.write(summary)
