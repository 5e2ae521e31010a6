"""`tapefix apply --verify`: writes only what was proven in a scratch copy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tapefix.chain import Identity
from tapefix.cli.verify import options_of
from tapefix.config import Config
from tapefix.documents.workspace import Workspace
from tapefix.engine import Fixed, Proposal, fix_documents
from tapefix.halving import provable
from tapefix.reading import Tools
from tapefix.verify import Evidence, NotProven, NotRun, Proven, Runner, VerifyOptions, prove

if TYPE_CHECKING:
    from tapefix.verify import Target

Targets = Sequence["Target | str | Sequence[str]"]


def proven(
    workspace: Workspace,
    files: Sequence[str],
    tools: Tools,
    wanted: Callable[[Proposal], bool],
    config: Config,
    named: Collection[str],
    command: tuple[str, ...],
    options: VerifyOptions | None = None,
) -> tuple[Fixed, dict[Identity, Evidence]]:
    """The repairs that running has proven, and the evidence on every one that was tried.

    What to run is `command`, else the configured command or targets, else the changed files (or, where a repair lies
    in a module that they import, the files that were named).
    """
    everything = fix_documents(workspace, files, tools, wanted)
    if not everything.applied:
        return everything, {}
    with ExitStack() as stack:
        weigh = _Weigh(workspace, files, tools, config, named, command, options or options_of(config, tools), stack)
        kept, evidence = provable(
            [proposal.identity for proposal in everything.applied], weigh, lambda shown: isinstance(shown, Proven)
        )
        return weigh.apply(kept), evidence


class _Weigh:
    """Runs the program with a set of repairs, in a runner that all sets share."""

    def __init__(
        self,
        workspace: Workspace,
        files: Sequence[str],
        tools: Tools,
        config: Config,
        named: Collection[str],
        command: tuple[str, ...],
        options: VerifyOptions,
        stack: ExitStack,
    ):
        self._workspace, self._files, self._tools = workspace, files, tools
        self._config, self._named, self._command = config, named, command
        self._options, self._stack = options, stack
        self._runner: Runner | None = None

    def apply(self, allowed: Sequence[Identity]) -> Fixed:
        chosen = set(allowed)
        return fix_documents(self._workspace, self._files, self._tools, lambda proposal: proposal.identity in chosen)

    def __call__(self, allowed: Sequence[Identity]) -> Mapping[Identity, Evidence]:
        fixed = self.apply(allowed)
        changed = fixed.workspace.changed
        after = {Path(name): document.data for name, document in changed.items()}
        before = {path: original.data for path in after if (original := fixed.workspace.original(str(path)))}
        proof = prove(before, after, self._targets(changed), self._options, self._shared(after))
        return {p.identity: _worst(proof.files, p) for p in fixed.applied}

    def _targets(self, changed: Collection[str]) -> Targets:
        verify = self._config.verify
        if self._command or verify.command:
            return [self._command or verify.command]
        if verify.targets:
            return verify.targets
        imported = set(changed) - set(self._named)
        return sorted(self._named) if self._named and imported else []

    def _shared(self, changed: Collection[Path]) -> Runner:
        if self._runner is None:
            from tapefix.verify.scratch import project_root, read_project
            from tapefix.verify.verify import make_runner

            root = project_root(min(changed).parent, self._options.cwd.resolve())
            self._runner = self._stack.enter_context(make_runner(read_project(root), self._options))
        return self._runner


def _worst(files: Mapping[str, Evidence], proposal: Proposal) -> Evidence:
    """The evidence on the files that a repair changes; what fails decides."""
    shown = [files[name] for name in sorted({edit.filename for edit in proposal.fix.edits}) if name in files]
    for kind in (NotProven, NotRun):
        for evidence in shown:
            if isinstance(evidence, kind):
                return evidence
    return shown[0] if shown else NotRun("nothing of it was run")


def told(fixed: Fixed, evidence: Mapping[Identity, Evidence], folder: Path) -> Iterator[str]:
    """What running has shown: the gradients before and after the repairs; for each fix left out, why."""
    from tapefix.report.verify_text import render_evidence
    from tapefix.report.words import shown

    kept = {proposal.identity for proposal in fixed.applied}
    for proof in {id(found): found for name, found in evidence.items() if name in kept}.values():
        yield from render_evidence(proof)
    for name, found in evidence.items():
        if name not in kept:
            first = name.text.partition("\n")[0]
            yield f"{shown(name.filename, folder)}  {name.code} left out: `{first}`"
            yield from render_evidence(found)
