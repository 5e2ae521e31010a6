"""Diffs: `git apply`, `patch -p1` and `tapefix patch` make of a file exactly what the diff was made from."""

import os
import shutil
import stat
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapefix.errors import TapefixError
from tapefix.patches import apply_patch, unified_diff, write_files
from tapefix.patches.names import quote, unquote

KINDS = {
    "plain": (b"a\nb\nc\n", b"a\nB\nc\n"),
    "no final newline": (b"a\nb", b"a\nc"),
    "final newline added": (b"a\nb", b"a\nb\n"),
    "final newline taken": (b"a\nb\n", b"a\nb"),
    "carriage returns": (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
    "byte order mark": (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nc\n"),
    "form feed": (b"a\n\x0c\nb\x0cc\nd\n", b"a\n\x0c\nb\x0cc\ne\n"),
    "tabs": (b"if x:\n\ty = 1\n", b"if x:\n\ty = 2\n"),
    "lone carriage return": (b"a\rb\nc\rd", b"a\rb\nc\re"),
    "line separator": ("a\u2028b\nc\n".encode(), "a\u2028b\nd\n".encode()),
    "latin-1": (b"# coding: latin-1\nx = '\xe9'\n", b"# coding: latin-1\ny = '\xe9'\n"),
    "was empty": (b"", b"a\n"),
    "becomes empty": (b"a\n", b""),
    "like a header": (b"-- a/x\n++ b/x\n@@ -1 +1 @@\n", b"-- a/y\n++ b/x\n@@ -1 +1 @@\n"),
    "far apart": (
        b"".join(b"%d\n" % n for n in range(60)),
        b"".join(b"%d\n" % n for n in range(60) if n not in (3, 40)),
    ),
}
NAMES = ["x.py", "a folder/my file.py", "größe/模型.py", 'quo"te\\back\ttab.py']


def git_apply(folder, diff, *options):
    return subprocess.run(["git", "apply", *options], cwd=folder, input=diff, capture_output=True, check=False)


def lay(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_git_applies_the_diff(tmp_path, kind):
    before, after = KINDS[kind]
    path = lay(tmp_path, "x.py", before)
    diff = unified_diff("x.py", before, after)
    assert git_apply(tmp_path, diff, "--check").returncode == 0
    done = git_apply(tmp_path, diff)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == after


@pytest.mark.parametrize("name", NAMES)
def test_git_applies_the_diff_whatever_the_name(tmp_path, name):
    path = lay(tmp_path, name, b"a\nb\n")
    done = git_apply(tmp_path, unified_diff(name, b"a\nb\n", b"a\nc\n"))
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == b"a\nc\n"


@pytest.mark.parametrize("name", NAMES)
def test_names_are_quoted_as_git_quotes_them(tmp_path, name):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    lay(tmp_path, name, b"a\n")
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    listed = subprocess.run(["git", "ls-files"], cwd=tmp_path, check=True, capture_output=True).stdout.rstrip(b"\n")
    assert quote(name) == listed
    assert unquote(quote(name).decode("latin-1")) == name


def test_git_applies_the_diff_in_a_subfolder_of_a_repository(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    path = lay(tmp_path, "sub/x.py", b"a\n")
    assert git_apply(tmp_path / "sub", unified_diff("x.py", b"a\n", b"b\n")).returncode == 0
    assert path.read_bytes() == b"b\n"


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_patch_applies_the_diff(tmp_path, kind):
    before, after = KINDS[kind]
    path = lay(tmp_path, "x.py", before)
    diff = unified_diff("x.py", before, after)
    subprocess.run(["patch", "-p1", "--binary"], cwd=tmp_path, input=diff, check=True, capture_output=True)
    assert path.read_bytes() == after


def test_no_change_no_diff():
    assert unified_diff("x.py", b"a", b"a") == b""


line = st.sampled_from(
    [b"", b"a", b"b", b"  c", b"\x0c", b"d\r", b"\xe2\x80\xa8", b"- e", b"-- a/x", b"@@ -1 +1 @@", b"\\ N"]
)
content = st.builds(
    lambda lines, end: b"\n".join(lines) + end, st.lists(line, max_size=30), st.sampled_from([b"", b"\n"])
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=content, after=content)
def test_any_diff_leads_forth_and_back(tmp_path, before, after):
    diff = unified_diff("x.py", before, after)
    if not diff:
        return
    path = lay(tmp_path, "x.py", before)
    done = git_apply(tmp_path, diff)
    assert done.returncode == 0, done.stderr
    assert (path.read_bytes() if path.exists() else b"") == after
    assert_patches(diff, before, after)


@settings(max_examples=600, deadline=None)
@given(before=content, after=content)
def test_tapefix_patch_leads_forth_and_back(before, after):
    diff = unified_diff("x.py", before, after)
    if diff:
        assert_patches(diff, before, after)


def assert_patches(diff, before, after):
    forth = apply_patch(diff, {"x.py": before}.get)
    assert forth.rejects == ()
    assert forth.files["x.py"] == after
    back = apply_patch(diff, {"x.py": after}.get, reverse=True)
    assert back.rejects == ()
    assert back.files["x.py"] == before


NUMBERS = [b"%d\n" % n for n in range(1, 41)]


def changed(*rows):
    return b"".join(b"new\n" if n in rows else b"%d\n" % n for n in range(1, 41))


def test_a_hunk_is_found_where_lines_were_added_above():
    diff = unified_diff("x.py", changed(), changed(20))
    moved = b"above\n" * 7 + changed()
    patched = apply_patch(diff, {"x.py": moved}.get)
    assert patched.files["x.py"] == b"above\n" * 7 + changed(20)


def test_a_hunk_is_found_though_its_outer_context_has_changed():
    diff = unified_diff("x.py", changed(), changed(20))
    edited = changed().replace(b"17\n", b"seventeen\n").replace(b"23\n", b"twentythree\n")
    patched = apply_patch(diff, {"x.py": edited}.get)
    assert patched.rejects == ()
    assert patched.files["x.py"] == edited.replace(b"\n20\n", b"\nnew\n")


def test_a_hunk_whose_lines_are_gone_is_rejected_and_the_others_are_applied():
    diff = unified_diff("x.py", changed(), changed(5, 30))
    there = changed().replace(b"\n5\n", b"\nfive\n")
    patched = apply_patch(diff, {"x.py": there}.get)
    assert patched.files["x.py"] == there.replace(b"\n30\n", b"\nnew\n")
    (reject,) = patched.rejects
    assert (reject.filename, reject.hunk, reject.line) == ("x.py", 1, 2)
    assert "are not there" in reject.reason


def test_a_diff_that_was_applied_before_says_so_and_changes_nothing():
    diff = unified_diff("x.py", changed(), changed(20))
    patched = apply_patch(diff, {"x.py": changed(20)}.get)
    assert patched.files == {}
    assert patched.rejects[0].reason == "it is there already"


def test_the_nearest_of_several_places_is_taken():
    block = b"a\nb\nc\nd\ne\nf\ng\n"
    before, after = block * 3, block + block.replace(b"d", b"D") + block
    patched = apply_patch(unified_diff("x.py", before, after), {"x.py": b"top\n" + before}.get)
    assert patched.files["x.py"] == b"top\n" + after


def test_a_trimmed_hunk_needs_no_new_numbers():
    diff = unified_diff("x.py", changed(), changed(20, 22))
    trimmed = diff.replace(b"-22\n+new\n", b" 22\n", 1).replace(b" 25\n", b"")
    patched = apply_patch(trimmed, {"x.py": changed()}.get)
    assert patched.files["x.py"] == changed(20)


def test_context_whose_white_space_an_editor_took_is_still_context():
    before = b"a\n\nb\n\nc\n"
    diff = unified_diff("x.py", before, before.replace(b"b", b"B")).replace(b"\n \n", b"\n\n")
    assert apply_patch(diff, {"x.py": before}.get).files["x.py"] == before.replace(b"b", b"B")


def test_a_file_that_is_not_there_is_rejected():
    patched = apply_patch(unified_diff("gone.py", b"a\n", b"b\n"), {}.get)
    assert [r.reason for r in patched.rejects] == ["there is no such file here"]


@pytest.mark.parametrize(
    ("diff", "problem"),
    [
        (b"", "no diff in it"),
        (b"hello\n", "no diff in it"),
        (b"--- a/../x.py\n+++ b/../x.py\n@@ -1 +1 @@\n-a\n+b\n", "outside the current folder"),
        (b"--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+b\n", "makes, removes or renames"),
        (b"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n?a\n", "not a unified diff"),
    ],
)
def test_what_is_no_diff_of_files_here_is_an_error(diff, problem):
    with pytest.raises(TapefixError, match=problem):
        apply_patch(diff, {"x.py": b"a\n"}.get)


def test_writing_keeps_mode_bits_and_links(tmp_path):
    path = lay(tmp_path, "x.py", b"a\n")
    path.chmod(0o750)
    link = tmp_path / "link.py"
    link.symlink_to(path)
    write_files({str(link): b"b\n"})
    assert path.read_bytes() == b"b\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.py", "x.py"]


def test_where_one_file_cannot_be_written_none_is(tmp_path):
    path = lay(tmp_path, "x.py", b"a\n")
    with pytest.raises(TapefixError, match="cannot be written"):
        write_files({str(path): b"b\n", str(tmp_path / "no folder" / "y.py"): b"b\n"})
    assert path.read_bytes() == b"a\n"
    assert os.listdir(tmp_path) == ["x.py"]
