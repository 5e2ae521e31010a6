"""Files as the tool sees them: bytes in, the same bytes out except the edits."""
