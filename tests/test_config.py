"""Settings: found where they belong, and wrong ones told with file, key and what is wanted."""

import pytest

from tapefix.config import Config, load_config
from tapefix.errors import TapefixError

WHOLE = """
[tool.tapefix]
select = ["TAP1"]
ignore = ["TAP104"]
extend-select = ["TAP3"]
exclude = ["vendor/"]
unsafe-fixes = true

[tool.tapefix.per-file-ignores]
"legacy/*" = ["TAP101"]

[tool.tapefix.verify]
python = ".venv/bin/python"
command = "pytest -q tests"
steps = 3
timeout = 120
targets = ["train.py"]

[tool.tapefix.gates]
threshold = "soft"
"""


def test_without_settings_the_defaults_hold(tmp_path):
    assert load_config(tmp_path) == Config(root=tmp_path)


def test_every_setting_is_read(tmp_path):
    (tmp_path / "pyproject.toml").write_text(WHOLE)
    config = load_config(tmp_path)
    assert (config.root, config.select, config.ignore) == (tmp_path, ("TAP1",), ("TAP104",))
    assert (config.extend_select, config.exclude, config.unsafe_fixes) == (("TAP3",), ("vendor/",), True)
    assert config.per_file_ignores == (("legacy/*", ("TAP101",)),)
    assert config.verify.command == ("pytest", "-q", "tests")
    assert (config.verify.python, config.verify.steps, config.verify.timeout) == (".venv/bin/python", 3, 120.0)
    assert config.verify.targets == ("train.py",)
    assert config.gates.threshold == "soft"


def test_the_nearest_folder_with_settings_decides(tmp_path):
    (tmp_path / "pyproject.toml").write_text(WHOLE)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert load_config(inner).root == tmp_path
    (tmp_path / "a" / "tapefix.toml").write_text('select = ["TAP2"]\n')
    assert load_config(inner).select == ("TAP2",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool.tapefix]\nselekt = []", "tool.tapefix.selekt is not a known key (did you mean 'select'?)"),
        ("[tool.tapefix.verify]\nstep = 1", "tool.tapefix.verify.step is not a known key (did you mean 'steps'?)"),
        ("[tool.tapefix.gates]\nthreshold = 'hard'", "threshold must be one of 'straight-through', 'soft'"),
        ("[tool.tapefix]\nselect = 'TAP1'", "tool.tapefix.select must be a list of strings"),
        ("[tool.tapefix]\nunsafe-fixes = 1", "tool.tapefix.unsafe-fixes must be true or false"),
        ("[tool.tapefix.verify]\nsteps = 0", "tool.tapefix.verify.steps must be a whole number from 1"),
        ("[tool.tapefix.verify]\ntimeout = -1", "tool.tapefix.verify.timeout must be a number of seconds above 0"),
        ("[tool]\ntapefix = 1", "tool.tapefix must be a table"),
        ("[tool.tapefix", "is not valid TOML"),
    ],
)
def test_a_wrong_setting_is_one_line_with_file_and_key(tmp_path, text, problem):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(TapefixError) as failed:
        load_config(tmp_path)
    assert str(failed.value).startswith(str(tmp_path / "pyproject.toml"))
    assert problem in str(failed.value)


def test_the_cache_knows_settings_apart_that_change_findings(tmp_path):
    (tmp_path / "tapefix.toml").write_text('ignore = ["TAP1"]\n')
    assert load_config(tmp_path).fingerprint() != Config().fingerprint()
    (tmp_path / "tapefix.toml").write_text("unsafe-fixes = true\n")  # a batched loop in place of a list
    assert load_config(tmp_path).fingerprint() != Config().fingerprint()
