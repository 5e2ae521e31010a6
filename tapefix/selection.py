"""Which rules speak, and where: `--select`, `--ignore` and the settings of a project."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tapefix.codemod import Finding
from tapefix.config import Config
from tapefix.documents.discovery import is_excluded
from tapefix.errors import TapefixError, nearest


@dataclass(frozen=True)
class Selection:
    """Rules by code or the beginning of one (`TAP1`); the longest beginning that fits decides, as in Ruff."""

    config: Config

    def wants(self, code: str) -> bool:
        """Whether the rule is on at all."""
        chosen = self.config.select + self.config.extend_select if self.config.select else ("",)
        return _longest(code, chosen) > _longest(code, self.config.ignore)

    def reports(self, finding: Finding, asked: str) -> bool:
        """Whether the rule is on where the finding is; `asked` is the file that was looked at for it."""
        filename, root = finding.place.filename, self.config.root
        if filename != asked and is_excluded(filename, self.config.exclude, root):
            return False
        return self.wants(finding.code) and not any(
            finding.code.startswith(codes) and is_excluded(filename, [pattern], root)
            for pattern, codes in self.config.per_file_ignores
        )

    def check_codes(self, known: Iterable[str]) -> None:
        """Raises TapefixError for a code that no rule's code begins with."""
        known = tuple(known)
        config = self.config
        given = [*config.select, *config.extend_select, *config.ignore]
        given += [code for _, codes in config.per_file_ignores for code in codes]
        for code in given:
            if not code or not any(one.startswith(code) for one in known):
                raise TapefixError(f"unknown rule code {code!r}{nearest(code, known)}; `tapefix rule` lists them all")


def _longest(code: str, beginnings: Iterable[str]) -> int:
    """The length of the longest beginning that fits, -1 where none does."""
    return max((len(one) for one in beginnings if code.startswith(one)), default=-1)
