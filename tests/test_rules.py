"""Every rule is complete: its page, its name, its code, and what it speaks for."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tapefix.codemod import Codemod
from tapefix.flow import How
from tapefix.registry import load_codemods

RULES = load_codemods()
FIXTURES = Path(__file__).parent / "fixtures"


def page(rule: Codemod) -> str:
    return sys.modules[type(rule).__module__].__doc__ or ""


def block(text: str, title: str) -> str:
    """The indented code below a heading."""
    found = re.search(rf"^{title}\n-+\n((?:    .*\n|\n)+)", text, re.M)
    assert found, f"no section {title!r}"
    return "\n".join(line[4:] for line in found[1].splitlines())


def test_codes_and_names_are_unique() -> None:
    assert max(Counter(rule.code for rule in RULES).values()) == 1
    assert max(Counter(rule.name for rule in RULES).values()) == 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_rule_has_its_page(rule: Codemod) -> None:
    text = page(rule)
    assert re.fullmatch(r"TAP\d{3}", rule.code)
    assert type(rule).__module__.rsplit(".", 1)[-1] == rule.name.replace("-", "_")
    assert rule.why
    before, after = block(text, "Before"), block(text, "After")
    assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(after))
    assert re.search(r"^Fix\n-+\n\S", text, re.M), "when the fix is unsafe is not said"
    assert re.search(r"^See https://\S+$", text, re.M)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_rule_has_fixtures(rule: Codemod) -> None:
    assert list(FIXTURES.glob(f"{rule.code}/*/case.toml"))


def test_every_manner_of_losing_a_gradient_has_a_rule() -> None:
    spoken = {how for rule in RULES for how in rule.speaks_for}
    assert set(How) - spoken <= {How.UNTRACKED}
