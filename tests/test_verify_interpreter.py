"""The interpreter is the first of the list that has TensorFlow; where none has, the person learns what to do."""

import sys
from pathlib import Path

import pytest

from tapefix.errors import TapefixError
from tapefix.verify.interpreter import candidates, choose


def environment(folder: Path, tensorflow: bool) -> Path:
    """A virtual environment in small: an interpreter that sees only its own folder, with or without TensorFlow."""
    site = folder / "site"
    info = site / "tensorflow-9.9.dist-info"
    info.mkdir(parents=True)
    if tensorflow:
        (site / "tensorflow").mkdir()
        (site / "tensorflow" / "__init__.py").write_text("raise ImportError('is not to be imported')")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 9.9\n")
    else:
        info.rmdir()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    return python


@pytest.fixture
def having(tmp_path):
    return environment(tmp_path / "having", True)


@pytest.fixture
def lacking(tmp_path):
    return environment(tmp_path / "lacking", False)


def test_the_named_interpreter_is_taken_and_asked_for_its_versions(having, tmp_path):
    chosen = choose(str(having), "", tmp_path, {})
    assert (chosen.path, chosen.chosen, chosen.tensorflow) == (str(having), "--python", "9.9")
    assert chosen.python == ".".join(map(str, sys.version_info[:3]))


def test_an_environment_may_be_named_by_its_folder(having, tmp_path):
    assert choose("having", "", tmp_path, {}).path == str(having)


def test_a_named_interpreter_without_tensorflow_is_an_error_with_the_remedy(lacking, tmp_path):
    with pytest.raises(TapefixError, match=r"no TensorFlow in the interpreter .*-m pip install tensorflow"):
        choose(str(lacking), "", tmp_path, {})


@pytest.mark.parametrize("name", ["/no/such/python", "no-such-python"])
def test_a_named_interpreter_that_is_none_is_an_error(name, tmp_path):
    with pytest.raises(TapefixError, match=r"--python .*does not start"):
        choose(name, "", tmp_path, {})


def test_the_order_is_configuration_environments_folder_own(tmp_path):
    (tmp_path / ".venv").mkdir()
    environ = {"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c"}
    assert [where for _, where in candidates("python3.8", tmp_path / "sub", environ)] == [
        "the configuration",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        str(tmp_path / ".venv"),
        "tapefix's own",
    ]


def test_one_without_tensorflow_is_passed_over(having, lacking, tmp_path):
    environ = {"VIRTUAL_ENV": str(lacking.parent.parent), "CONDA_PREFIX": str(having.parent.parent)}
    chosen = choose("", "", tmp_path, environ)
    assert (chosen.path, chosen.chosen) == (str(having), "CONDA_PREFIX")


def test_where_none_has_it_all_that_were_tried_are_told(lacking, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(lacking))
    with pytest.raises(TapefixError) as raised:
        choose("", "/gone/python", tmp_path, {})
    message = str(raised.value)
    assert "/gone/python (the configuration): it does not start" in message
    assert f"{lacking} (tapefix's own): no TensorFlow" in message
    assert "--python PATH" in message
