"""Applies a unified diff, hunk by hunk, to files that may have changed since; `unidiff` reads it.

The diff is decoded as Latin-1, one character a byte, so that files of any encoding pass through unharmed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchedFile, PatchSet

from tapefix.errors import TapefixError
from tapefix.patches.diff import CONTEXT, lines_of
from tapefix.patches.names import unquote

FUZZ = 2  # how many context lines at either end of a hunk may differ, as in GNU patch
_HEADER = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)", re.DOTALL)


@dataclass(frozen=True)
class Reject:
    """A hunk that found no place: which one, where it was looked for, and why it was left out."""

    filename: str
    hunk: int
    line: int
    reason: str


@dataclass(frozen=True)
class Patched:
    """What a diff makes of the files: new contents by name, hunks done, hunks rejected."""

    files: dict[str, bytes]
    applied: int
    rejects: tuple[Reject, ...]


@dataclass(frozen=True)
class _Line:
    sign: str  # " ", "-" or "+"
    data: bytes


def apply_patch(diff: bytes, read: Callable[[str], bytes | None], *, reverse: bool = False) -> Patched:
    """The files after `diff` (or, with `reverse`, before it). `read` gives a file's bytes, None where there is none.

    Raises TapefixError where `diff` is no unified diff, or one that makes, removes, or renames files.
    """
    try:
        patches = PatchSet(_recounted(diff))
    except UnidiffParseError as error:
        raise TapefixError(
            f"not a unified diff: {str(error).strip()}; make one with `tapefix apply --patch`"
        ) from error
    if not patches:
        raise TapefixError("no diff in it; make one with `tapefix apply --patch FILE`")
    files: dict[str, bytes] = {}
    rejects: list[Reject] = []
    applied = 0
    for patch in patches:
        name = _name(patch)
        data = files.get(name, read(name))
        if data is None:
            rejects += [Reject(name, n, h.source_start, "there is no such file here") for n, h in enumerate(patch, 1)]
            continue
        lines, done, failed = _apply_hunks(lines_of(data), list(patch), name, reverse)
        applied += done
        rejects += failed
        if done:
            files[name] = b"".join(lines)
    return Patched(files, applied, tuple(rejects))


def _recounted(diff: bytes) -> str:
    """The diff with each hunk's line counts made anew: people trim hunks and forget the numbers."""
    lines = [line.decode("latin-1") for line in lines_of(diff)]
    for index, line in enumerate(lines):
        header = _HEADER.match(line)
        if header:
            body = list(_body(lines, index + 1))
            old = sum(row[:1] not in ("+", "\\") for row in body)
            new = sum(row[:1] not in ("-", "\\") for row in body)
            lines[index] = f"@@ -{header[1]},{old} +{header[2]},{new} @@{header[3]}"
    return "".join(lines)


def _body(lines: list[str], start: int) -> Iterator[str]:
    """The lines of the hunk that begins at `start`: up to the next hunk, the next file, or the end."""
    for index in range(start, len(lines)):
        line = lines[index]
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if line[:1] not in (" ", "+", "-", "\\", "\n", "\r") or _HEADER.match(line):
            return
        if line.startswith("--- ") and following.startswith("+++ "):
            return
        if line.strip("\r\n") == "" and not _goes_on(lines, index):
            return  # an empty line after the last hunk belongs to nobody
        yield line


def _goes_on(lines: list[str], index: int) -> bool:
    rest = next((line for line in lines[index:] if line.strip("\r\n")), "")
    return rest[:1] in (" ", "+", "-", "\\") and not rest.startswith("--- ")


def _name(patch: PatchedFile) -> str:
    names = {_stripped(unquote(raw)) for raw in (patch.source_file, patch.target_file)}
    if len(names) != 1 or "/dev/null" in names:
        raise TapefixError(
            f"the diff makes, removes or renames a file ({' -> '.join(sorted(names))}); tapefix patch only edits files"
        )
    name = names.pop()
    if name.startswith("/") or ".." in name.split("/"):
        raise TapefixError(f"the diff names a file outside the current folder: {name}")
    return name


def _stripped(name: str) -> str:
    return name[2:] if name[:2] in ("a/", "b/") else name


def _apply_hunks(
    lines: list[bytes], hunks: list[Hunk], name: str, reverse: bool
) -> tuple[list[bytes], int, list[Reject]]:
    done, shift, floor = 0, 0, 0
    rejects: list[Reject] = []
    for number, hunk in enumerate(hunks, 1):
        body = _turned(_lines(hunk), reverse)
        start = hunk.target_start if reverse else hunk.source_start
        old = [line.data for line in body if line.sign != "+"]
        expected = max(start - 1 if old else start, 0) + shift
        found = _find(lines, body, expected, floor)
        if found is None:
            new = [line.data for line in body if line.sign != "-"]
            already = new != old and _offset(lines, new, expected, 0) is not None
            reason = "it is there already" if already else "the lines it changes are not there (or not as in the diff)"
            rejects.append(Reject(name, number, start, reason))
            continue
        at, head, body = found
        old = [line.data for line in body if line.sign != "+"]
        new = [line.data for line in body if line.sign != "-"]
        lines = lines[:at] + new + lines[at + len(old) :]
        shift = at - head - (expected - shift) + len(new) - len(old)
        floor = at + len(new)
        done += 1
    return lines, done, rejects


def _lines(hunk: Hunk) -> list[_Line]:
    """A hunk's lines as bytes; the marker takes the line feed off the line before it."""
    lines: list[_Line] = []
    for line in hunk:
        if line.line_type == "\\":
            if lines:
                lines[-1] = _Line(lines[-1].sign, lines[-1].data.removesuffix(b"\n"))
            continue
        lines.append(_Line(line.line_type, line.value.encode("latin-1")))
    return lines


def _turned(body: list[_Line], reverse: bool) -> list[_Line]:
    if not reverse:
        return body
    turn = {"+": "-", "-": "+", " ": " "}
    return [_Line(turn[line.sign], line.data) for line in body]


def _find(lines: list[bytes], body: list[_Line], expected: int, floor: int) -> tuple[int, int, list[_Line]] | None:
    """Where the hunk belongs, how many lines were taken off its head, and what is left of it."""
    before, after = _context(body), _context(body[::-1])
    for fuzz in range(FUZZ + 1):
        # trimmed only where a whole context is there to spare: a hunk at the end of a file must stay at the end
        head = min(fuzz, before) if before else 0
        tail = min(fuzz, after) if after else 0
        if fuzz and (head, tail) == (min(fuzz - 1, before), min(fuzz - 1, after)):
            continue
        part = body[head : len(body) - tail]
        old = [line.data for line in part if line.sign != "+"]
        if not old and body and len(lines) and (before or after):
            return None  # nothing left to recognise the place by
        at = _offset(lines, old, expected + head, floor)
        if at is not None:
            return at, head, part
    return None


def _context(body: list[_Line]) -> int:
    count = next((i for i, line in enumerate(body) if line.sign != " "), len(body))
    return min(count, CONTEXT)


def _offset(lines: list[bytes], old: list[bytes], expected: int, floor: int) -> int | None:
    """The place nearest to `expected`, not before `floor`, where the file has the lines `old`."""
    last = len(lines) - len(old)
    if not old:  # a hunk of insertions without context is for an empty file, or was trimmed to its bare lines
        return min(max(expected, floor), len(lines))
    for distance in range(max(expected, last - expected, 0) + 1):
        for at in (expected + distance, expected - distance):
            if floor <= at <= last and lines[at : at + len(old)] == old:
                return at
    return None
