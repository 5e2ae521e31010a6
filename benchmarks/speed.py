"""What `tapefix check` costs on a tree of Python files, against two baselines of the same run.

    python benchmarks/speed.py FOLDER... [--jobs N]

FOLDER: unpacked packages, for example made by `pip download --no-deps --no-binary :all: NAME` and unpacked.
Printed are seconds and ratios: against reading every file and parsing those that mention TensorFlow or Keras, with as
many processes, and against `ruff check --no-cache --select F`; and the largest memory of one process.
Runs once each, in the order parse, check, parse, check, so that the second pair has the file cache warm.
"""

from __future__ import annotations

import argparse
import ast
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

MENTIONS = re.compile(rb"\b(?:tensorflow|keras)\b")
CHUNK = 32  # files a process takes at a time


def parse(path: Path) -> int:
    """Reads a file, and parses it where it mentions TensorFlow or Keras; the number of bytes parsed."""
    data = path.read_bytes()
    if not MENTIONS.search(data):
        return 0
    try:
        ast.parse(data)
    except (SyntaxError, ValueError):
        return 0
    return len(data)


def time_parsing(files: list[Path], jobs: int) -> tuple[float, int]:
    start = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        parsed = sum(pool.map(parse, files, chunksize=CHUNK))
    return time.perf_counter() - start, parsed


def time_command(command: list[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command[:4])} failed with status {done.returncode}: {done.stderr.strip()[-300:]}")
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    files = sorted(path for folder in options.folders for path in folder.rglob("*.py"))
    if not files:
        sys.exit("no Python file there")
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    folders = [str(folder) for folder in options.folders]
    check = [sys.executable, "-m", "tapefix", "check", "--no-cache", "--exit-zero", "-j", str(options.jobs), *folders]
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--exit-zero", "--select", "F", *folders]
    print(f"{len(files)} files, {lines} lines, {options.jobs} processes")
    for name in ("first", "again"):
        parsing, parsed = time_parsing(files, options.jobs)
        checking = time_command(check)
        print(
            f"{name}: parse {parsing:.1f} s ({parsed / 1e6:.1f} MB parsed), check {checking:.1f} s,"
            f" ratio {checking / parsing:.2f}"
        )
    linting = time_command(ruff)
    print(f"ruff {linting:.1f} s, ratio {checking / linting:.1f}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"largest process {peak / 1024:.0f} MB")


if __name__ == "__main__":
    main()
