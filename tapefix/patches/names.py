"""File names in a diff's headers, quoted as git quotes them (core.quotePath)."""

from __future__ import annotations

import os
import re

_ESCAPES = {0x07: "a", 0x08: "b", 0x09: "t", 0x0A: "n", 0x0B: "v", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}
_UNESCAPES = {letter: byte for byte, letter in _ESCAPES.items()}


def quote(name: str) -> bytes:
    """`name` as git prints it: as it is, or in double quotes with octal escapes for what is not plain ASCII."""
    raw = os.fsencode(name)
    if all(0x20 <= byte < 0x7F and byte not in _ESCAPES for byte in raw):
        return raw
    return b'"' + b"".join(_quoted(byte) for byte in raw) + b'"'


def _quoted(byte: int) -> bytes:
    if byte in _ESCAPES:
        return b"\\" + _ESCAPES[byte].encode()
    return bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte


def unquote(name: str) -> str:
    """The file name behind a header's text, whose bytes were decoded as Latin-1."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return os.fsdecode(name.encode("latin-1"))
    plain = re.sub(r"\\([0-7]{3}|.)", _unescaped, name[1:-1])
    return os.fsdecode(plain.encode("latin-1"))


def _unescaped(match: re.Match[str]) -> str:
    text = match.group(1)
    return chr(int(text, 8) & 0xFF) if len(text) == 3 else chr(_UNESCAPES.get(text, ord(text)))
