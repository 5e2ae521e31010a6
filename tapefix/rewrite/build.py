"""New code from templates, built with LibCST.

A template is Python with `{name}` where a part goes; a part is source text. `{*name}` splices a
comma-separated list of arguments or elements, which may be empty. `{{` and `}}` are plain braces.
Parts are put in parentheses exactly where leaving them out would change the meaning.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import textwrap
import tokenize
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\*?)([A-Za-z_]\w*)\}")
_BLOCK_LINE = re.compile(r"^([ \t]*)\{([A-Za-z_]\w*)\}[ \t]*$", re.MULTILINE)
_MARK = "__tapefix_part_{}_{}__"
_MARKED = re.compile(r"__tapefix_part_(one|many)_(\w+?)__$")


class BadTemplate(ValueError):
    """A template or a part does not parse; the message shows which."""


def expression(template: str, /, **parts: str) -> str:
    """The expression that the template gives with its parts, as source text.

    `expression("{a} * tf.stack({items}, axis=1)", a="x + 1", items="[u, v]")` is
    `(x + 1) * tf.stack([u, v], axis=1)`. Parts may span lines and hold comments; then what is
    returned is still one expression that can stand anywhere.
    Raises BadTemplate where the template or a part is not an expression, KeyError where a part is missing.
    """
    import libcst as cst

    try:
        tree: cst.CSTNode = cst.parse_expression(_mark(template, parts))
    except cst.ParserSyntaxError as error:
        raise BadTemplate(f"not an expression: {template!r}") from error
    frame = cst.Module([], default_newline=_newline_of(parts))
    text = _fill(tree, parts, frame.code_for_node, lambda code: ast.parse(code, mode="eval"))
    return text if _parses(text, "eval") else parenthesised(text)


def statements(template: str, /, indent: str = "", newline: str = "\n", *, unit: str = "", **parts: str) -> str:
    """Statements from a template, every line indented by `indent` and ended by `newline`.

    `unit` is one level of the document's indentation (default: a tab where `indent` has tabs, else four spaces).
    A part alone on its line is a block of statements, given as from column 0 (see `reindent`), or an expression;
    an empty block vanishes. Lines inside string literals are left alone.
    Raises BadTemplate where template and parts do not parse, KeyError where a part is missing.
    """
    import libcst as cst

    source = textwrap.dedent(template).strip("\n") + "\n"
    source = _BLOCK_LINE.sub(lambda match: _block(match, parts), source)
    source = re.sub(r"\A\n+", "", source)
    unit = unit or ("\t" if "\t" in indent else "    ")
    own_lines = {name: _dedent_continuation(text, indent) for name, text in parts.items()}
    try:
        module = cst.parse_module(_mark(source, own_lines))
    except cst.ParserSyntaxError as error:
        raise BadTemplate(f"not statements: {source!r}: {error.message}") from error
    # the native parser takes the template's own four spaces for the default; re-render with the document's
    frame = module.with_changes(default_indent=unit, default_newline="\n")

    def render(tree: cst.CSTNode) -> str:
        return frame.with_changes(body=tree.body, header=tree.header, footer=tree.footer).code  # type: ignore[attr-defined]

    text = _fill(module, own_lines, render, ast.parse)
    if not _parses(text, "exec"):
        raise BadTemplate(f"not statements: {text!r}")
    return reindent(text if text.endswith("\n") else text + "\n", "", indent, newline)


def reindent(text: str, old: str, new: str, newline: str = "\n") -> str:
    """Statements moved from the indentation `old` to `new`; the first line may come without its indentation.

    Continuation lines move along where they are indented by `old`; lines inside string literals stay.
    Blank lines carry no white space. Line ends become `newline` (not inside string literals).
    """
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    inside = _rows_inside_strings(text, old)
    result = []
    for row, line in enumerate(lines):
        body = line.rstrip("\r\n")
        ended = line != body
        if row in inside:
            result.append(line if row + 1 in inside or not ended else body + newline)
            continue
        body = body[len(old) :] if old and body.startswith(old) else body
        body = new + body if body.strip() else ""
        string_goes_on = row + 1 in inside
        result.append(body + (line[len(line.rstrip("\r\n")) :] if string_goes_on else newline if ended else ""))
    return "".join(result)


def parenthesised(text: str) -> str:
    """The expression in parentheses, on a line of its own end where a comment would swallow them."""
    return f"({text}\n)" if _ends_in_comment(text) else f"({text})"


def _mark(template: str, parts: dict[str, str]) -> str:
    """The template with a unique name in each placeholder's stead."""

    def stand_in(match: re.Match[str]) -> str:
        if match.group() in ("{{", "}}"):
            return match.group()[0]
        star, name = match.groups()
        if name not in parts:
            raise KeyError(f"no part {name!r} for the template {template!r}")
        return _MARK.format("many" if star else "one", name)

    return _PLACEHOLDER.sub(stand_in, template)


def _fill(
    tree: cst.CSTNode, parts: dict[str, str], render: Callable[[Any], str], parse: Callable[[str], ast.AST]
) -> str:
    """The tree's code with each placeholder filled, in parentheses only where the meaning asks for them."""
    safe = frozenset(name for name, text in parts.items() if not _is_atom(text))
    wrapped = render(_replaced(tree, parts, safe))
    try:
        meaning = ast.dump(parse(wrapped))
    except SyntaxError as error:
        raise BadTemplate(f"does not parse: {wrapped!r}") from error
    bare = set(safe)
    for name in sorted(safe):
        text = render(_replaced(tree, parts, frozenset(bare - {name})))
        try:
            same = ast.dump(parse(text)) == meaning
        except SyntaxError:
            same = False
        if same:
            bare.discard(name)
    return render(_replaced(tree, parts, frozenset(bare)))


def _replaced(tree: cst.CSTNode, parts: dict[str, str], wrapped: frozenset[str]) -> cst.CSTNode:
    """The tree with its placeholders replaced, those named in `wrapped` in parentheses."""
    import libcst as cst

    def single(name: str) -> cst.BaseExpression:
        node: cst.BaseExpression = _part(parts[name])
        if name in wrapped:
            return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])
        return node

    class Filler(cst.CSTTransformer):
        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
            match = _MARKED.match(original_node.value)
            return single(match[2]) if match and match[1] == "one" else updated_node

        def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> Any:
            name = _spliced(original_node.value)
            return _joined(_arguments(parts[name]), updated_node) if name else updated_node

        def leave_Element(self, original_node: cst.Element, updated_node: cst.Element) -> Any:
            name = _spliced(original_node.value)
            return _joined(_elements(parts[name]), updated_node) if name else updated_node

    filled = tree.visit(Filler())
    assert isinstance(filled, cst.CSTNode)
    return filled


def _spliced(value: cst.BaseExpression) -> str:
    match = _MARKED.match(getattr(value, "value", "") if type(value).__name__ == "Name" else "")
    return match[2] if match and match[1] == "many" else ""


def _joined(nodes: Sequence[Any], last: Any) -> Any:
    """The nodes in the stead of `last`, taking over its comma."""
    import libcst as cst

    if not nodes:
        return cst.RemoveFromParent()
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    between = [node if isinstance(node.comma, cst.Comma) else node.with_changes(comma=comma) for node in nodes[:-1]]
    return cst.FlattenSentinel([*between, nodes[-1].with_changes(comma=last.comma)])


def _part(text: str) -> Any:
    """A part as an expression node. It may span lines, as it does between brackets."""
    import libcst as cst

    if text.isidentifier():
        return cst.Name(text)
    try:
        node: Any = cst.parse_expression(text.strip())
        return node
    except cst.ParserSyntaxError:
        pass
    try:
        node = cst.parse_expression(parenthesised(text))
    except cst.ParserSyntaxError as error:
        raise BadTemplate(f"not an expression: {text!r}") from error
    if _ends_in_comment(text):
        return node
    return node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1])


def _arguments(text: str) -> Sequence[Any]:
    import libcst as cst

    try:
        call = cst.parse_expression("_" + parenthesised(text))
    except cst.ParserSyntaxError as error:
        raise BadTemplate(f"not arguments: {text!r}") from error
    assert isinstance(call, cst.Call)
    return call.args


def _elements(text: str) -> Sequence[Any]:
    import libcst as cst

    try:
        display = cst.parse_expression(f"[{parenthesised(text)[1:-1]}]")
    except cst.ParserSyntaxError as error:
        raise BadTemplate(f"not elements: {text!r}") from error
    if not isinstance(display, cst.List):
        raise BadTemplate(f"not elements: {text!r}")
    return display.elements


def _is_atom(text: str) -> bool:
    """Whether the text can stand anywhere without parentheses: a name, or something that closes its own brackets."""
    if text.isidentifier():
        return True
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    if isinstance(node, ast.Tuple):
        return text.strip().startswith("(") and _parses(f"{text.strip()}.a", "eval") and _is_tuple_attribute(text)
    return isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.List, ast.Dict, ast.Set, ast.ListComp))


def _is_tuple_attribute(text: str) -> bool:
    """Whether the brackets of the text are those of the whole tuple: `(a, b)`, not `(a), (b)`."""
    return isinstance(ast.parse(f"{text.strip()}.a", mode="eval").body, ast.Attribute)


def _parses(text: str, mode: str) -> bool:
    try:
        ast.parse(text, mode=mode)
    except (SyntaxError, ValueError):
        return False
    return True


def _newline_of(parts: dict[str, str]) -> str:
    return "\r\n" if any("\r\n" in text for text in parts.values()) else "\n"


def _block(match: re.Match[str], parts: dict[str, str]) -> str:
    """A part alone on its line: its statements at that indentation; left to the expression filler where it is none."""
    indent, name = match.groups()
    if name not in parts:
        raise KeyError(f"no part {name!r} for the template")
    text = parts[name].strip("\r\n")
    if not text.strip():
        return ""
    if not _parses(text + "\n", "exec"):
        return match.group()
    return reindent(text, "", indent).rstrip("\n")


def _dedent_continuation(text: str, indent: str) -> str:
    """A part whose further lines are relative to `indent`, as they come from a document's line at that depth."""
    if "\n" not in text or not indent:
        return text
    inside = _rows_inside_strings(f"({text}\n)", "")
    lines = text.split("\n")
    return "\n".join(
        line[len(indent) :] if row and row not in inside and line.startswith(indent) else line
        for row, line in enumerate(lines)
    )


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    tokens: list[tokenize.TokenInfo] = []
    with contextlib.suppress(tokenize.TokenError, IndentationError, SyntaxError):
        tokens.extend(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
    return tokens


def _rows_inside_strings(text: str, old: str) -> set[int]:
    """The rows (from 0) that begin inside a string literal."""
    if '"""' not in text and "'''" not in text and "\\" not in text:
        return set()
    lines = text.split("\n")
    lines[0] = lines[0].lstrip(" \t")
    framed = "if 1:\n" + (old or " ") + "\n".join(lines) + "\n" if old else text
    shift = 1 if old else 0
    rows: set[int] = set()
    opened: list[int] = []
    for token in _tokens(framed):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            rows.update(range(token.start[0] - shift, token.end[0] - shift))
        elif kind in ("FSTRING_START", "TSTRING_START"):
            opened.append(token.start[0])
        elif kind in ("FSTRING_END", "TSTRING_END") and opened:
            rows.update(range(opened.pop() - shift, token.end[0] - shift))
    return rows


def _ends_in_comment(text: str) -> bool:
    """Whether a bracket put behind the text would be part of a comment."""
    last = text.rsplit("\n", 1)[-1]
    if "#" not in last:
        return False
    comments = [token for token in _tokens(f"({text}\n)") if token.type == tokenize.COMMENT]
    return bool(comments) and comments[-1].start[0] == text.count("\n") + 1
