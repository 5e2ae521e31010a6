"""A target is what a person would expect from what they typed, or an error that says what to type."""

import pytest

from tapefix.errors import TapefixError
from tapefix.verify.targets import Command, Function, ModelClass, Script, parse_target


@pytest.fixture
def folder(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from pkg.train import Net as Exported\n")
    (package / "train.py").write_text(
        "class Net(keras.Model):\n    def call(self, x): ...\n"
        "class Plain:\n    def run(self): ...\n"
        "def loss(): ...\nfit = loss\nnet = Net()\n"
    )
    (tmp_path / "note.ipynb").write_text("{}")
    return tmp_path


def test_a_file_is_a_script(folder):
    assert parse_target("pkg/train.py", folder, ("--epochs", "1")) == Script(
        folder / "pkg" / "train.py", ("--epochs", "1")
    )


def test_a_list_of_words_is_a_command(folder):
    command = parse_target(["pytest", "-k", "a b"], folder)
    assert command == Command(("pytest", "-k", "a b"))
    assert str(command) == "pytest -k 'a b'"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("pkg.train:Net", ModelClass),
        ("pkg:Exported", ModelClass),
        ("pkg.train:loss", Function),
        ("pkg.train:fit", Function),
        ("pkg.train:net", ModelClass),
        ("pkg.train:Plain", Function),
        ("pkg.train:Net.build_and_train", Function),
        ("elsewhere.models:UNet", ModelClass),
        ("elsewhere.models:train", Function),
    ],
)
def test_a_member_of_a_module_is_a_model_or_a_function(folder, text, kind):
    target = parse_target(text, folder)
    assert isinstance(target, kind)
    assert str(target) == text


def test_a_module_in_src_is_found(folder):
    (folder / "src").mkdir()
    (folder / "src" / "deep.py").write_text("class net(Model):\n    pass\n")
    assert isinstance(parse_target("deep:net", folder), ModelClass)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("gone.py", "gone.py: no such file"),
        ("pkg", "is a folder; name a script"),
        ("note.ipynb", "notebooks can be checked, not yet verified"),
        ("pkg.train:Nett", r"defines no 'Nett' \(did you mean 'Net'\?\)"),
        ("what is this", "is no target: give a script"),
        ([], "no command after `--`"),
    ],
)
def test_what_is_no_target_is_an_error_with_the_remedy(folder, target, message):
    with pytest.raises(TapefixError, match=message):
        parse_target(target, folder)
