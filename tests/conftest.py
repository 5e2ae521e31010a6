import io
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tapefix.cli import main

sys.path.insert(0, str(Path(__file__).parent))  # what tests share: toy.py


@pytest.fixture
def toy_plugin(tmp_path_factory, monkeypatch):
    """Installs the rules of toy.py as any plug-in is: by an entry point."""
    site = tmp_path_factory.mktemp("site")
    info = site / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tapefix.codemods]\ntoy = toy\n")
    monkeypatch.syspath_prepend(site)
    return site


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str
    raw: bytes


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


@pytest.fixture
def tapefix(tmp_path, monkeypatch, capfdbinary):
    """Runs the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        captured = capfdbinary.readouterr()
        status = ended.value.code
        return Ran(status if isinstance(status, int) else 0, _text(captured.out), _text(captured.err), captured.out)

    return run
