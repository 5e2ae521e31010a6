"""Unified diffs out and in, and files written whole or not at all."""

from tapefix.patches.diff import unified_diff
from tapefix.patches.reader import Patched, Reject, apply_patch
from tapefix.patches.writing import write_files

__all__ = ["Patched", "Reject", "apply_patch", "unified_diff", "write_files"]
