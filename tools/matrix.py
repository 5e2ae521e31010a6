"""Verifies fixture programs on every TensorFlow that this machine can have.

    python tools/matrix.py [--rows 2.3,2.21] [--rules TAP1,TAP502] [--per-rule 1]
                           [--use NAME=PYTHON ...] [--envs DIR] [--json FILE]

For each row a Python of the right version is looked for (PATH, pyenv, uv), and TensorFlow is installed into a virtual
environment of the row's own below --envs (kept for the next time); --use names an interpreter that has it already.
A row whose Python or packages cannot be had is said and left out; it is no failure.

In each row, of every rule the first --per-rule fixture cases are verified: before.py must be found broken, with a
cause at one of its lines, and fixed.py whole. A case that does not run there by itself (an API that is newer, or
gone) is left out and counted. The exit status is 1 if a case failed, 2 if no row could be run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tapefix.cli.verify import options_of
from tapefix.config import load_config
from tapefix.errors import TapefixError
from tapefix.runner import load_tools
from tapefix.verify import Limits, Report, Runner, Verdict, VerifyOptions, verify
from tapefix.verify.interpreter import choose

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"


@dataclass(frozen=True)
class Row:
    """One TensorFlow on one Python: what to install, and what its processes need in their environment."""

    name: str
    python: str
    packages: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)


ROWS = (
    Row("2.3", "3.8", ("tensorflow==2.3.0", "protobuf<3.21", "scipy")),
    Row("2.8", "3.10", ("tensorflow==2.8.*", "protobuf<3.20", "numpy<2", "scipy")),
    Row("2.15", "3.11", ("tensorflow==2.15.*", "scipy")),
    Row("2.21", "3.11", ("tensorflow==2.21.*", "scipy")),
    Row("2.21-py313", "3.13", ("tensorflow==2.21.*", "scipy")),
    Row("tf-keras", "3.13", ("tensorflow==2.21.*", "tf-keras==2.21.*", "scipy"), {"TF_USE_LEGACY_KERAS": "1"}),
)


#: a program that an older library stops before its gradient is asked for shows nothing about verification
_NO_CALL = "before.py ends before any gradient call"


@dataclass
class Result:
    """What one row came to: names of cases, and for each failure what was seen."""

    row: str
    tensorflow: str = ""
    keras: str = ""
    passed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    missing: str = ""


def find_python(version: str) -> str | None:
    """A Python of this version (3.8): on PATH, under pyenv, or one that uv knows."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    tried = [*sorted(map(str, versions.glob(f"{version}.*/bin/python")), reverse=True)]
    tried += [found for found in [shutil.which(f"python{version}")] if found]
    if shutil.which("uv"):
        said = subprocess.run(["uv", "python", "find", version], capture_output=True, text=True, check=False)
        tried += said.stdout.split()
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in tried:
        said = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if said.stdout.strip() == version:
            return path
    return None


def environment(row: Row, folder: Path) -> str:
    """The interpreter of the row's virtual environment, made if need be. Raises TapefixError with the reason if not."""
    home = folder / f"tf-{row.name}-py{row.python}"
    python = str(home / "bin" / "python")
    if (home / "complete").exists():
        return python
    base = find_python(row.python)
    if base is None:
        raise TapefixError(f"no Python {row.python} on this machine")
    for command in (
        [base, "-m", "venv", "--clear", str(home)],
        [python, "-m", "pip", "install", "--quiet", *row.packages],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise TapefixError(f"{' '.join(row.packages)} cannot be installed: {last}")
    (home / "complete").touch()
    return python


def cases(rules: tuple[str, ...], per_rule: int) -> Iterator[tuple[str, Path, list[int]]]:
    """(name, folder, lines of the cut), so many of each rule whose code begins with one of `rules`."""
    for rule in (found for found in sorted(FIXTURES.glob("TAP*")) if found.name.startswith(rules)):
        for meta in sorted(rule.glob("*/case.toml"))[:per_rule]:
            facts = tomllib.loads(meta.read_text(encoding="utf-8"))
            yield f"{rule.name}/{meta.parent.name}", meta.parent, facts["lines"]


def run_row(row: Row, python: str, chosen_cases: Sequence[tuple[str, Path, list[int]]], seconds: float) -> Result:
    environ = {**os.environ, **row.environ}
    options = as_a_user_has(python, environ, seconds)
    chosen = choose(python, "", Path.cwd(), environ)
    result = Result(row.name, chosen.tensorflow, chosen.keras)
    with Runner(chosen, options) as runner:
        for name, folder, lines in chosen_cases:
            wrong = _wrong(runner, options, folder, lines)
            if not wrong:
                result.passed.append(name)
            elif wrong.startswith(_NO_CALL):
                result.left_out.append(name)
            elif _runs(python, _for(runner, (folder / "fixed.py").read_text(encoding="utf-8")), environ, seconds):
                result.failed[name] = wrong
            else:
                result.left_out.append(name)
            print(f"{row.name:12} {name:50} {wrong or 'ok'}", file=sys.stderr, flush=True)
    return result


def as_a_user_has(python: str, environ: Mapping[str, str], seconds: float) -> VerifyOptions:
    """The options of `tapefix verify`: what `check` finds takes part."""
    with tempfile.TemporaryDirectory() as empty:  # this project's own settings are not the fixtures'
        config = load_config(Path(empty))
    options = options_of(config, load_tools(config))
    return dataclasses.replace(options, python=python, environ=environ, limits=Limits(wall=seconds))


def _wrong(runner: Runner, options: VerifyOptions, folder: Path, lines: Sequence[int]) -> str:
    """What is wrong with what verification says of a case; "" if nothing is."""
    with tempfile.TemporaryDirectory() as scratch:
        reports: list[Report] = []
        for name in ("fixed.py", "before.py"):
            path = Path(scratch).resolve() / name
            path.write_text(_for(runner, (folder / name).read_text(encoding="utf-8")), encoding="utf-8")
            runner.options = dataclasses.replace(options, cwd=path.parent)
            reports.append(verify(path, runner.options, runner))
            if name == "fixed.py" and reports[0].exit_status != 0:
                return f"fixed.py: {_seen(reports[0])}"
        before = reports[1]
    if before.verdict is Verdict.ERROR and not before.gradients:
        return f"{_NO_CALL}: {_seen(before)}"
    if before.exit_status != 1:
        return f"before.py: {_seen(before)}"
    named = {cause.line for cause in before.causes}
    near = any(abs(line - wanted) <= 1 for line in named for wanted in lines)
    return "" if near else f"before.py: {_seen(before)}, wanted {lines}"


def _for(runner: Runner, text: str) -> str:
    """The program with the one call that TensorFlow has since 2.7 only replaced by the older one, line for line."""
    version = tuple(int(part) for part in runner.interpreter.tensorflow.split(".")[:2] if part.isdigit())
    new = re.compile(r"\b(?:tf\.)?keras\.utils\.set_random_seed\(")
    return new.sub('__import__("tensorflow").random.set_seed(', text) if version < (2, 7) else text


def _seen(report: Report) -> str:
    error = f", {report.error.type}: {report.error.message[:120]}" if report.error else ""
    return f"{report.verdict.value}, causes at {sorted({c.line for c in report.causes})}{error}"


def _runs(python: str, text: str, environ: Mapping[str, str], seconds: float) -> bool:
    """Whether the program runs there without tapefix."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [python, str(path)], cwd=folder, env=dict(environ), capture_output=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(row.name for row in ROWS), help="comma-separated row names")
    parser.add_argument("--rules", default="TAP", help="comma-separated codes or their beginnings")
    parser.add_argument("--per-rule", type=int, default=1)
    parser.add_argument("--use", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--envs", type=Path, default=Path(".matrix"), help="where the virtual environments are kept")
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    ready = dict(item.split("=", 1) for item in given.use)
    chosen_cases = list(cases(tuple(given.rules.split(",")), given.per_rule))
    results = []
    for row in (row for row in ROWS if row.name in given.rows.split(",")):
        try:
            python = ready.get(row.name) or environment(row, given.envs)
            results.append(run_row(row, python, chosen_cases, given.timeout))
        except TapefixError as error:
            results.append(Result(row.name, missing=str(error)))
    print(f"{'row':12} {'TensorFlow':10} {'Keras':8} passed failed left out")
    for r in results:
        if r.missing:
            print(f"{r.row:12} not run: {r.missing}")
            continue
        print(f"{r.row:12} {r.tensorflow:10} {r.keras:8} {len(r.passed):6} {len(r.failed):6} {len(r.left_out):8}")
        for name, wrong in r.failed.items():
            print(f"    {name}: {wrong}")
    if given.json:
        given.json.write_text(json.dumps([dataclasses.asdict(r) for r in results], indent=2) + "\n", encoding="utf-8")
    ran = [r for r in results if not r.missing]
    return 1 if any(r.failed for r in ran) else 0 if ran else 2


if __name__ == "__main__":
    sys.exit(main())
