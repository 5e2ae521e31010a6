"""What tests of rules share: the installed rules on a program that is given as text."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys

from tapefix.codemod import Finding
from tapefix.config import Config
from tapefix.documents.workspace import Workspace
from tapefix.engine import Checked, Fixed, Proposal, check_document, fix_documents, is_safe
from tapefix.reading import Tools
from tapefix.runner import load_tools

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
NAME = str(pathlib.Path("program.py").absolute())


@functools.cache
def tools(unsafe: bool = False) -> Tools:
    return load_tools(dataclasses.replace(Config(), unsafe_fixes=unsafe))


def _workspace(text: str) -> Workspace:
    return Workspace(lambda filename: text.encode() if filename == NAME else None)


def _everything(_: Proposal) -> bool:
    return True


def applied(text: str, unsafe: bool = False) -> Fixed:
    """What `apply` makes of a program, with `--unsafe-fixes` or without."""
    return fix_documents(_workspace(text), [NAME], tools(unsafe), _everything if unsafe else is_safe)


def after(text: str, unsafe: bool = False) -> str:
    """The program after `apply`."""
    return applied(text, unsafe).workspace.open(NAME).text


def findings(text: str, unsafe: bool = False) -> tuple[Finding, ...]:
    """What `check` says of a program."""
    result = check_document(_workspace(text), NAME, tools(unsafe))
    assert isinstance(result, Checked), result
    assert not result.crashes
    return result.findings


def golden(*codes: str) -> list[pathlib.Path]:
    """The fixtures of some rules that tell to the letter what `apply` makes of them."""
    return sorted(path.parent for code in codes for path in FIXTURES.glob(f"{code}/*/after.py"))


def wants_judgement(case: pathlib.Path) -> bool:
    return bool(tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))["fix"] != "safe")
