"""What every repair here ends with: the edits as a fix, imports in order."""

from __future__ import annotations

import ast

from tapefix.codemod import Applicability, Fix, Refusal
from tapefix.documents.document import Document
from tapefix.rewrite import imports
from tapefix.rewrite.edits import EditConflict, EditSet


def finished(edits: EditSet, message: str, alternatives: tuple[str, ...] = (), safe: bool = True) -> Fix:
    """The edits as a fix, without the imports that they leave unused."""
    imports.remove_unused(edits)
    return Fix(Applicability.SAFE if safe else Applicability.UNSAFE, message, edits.edits(), alternatives)


def replaced(document: Document, node: ast.expr, template: str, message: str, **parts: str | ast.AST) -> Fix | Refusal:
    """One expression for another."""
    edits = EditSet(document)
    try:
        put(edits, node, template, **parts)
        return finished(edits, message)
    except EditConflict as conflict:
        return Refusal(str(conflict))


def put(edits: EditSet, node: ast.expr, template: str, **parts: str | ast.AST) -> None:
    """The template in the node's place, TensorFlow said as the document says it. Raises EditConflict."""
    edits.rewrite(node, imports.with_local_names(edits, template, node), **parts)
