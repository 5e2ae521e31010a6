"""From a rule's rewrite to a repair: follows a cut to where it moves, until no gradient is lost any more.

`np.mean(np.exp(y))` is cut at `np.exp`; once that is `tf.exp`, it is cut at `np.mean`. A rule rewrites one place; the
repair of a finding is the chain of rewrites at whose end nothing is cut that was not cut before.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tapefix.codemod import Applicability, Finding, Fix, Refusal
from tapefix.documents.document import Edit, UnreadableDocument
from tapefix.documents.workspace import Workspace
from tapefix.patches.diff import opcodes
from tapefix.reading import Misuse, Reading, Tools, read

LIMIT = 60
MOST_GROWTH = 12_000  # bytes: rewrites that feed on each other grow without end, and each reading costs more

#: (what, file, offset): a finding by its code, a misuse by its message; the offset moves with the edits
Mark = tuple[str, str, int]


def compose(finding: Finding, reading: Reading, workspace: Workspace, tools: Tools) -> Fix | Refusal:
    """The whole repair that begins at a finding, or why there is none.

    Rewrites the finding's place, reads again, and goes on with what is cut now and was not cut before. It fails
    where such a new cut cannot be repaired, where it comes to no end, where the result does not parse, and where it
    leaves a use that no longer works.
    """
    if isinstance(finding.outcome, Refusal):
        return finding.outcome
    peers = {_mark(peer, workspace) for peer in reading.peers(finding)}
    known = _marks(reading, workspace) - peers
    files = {reading.document.filename}
    links, here, now, texts = [finding], workspace, reading, set[str]()
    while True:
        link = links[-1]
        edits = now.edits(link)
        for filename in sorted({edit.filename for edit in edits} - files):
            files.add(filename)
            known |= _marks(read(workspace, filename, tools), workspace)
        try:
            there = here.edited(edits)
            readings = [read(there, filename, tools) for filename in sorted(files)]
        except UnreadableDocument as error:
            return Refusal(f"the rewrite by {link.code} gives code that does not parse ({error}); please report it")
        except ValueError as error:
            return Refusal(f"the edits of {link.code} overlap ({error}); please report it")
        known = {moved for mark in known if (moved := _moved(mark, edits))}
        fresh = [f for one in readings for f in one.findings + one.veiled if _mark(f, there) not in known]
        fixable = next((f for f in fresh if f.fix is not None and tools.selection.wants(f.code)), None)
        fixable = fixable or _mend(readings, known)
        if fixable is None:
            problem = _remains(fresh, tools) or _misused(readings, known)
            return Refusal(problem) if problem else _composed(links, workspace, there, files)
        state = _state(there, files)
        if state in texts or len(links) == LIMIT or _size(there, files) > _size(workspace, files) + MOST_GROWTH:
            return Refusal(
                f"repairing this line comes to no end: {fixable.code} finds the same again after its rewrite"
            )
        texts.add(state)
        links.append(fixable)
        here, now = (
            there,
            next(
                one for one in readings if fixable in one.findings + one.veiled or fixable in dict(one.mends).values()
            ),
        )


def _marks(reading: Reading, workspace: Workspace) -> set[Mark]:
    misuses = {_misuse_mark(misuse) for misuse in reading.misuses}
    return {_mark(finding, workspace) for finding in reading.findings + reading.veiled} | misuses


def _mark(finding: Finding, workspace: Workspace) -> Mark:
    place = finding.place
    return finding.code, place.filename, workspace.open(place.filename).offset_at(place.row, place.column)


def _misuse_mark(misuse: Misuse) -> Mark:
    return misuse.message, misuse.filename, misuse.start


def _moved(mark: Mark, edits: Iterable[Edit]) -> Mark | None:
    """Where a mark is after the edits; None where one of them rewrote its place."""
    what, filename, offset = mark
    shift = 0
    for edit in edits:
        if edit.filename != filename:
            continue
        if edit.start <= offset < edit.end:
            return None
        if edit.end <= offset:
            shift += len(edit.content) - (edit.end - edit.start)
    return what, filename, offset + shift


def _remains(fresh: list[Finding], tools: Tools) -> str:
    """Why the chain ends before the gradient is there, if so."""
    for finding in fresh:
        if isinstance(finding.outcome, Refusal):
            why = finding.outcome.reason
        else:
            why = f"{finding.code} is switched off"
        return f"repairing this line only moves the cut to line {finding.place.row}: {why}"
    return ""


def _misused(readings: Iterable[Reading], known: set[Mark]) -> str:
    for reading in readings:
        for misuse in reading.misuses:
            if _misuse_mark(misuse) not in known:
                return f"after the repair line {misuse.row} would no longer work: {misuse.message}"
    return ""


def _mend(readings: Iterable[Reading], known: set[Mark]) -> Finding | None:
    """The repair of a use that the rewrites so far have broken."""
    for reading in readings:
        for misuse, repair in reading.mends:
            if _misuse_mark(misuse) not in known and repair.fix is not None:
                return repair
    return None


def _size(workspace: Workspace, files: set[str]) -> int:
    return sum(len(workspace.open(filename).data) for filename in files)


def _state(workspace: Workspace, files: set[str]) -> str:
    digest = hashlib.sha256()
    for filename in sorted(files):
        digest.update(workspace.open(filename).data + b"\0")
    return digest.hexdigest()


def _composed(links: list[Finding], before: Workspace, after: Workspace, files: set[str]) -> Fix | Refusal:
    """The chain as one fix: as safe as its weakest link."""
    fixes = [link.fix for link in links if link.fix]
    edits = tuple(edit for filename in sorted(files) for edit in difference(filename, before, after))
    if not edits:
        return Refusal(f"the rewrite by {links[0].code} changes nothing; please report it")
    unsafe = any(fix.applicability is Applicability.UNSAFE for fix in fixes)
    fix = Fix(
        applicability=Applicability.UNSAFE if unsafe else Applicability.SAFE,
        message="; then ".join(dict.fromkeys(fix.message for fix in fixes)),
        edits=edits,
        alternatives=tuple(dict.fromkeys(choice for fix in fixes for choice in fix.alternatives)),
    )
    identity = "\0".join(f"{e.filename}:{e.start}:{e.end}:{e.content}" for e in edits)
    return replace(fix, group=hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:12])


def difference(filename: str, before: Workspace, after: Workspace) -> list[Edit]:
    """The edits of whole lines that lead from one text of a file to another."""
    old, new = (w.open(filename).text.split("\n") for w in (before, after))
    old, new = ([line + "\n" for line in part[:-1]] + part[-1:] for part in (old, new))
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    return [
        _trimmed(Edit(filename, starts[a], starts[b], "".join(new[c:d])), "".join(old[a:b]))
        for tag, a, b, c, d in opcodes(old, new)
        if tag != "equal"
    ]


def _trimmed(edit: Edit, old: str) -> Edit:
    """The edit without what it would write over with the same characters."""
    new, head, tail = edit.content, 0, 0
    shortest = min(len(old), len(new))
    while head < shortest and old[head] == new[head]:
        head += 1
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return Edit(edit.filename, edit.start + head, edit.end - tail, new[head : len(new) - tail])


@dataclass(frozen=True)
class Identity:
    """A finding as a person would recognise it after edits elsewhere: rule, text, and the how-manieth of its like."""

    code: str
    filename: str
    text: str
    ordinal: int


class Names:
    """Gives each finding its identity, and knows it again after edits, wherever it has moved."""

    def __init__(self) -> None:
        self._by_mark: dict[Mark, Identity] = {}
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def name(self, reading: Reading, workspace: Workspace) -> dict[Finding, Identity]:
        """The identity of each finding of a reading; those not met before get new ones, in order."""
        return {finding: self._name(finding, workspace) for finding in reading.findings}

    def hidden(self, reading: Reading, workspace: Workspace) -> tuple[Finding, ...]:
        """What was found before, and looks detached on purpose only since a repair brought its factor back."""
        return tuple(finding for finding in reading.veiled if _mark(finding, workspace) in self._by_mark)

    def _name(self, finding: Finding, workspace: Workspace) -> Identity:
        mark = _mark(finding, workspace)
        if mark not in self._by_mark:
            place = finding.place
            key = finding.code, place.filename, workspace.open(place.filename).text_at(place)
            self._by_mark[mark] = Identity(*key, self._seen[key])
            self._seen[key] += 1
        return self._by_mark[mark]

    def follow(self, edits: Iterable[Edit]) -> None:
        """The document changes: what is known moves with it."""
        edits = list(edits)
        self._by_mark = {moved: name for mark, name in self._by_mark.items() if (moved := _moved(mark, edits))}
