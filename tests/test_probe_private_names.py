"""A new TensorFlow that lacks one of the private names which the probe uses must fail here, by name."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import subprocess

import pytest

from program_runner import interpreter

SCRIPT = pathlib.Path(__file__).parent / "probe_programs" / "private_names.py"
NAMES = re.findall(r"^def (\w+)\(tf\)", SCRIPT.read_text(), re.MULTILINE)
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(interpreter() is None, reason="no interpreter with TensorFlow"),
]


@functools.cache
def found():
    done = subprocess.run([interpreter() or "", str(SCRIPT)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_private_name_does_what_the_probe_needs(name):
    assert found()[name] is True
