"""Writes a unified diff that `git apply` and `patch -p1` take, whatever bytes the files hold.

Lines end at a line feed and nowhere else: to git a form feed, a lone carriage return and U+2028 are bytes of a line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from tapefix.patches.names import quote

CONTEXT = 3
NO_NEWLINE = b"\n\\ No newline at end of file\n"

Opcode = tuple[str, int, int, int, int]


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file, each with its line feed; the last may have none."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def unified_diff(name: str, before: bytes, after: bytes) -> bytes:
    """The diff of one file, `name` relative with forward slashes; empty where nothing changed.

    Without a `diff --git` line: git would take the names below it as relative to the repository's root.
    """
    if before == after:
        return b""
    old, new = lines_of(before), lines_of(after)
    old_name, new_name = quote(f"a/{name}"), quote(f"b/{name}")
    tab = b"\t" if " " in name else b""  # where a name ends, as git marks it
    pieces = [
        b"--- %s%s\n" % (old_name, tab),
        b"+++ %s%s\n" % (new_name, tab),
    ]
    for group in _grouped(old, new):
        pieces += _hunk(group, old, new)
    return b"".join(pieces)


def opcodes(old: Sequence[bytes] | Sequence[str], new: Sequence[bytes] | Sequence[str]) -> list[Opcode]:
    """difflib's opcodes, with what both ends share set aside first: difflib is quadratic in repeated lines."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle = difflib.SequenceMatcher(
        None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False
    ).get_opcodes()
    codes: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    codes += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in middle]
    if tail:
        codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return codes


def _grouped(old: list[bytes], new: list[bytes]) -> Iterator[list[Opcode]]:
    """The opcodes by hunk, each with up to CONTEXT lines around it."""
    group: list[Opcode] = []
    codes = opcodes(old, new)
    for index, (tag, a, b, c, d) in enumerate(codes):
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        first, last = index == 0, index == len(codes) - 1
        if first:
            keep = min(b - a, CONTEXT)
            group = [("equal", b - keep, b, d - keep, d)]
        elif last or b - a > 2 * CONTEXT:
            keep = min(b - a, CONTEXT)
            yield [*group, ("equal", a, a + keep, c, c + keep)]
            group = [("equal", b - keep, b, d - keep, d)]
            if last:
                return
        else:
            group.append((tag, a, b, c, d))
    yield group


def _hunk(group: list[Opcode], old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    a, b, c, d = group[0][1], group[-1][2], group[0][3], group[-1][4]
    yield b"@@ -%s +%s @@\n" % (_range(a, b), _range(c, d))
    for tag, a, b, c, d in group:
        if tag == "equal":
            yield from (_line(b" ", line) for line in old[a:b])
            continue
        yield from (_line(b"-", line) for line in old[a:b])
        yield from (_line(b"+", line) for line in new[c:d])


def _range(start: int, stop: int) -> bytes:
    length = stop - start
    first = start + 1 if length else start
    return b"%d" % first if length == 1 else b"%d,%d" % (first, length)


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + NO_NEWLINE
