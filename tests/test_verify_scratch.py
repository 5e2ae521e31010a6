"""The copy holds what a run needs, and writing into it changes nothing of the user's."""

import subprocess

import pytest

from tapefix.errors import TapefixError
from tapefix.verify import scratch
from tapefix.verify.scratch import copy, project_root, read_project, revision

EVERYTHING = 1 << 30


def git(folder, *words):
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def work_tree(tmp_path):
    for name, text in {
        "pkg/train.py": "one\n",
        "pkg/data.csv": "1,2\n",
        "notes.txt": "untracked\n",
        "cache/big.bin": "ignored\n",
        ".gitignore": "cache/\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "pkg", ".gitignore")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def names(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_work_tree_is_copied_without_what_git_ignores(work_tree):
    project = read_project(project_root(work_tree / "pkg", work_tree / "pkg"))
    assert project.root == work_tree
    with copy(project, {}, EVERYTHING) as made:
        assert names(made.project) == [".gitignore", "notes.txt", "pkg/data.csv", "pkg/train.py"]
        assert made.inside(work_tree / "pkg" / "train.py") == made.project / "pkg" / "train.py"
        base = made.base
    assert not base.exists()


def test_writing_into_the_copy_leaves_the_original(work_tree):
    with copy(read_project(work_tree), {}, EVERYTHING) as made:
        (made.project / "pkg" / "train.py").write_text("two\n")
        (made.project / "pkg" / "data.csv").unlink()
    assert (work_tree / "pkg" / "train.py").read_text() == "one\n"
    assert (work_tree / "pkg" / "data.csv").read_text() == "1,2\n"


def test_the_overlay_takes_the_place_of_files_adds_and_removes(work_tree):
    overlay = {
        work_tree / "pkg" / "train.py": b"\xef\xbb\xbfthree\r\n",
        work_tree / "new" / "module.py": b"four",
        work_tree / "notes.txt": None,
    }
    with copy(read_project(work_tree), overlay, EVERYTHING) as made:
        assert (made.project / "pkg" / "train.py").read_bytes() == b"\xef\xbb\xbfthree\r\n"
        assert (made.project / "new" / "module.py").read_bytes() == b"four"
        assert not (made.project / "notes.txt").exists()
    with pytest.raises(TapefixError, match="outside the project"):
        copy(read_project(work_tree), {work_tree.parent / "other.py": b""}, EVERYTHING)


def test_large_data_is_linked_and_python_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "LARGE", 10)
    (tmp_path / "images.bin").write_bytes(bytes(100))
    (tmp_path / "train.py").write_text("#" * 100)
    with copy(read_project(tmp_path), {}, EVERYTHING) as made:
        assert made.linked == ("images.bin",)
        assert (made.project / "images.bin").resolve() == tmp_path / "images.bin"
        assert not (made.project / "train.py").is_symlink()


def test_data_beyond_the_limit_is_linked(tmp_path):
    for name in ("a.bin", "b.bin", "c.bin"):
        (tmp_path / name).write_bytes(bytes(100))
    with copy(read_project(tmp_path), {}, 250) as made:
        assert made.linked == ("c.bin",)


def test_a_folder_without_git_is_copied_without_environments_and_caches(tmp_path):
    for name in ("train.py", "env/pyvenv.cfg", "env/lib/x.py", "__pycache__/train.pyc", ".venv/y.py", "sub/z.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert read_project(tmp_path).files == ("sub/z.py", "train.py")


def test_the_project_is_found_by_its_marks_else_by_where_the_user_stands(tmp_path):
    deep = tmp_path / "project" / "src" / "pkg"
    deep.mkdir(parents=True)
    assert project_root(deep, tmp_path / "elsewhere") == deep
    assert project_root(deep, tmp_path / "project") == tmp_path / "project"
    (tmp_path / "project" / "setup.cfg").write_text("")
    assert project_root(deep, tmp_path / "elsewhere") == tmp_path / "project"


def test_too_many_files_are_an_error_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MOST_FILES", 2)
    for index in range(3):
        (tmp_path / f"{index}.txt").write_text("")
    with pytest.raises(TapefixError, match="run tapefix from the project's own folder"):
        read_project(tmp_path)


def test_a_revision_is_an_overlay_of_what_has_changed_since(work_tree):
    (work_tree / "pkg" / "train.py").write_text("two\n")
    (work_tree / "pkg" / "added.py").write_text("new\n")
    git(work_tree, "add", "pkg/added.py")
    assert revision(work_tree, "HEAD") == {
        work_tree / "pkg" / "train.py": b"one\n",
        work_tree / "pkg" / "added.py": None,
    }
    assert revision(work_tree, "no-such-revision") is None


def test_folders_that_a_run_has_locked_go_away(tmp_path):
    (tmp_path / "train.py").write_text("")
    with copy(read_project(tmp_path), {}, EVERYTHING) as made:
        (made.project / "locked").mkdir()
        (made.project / "locked" / "file").write_text("")
        (made.project / "locked").chmod(0o000)
        base = made.base
    assert not base.exists()
