"""The wheel: holds what it must and nothing else, works in an empty environment, and says so when it is broken."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CUT = """\
import tensorflow as tf

w = tf.Variable(tf.ones(3))
with tf.GradientTape() as tape:
    out = tf.Variable(tf.zeros((2, 3)))
    for i in range(2):
        out[i].assign(w * float(i))
    loss = tf.reduce_sum(out)
print(tape.gradient(loss, w))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with nothing but the wheel and, from this environment, what it depends on."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True)
    dependencies = Path(next(path for path in sys.path if path.endswith("site-packages")))
    editable = {"tapefix", "tapefix_codemods"}
    for entry in dependencies.iterdir():  # linked one by one: a .pth file would run the editable install's hook too
        if entry.name.split("-")[0].strip("_") not in editable and entry.suffix != ".pth":
            target = Path(site, entry.name)
            if not target.exists():
                target.symlink_to(entry)
    return folder


def run(environment, *arguments, cwd):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [environment / "bin" / "tapefix", *arguments]
    return subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_wheel_holds_the_tool_and_its_rules_and_nothing_of_the_same_name_as_yours(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tapefix", "tapefix_codemods"}
    assert "tapefix/report/schemas/check.json" in names
    assert "tapefix/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    rules = {f"tapefix_codemods/{path.name}" for path in (ROOT / "codemods" / "tapefix_codemods").glob("*.py")}
    assert rules <= set(names)


@pytest.mark.slow
def test_an_installed_wheel_checks_and_repairs(installed, tmp_path):
    (tmp_path / "train.py").write_text(CUT)
    (tmp_path / "codemods").mkdir()  # the user's own folder of that name shadows nothing
    (tmp_path / "codemods" / "__init__.py").write_text("raise ImportError\n")
    checked = run(installed, "check", "train.py", cwd=tmp_path)
    assert checked.returncode == 1, checked.stderr
    assert checked.stdout.startswith("train.py:7:")
    assert "TAP101" in checked.stdout
    applied = run(installed, "apply", "train.py", cwd=tmp_path)
    assert applied.returncode == 0, applied.stderr
    assert "TAP101 fixed" in applied.stdout
    assert ".assign(" not in (tmp_path / "train.py").read_text()
    assert run(installed, "check", "train.py", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_without_its_codemods_an_installation_is_broken_not_content(installed, tmp_path):
    (site,) = (installed / "lib").glob("python*/site-packages")
    (info,) = site.glob("tapefix-*.dist-info")
    points = info / "entry_points.txt"
    text = points.read_text()
    (tmp_path / "train.py").write_text(CUT)
    try:
        points.write_text(text.partition("[tapefix.codemods]")[0])
        broken = run(installed, "check", "train.py", cwd=tmp_path)
    finally:
        points.write_text(text)
    assert broken.returncode == 2
    assert broken.stdout == ""
    assert broken.stderr.startswith("tapefix: no codemod found")


@pytest.mark.slow
def test_a_codemod_that_cannot_be_imported_is_named(installed, tmp_path):
    (site,) = (installed / "lib").glob("python*/site-packages")
    bad = site / "tapefix_codemods" / "zz_bad.py"
    bad.write_text("import no_such_module\n")
    try:
        broken = run(installed, "check", ".", cwd=tmp_path)
    finally:
        bad.unlink()
    assert broken.returncode == 2
    assert "tapefix_codemods.zz_bad" in broken.stderr
    assert "no_such_module" in broken.stderr
    assert broken.stderr.count("\n") == 1


def test_the_lock_names_versions_and_no_place():
    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    assert all("==" in line for line in lines)
    assert not any("://" in line or "@" in line or line.startswith("-") for line in lines)
