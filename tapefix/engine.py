"""document -> findings -> fixes -> document, until nothing changes.

Pure: nothing here prints, exits, writes, or asks the environment; what is read comes through the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tapefix.chain import Identity, Names, compose
from tapefix.codemod import Applicability, Finding, Fix
from tapefix.documents.document import UnreadableDocument
from tapefix.documents.suppressions import Suppression, Suppressions, suppressions_of
from tapefix.documents.workspace import Workspace
from tapefix.reading import Reading, Tools, read

LIMIT = 100  # rounds: a repair that is not done by then does not come to an end


@dataclass(frozen=True)
class Checked:
    """A document was read: its findings, each with its whole repair or the reason why there is none."""

    filename: str
    findings: tuple[Finding, ...]
    unused: tuple[Suppression, ...] = ()
    crashes: tuple[str, ...] = ()
    used_elsewhere: tuple[tuple[str, int], ...] = ()  # (file, row) of comments in other files that were of use


@dataclass(frozen=True)
class Skipped:
    """A document that is none of the tool's business, and why."""

    filename: str
    reason: str


@dataclass(frozen=True)
class Failed:
    """A document that could not be read."""

    filename: str
    error: str


Result = Checked | Skipped | Failed


@dataclass(frozen=True)
class Proposal:
    """A finding with its whole repair, put to whoever decides (a person, a proof) what is written.

    `before` holds the files that the repair edits, as they are under the repairs made so far.
    """

    finding: Finding
    identity: Identity
    fix: Fix
    before: Mapping[str, bytes] = field(repr=False)


@dataclass
class Fixed:
    """What was repaired, and the workspace after it. What remains is in the results, by file."""

    workspace: Workspace
    applied: list[Proposal] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    names: Names = field(default_factory=Names, repr=False)


def check_document(workspace: Workspace, filename: str, tools: Tools) -> Result:
    """The findings of one file, with their repairs. Never raises for what is wrong with the file."""
    reading = _read(workspace, filename, tools)
    if not isinstance(reading, Reading):
        return reading
    silenced = _Silenced(workspace)
    reported = [f for f in reading.findings if tools.selection.reports(f, filename) and not silenced(f)]
    findings = tuple(replace(f, outcome=compose(f, reading, workspace, tools)) for f in reported)
    reading.release()
    return silenced.checked(filename, findings, tools, reading.crashes)


def fix_documents(
    workspace: Workspace, filenames: Iterable[str], tools: Tools, wanted: Callable[[Proposal], bool]
) -> Fixed:
    """Repairs the files one finding at a time, reading again after each, until nothing more is wanted.

    A repair in one file may change what another shows: the files that changed, and all those given, are gone
    through until a whole pass changes nothing.
    """
    fixed = Fixed(workspace)
    filenames = list(dict.fromkeys(filenames))
    for _ in range(LIMIT):
        before = len(fixed.applied)
        for filename in filenames:
            _fix_document(fixed, filename, tools, wanted)
        if len(fixed.applied) == before or len(filenames) == 1:
            break
    return fixed


def _fix_document(fixed: Fixed, filename: str, tools: Tools, wanted: Callable[[Proposal], bool]) -> None:
    """One file until nothing changes: take the first wanted repair, apply it, read again."""
    for _ in range(LIMIT):
        reading = _read(fixed.workspace, filename, tools)
        if not isinstance(reading, Reading):
            fixed.results[filename] = reading
            return
        silenced = _Silenced(fixed.workspace)
        reading = reading.unveiled(fixed.names.hidden(reading, fixed.workspace))
        names = fixed.names.name(reading, fixed.workspace)
        remaining: list[Finding] = []
        for finding in reading.findings:
            if not tools.selection.reports(finding, filename) or silenced(finding):
                continue
            outcome = compose(finding, reading, fixed.workspace, tools)
            whole = replace(finding, outcome=outcome)
            if isinstance(outcome, Fix):
                before = {edit.filename: fixed.workspace.open(edit.filename).data for edit in outcome.edits}
                proposal = Proposal(whole, names[finding], outcome, before)
                if wanted(proposal):
                    fixed.applied.append(proposal)
                    fixed.workspace = fixed.workspace.edited(outcome.edits)
                    fixed.names.follow(outcome.edits)
                    break
            remaining.append(whole)
        else:
            fixed.results[filename] = silenced.checked(filename, tuple(remaining), tools, reading.crashes)
            return


def is_safe(proposal: Proposal) -> bool:
    return proposal.fix.applicability is Applicability.SAFE


def _read(workspace: Workspace, filename: str, tools: Tools) -> Reading | Skipped | Failed:
    try:
        reading = read(workspace, filename, tools)
    except UnreadableDocument as error:
        return Failed(filename, str(error))
    except FileNotFoundError:
        return Failed(filename, f"{filename}: cannot be read; check its name and permissions")
    return Skipped(filename, reading.skipped) if reading.skipped else reading


class _Silenced:
    """Answers whether a comment silences a finding, in whichever file that is."""

    def __init__(self, workspace: Workspace):
        self._workspace = workspace
        self._by_file: dict[str, Suppressions] = {}

    def __call__(self, finding: Finding) -> bool:
        return self._of(finding.place.filename).cover(finding.code, finding.place)

    def checked(self, filename: str, findings: tuple[Finding, ...], tools: Tools, crashes: tuple[str, ...]) -> Checked:
        """The result for a file; told are also its comments that silence nothing, though every rule they name is on."""
        unused = tuple(comment for comment in self._of(filename).unused if _all_on(comment, tools))
        elsewhere = tuple(
            (name, comment.row)
            for name, comments in sorted(self._by_file.items())
            if name != filename
            for comment in sorted(comments.used, key=lambda c: c.row)
        )
        return Checked(filename, findings, unused, crashes, elsewhere)

    def _of(self, filename: str) -> Suppressions:
        if filename not in self._by_file:
            self._by_file[filename] = suppressions_of(self._workspace.open(filename))
        return self._by_file[filename]


def _all_on(comment: Suppression, tools: Tools) -> bool:
    codes = [m.code for m in tools.codemods if not comment.codes or m.code.startswith(comment.codes)]
    return all(tools.selection.wants(code) for code in codes)
