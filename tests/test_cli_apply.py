"""`tapefix apply` and `tapefix patch`: what is written, what is left alone, and that a dry run says it to the byte."""

import stat
import subprocess

import pytest

pytestmark = pytest.mark.usefixtures("toy_plugin")

HEAD = "import tensorflow as tf\n"
SAFE = HEAD + "y = np.exp(x)\n"
BOTH = HEAD + "y = np.exp(x)\nz = np.mean(x)\nw = np.fft(x)\n"


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_safe_fixes_are_written_and_the_rest_is_told(tapefix, tmp_path):
    path = write(tmp_path, "train.py", BOTH)
    ran = tapefix("apply", "train.py")
    assert path.read_text() == BOTH.replace("np.exp", "tf.exp")
    assert ran.status == 0
    assert ran.err == ""
    assert ran.out == (
        "train.py  TOY101 fixed\n"
        "train.py:3:5 TOY102 no gradient flows through `np.mean`\n"
        "  = fix: tf.reduce_mean in place of np.mean   [unsafe: tapefix apply --unsafe-fixes]\n"
        "train.py:4:5 TOY201 no gradient flows through `np.fft`\n"
        "  = not rewritten: there is no one transform that fits\n"
        "1 problem fixed; 2 left (1 with --unsafe-fixes).\n"
    )


def test_unsafe_fixes_are_written_where_asked_for(tapefix, tmp_path):
    path = write(tmp_path, "train.py", BOTH)
    assert "2 problems fixed; 1 left." in tapefix("apply", "--unsafe-fixes").out
    assert path.read_text() == BOTH.replace("np.exp", "tf.exp").replace("np.mean", "tf.reduce_mean")


def test_unsafe_fixes_may_be_a_setting(tapefix, tmp_path):
    path = write(tmp_path, "train.py", BOTH)
    write(tmp_path, "tapefix.toml", "unsafe-fixes = true\n")
    tapefix("apply", "--no-unsafe-fixes", "--dry-run")
    assert path.read_text() == BOTH
    tapefix("apply")
    assert "tf.reduce_mean" in path.read_text()


def test_a_second_run_changes_nothing(tapefix, tmp_path):
    path = write(tmp_path, "train.py", BOTH)
    tapefix("apply", "--unsafe-fixes")
    once = path.read_bytes()
    assert "0 problems fixed; 1 left." in tapefix("apply", "--unsafe-fixes").out
    assert path.read_bytes() == once


def test_select_and_ignore_hold_for_apply(tapefix, tmp_path):
    path = write(tmp_path, "train.py", BOTH)
    tapefix("apply", "--unsafe-fixes", "--ignore", "TOY101")
    assert path.read_text() == BOTH.replace("np.mean", "tf.reduce_mean")


def test_mode_bits_stay(tapefix, tmp_path):
    path = write(tmp_path, "train.py", SAFE)
    path.chmod(0o755)
    tapefix("apply")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


SHAPES = {
    "plain": SAFE.encode(),
    "no final newline": SAFE.rstrip().encode(),
    "crlf": SAFE.replace("\n", "\r\n").encode(),
    "mixed line ends": (SAFE + "a = 1\r\nb = np.exp(a)\n").encode(),
    "byte order mark": b"\xef\xbb\xbf" + SAFE.encode(),
    "form feed": (HEAD + "\x0c\ny = np.exp(x)\n\x0c\n").encode(),
    "tabs": (HEAD + "if 1:\n\ty = np.exp(x)\t# tab\n").encode(),
    "coding cookie": ("# -*- coding: latin-1 -*-\n" + HEAD + "é = np.exp('é')\n").encode("latin-1"),
    "lone carriage return": (HEAD + "y = np.exp(x)\ra = 1\r").encode(),
    "line separator": (HEAD + "y = np.exp('\u2028')\n").encode(),
    "multiple far apart": (HEAD + "y = np.exp(x)\n" + "a = 1\n" * 40 + "z = np.exp(x)\n").encode(),
}
NAMES = ["train.py", "with space/my file.py", "größe/模型.py"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_git_makes_of_a_dry_run_what_apply_writes(tapefix, tmp_path, shape, name):
    path = write(tmp_path, name, SHAPES[shape])
    dry = tapefix("apply", "--dry-run", name)
    assert dry.status == 1
    assert path.read_bytes() == SHAPES[shape]
    subprocess.run(["git", "apply", "--check"], input=dry.raw, check=True, cwd=tmp_path)
    subprocess.run(["git", "apply"], input=dry.raw, check=True, cwd=tmp_path, capture_output=True)
    by_git = path.read_bytes()
    path.write_bytes(SHAPES[shape])
    tapefix("apply", name)
    assert path.read_bytes() == by_git
    assert by_git == SHAPES[shape].replace(b"np.exp", b"tf.exp")


def test_a_dry_run_prints_the_diff_alone(tapefix, tmp_path):
    write(tmp_path, "sub/train.py", SAFE)
    ran = tapefix("apply", "--dry-run")
    assert ran.out == (
        "--- a/sub/train.py\n+++ b/sub/train.py\n@@ -1,2 +1,2 @@\n"
        " import tensorflow as tf\n-y = np.exp(x)\n+y = tf.exp(x)\n"
    )
    assert ran.err.endswith("1 problem would be fixed.\n")


def test_a_dry_run_without_changes_is_status_0_and_silent(tapefix, tmp_path):
    write(tmp_path, "train.py", HEAD)
    ran = tapefix("apply", "--dry-run")
    assert (ran.status, ran.out) == (0, "")


def test_a_patch_is_written_applied_and_undone(tapefix, tmp_path):
    path = write(tmp_path, "größe.py", BOTH)
    made = tapefix("apply", "--patch", "fix.diff")
    assert (made.status, path.read_text()) == (0, BOTH)
    applied = tapefix("patch", "fix.diff")
    assert (applied.status, applied.out) == (0, "größe.py  patched\n")
    assert path.read_text() == BOTH.replace("np.exp", "tf.exp")
    undone = tapefix("patch", "--reverse", "fix.diff")
    assert (undone.status, undone.out) == (0, "größe.py  undone\n")
    assert path.read_text() == BOTH


def test_a_rejected_hunk_is_told_and_status_1(tapefix, tmp_path):
    path = write(tmp_path, "train.py", SAFE)
    tapefix("apply", "--patch", "fix.diff")
    path.write_text(HEAD + "y = np.exp2(x)\n")
    ran = tapefix("patch", "fix.diff")
    assert ran.status == 1
    assert ran.err == (
        "train.py: hunk 1 (line 1) rejected: the lines it changes are not there (or not as in the diff)\n"
    )
    assert path.read_text() == HEAD + "y = np.exp2(x)\n"


def test_what_is_no_diff_is_status_2(tapefix, tmp_path):
    write(tmp_path, "fix.diff", "hello\n")
    ran = tapefix("patch", "fix.diff")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("tapefix: fix.diff: no diff in it")


def test_standard_input_is_repaired_to_standard_output(tapefix):
    ran = tapefix("apply", "-", stdin=SAFE.encode())
    assert (ran.status, ran.out) == (0, SAFE.replace("np.exp", "tf.exp"))


def test_a_named_file_that_does_not_parse_stops_everything(tapefix, tmp_path):
    path = write(tmp_path, "train.py", SAFE)
    write(tmp_path, "old.py", "print 1\n")
    ran = tapefix("apply", "train.py", "old.py")
    assert ran.status == 2
    assert "old.py:1: does not parse as Python 3" in ran.err
    assert path.read_text() == SAFE


def test_interactive_asks_once_about_each_fix(tapefix, tmp_path):
    text = HEAD + "y = np.exp(x)\n" * 3
    path = write(tmp_path, "train.py", text)
    ran = tapefix("apply", "--interactive", stdin=b"n\ny\nn\n")
    assert ran.out.count("Apply?") == 3
    assert path.read_text().splitlines()[1:] == ["y = np.exp(x)", "y = tf.exp(x)", "y = np.exp(x)"]
    assert "1 problem fixed; 2 left" in ran.out


def test_interactive_shows_each_fix_as_a_diff_of_what_is_there_by_then(tapefix, tmp_path):
    write(tmp_path, "train.py", HEAD + "y = np.exp(x)\n" * 2)
    first, second = tapefix("apply", "--interactive", stdin=b"y\nn\n").out.split("Apply?")[:2]
    assert "-y = np.exp(x)\n+y = tf.exp(x)\n y = np.exp(x)\n" in first
    assert " y = tf.exp(x)\n-y = np.exp(x)\n+y = tf.exp(x)\n" in second


def test_interactive_writes_nothing_where_the_person_leaves(tapefix, tmp_path):
    path = write(tmp_path, "train.py", HEAD + "y = np.exp(x)\n" * 2)
    ran = tapefix("apply", "--interactive", stdin=b"y\n")
    assert ran.status != 0
    assert path.read_text() == HEAD + "y = np.exp(x)\n" * 2


def test_all_files_of_a_folder_are_repaired(tapefix, tmp_path):
    paths = [write(tmp_path, f"part{n}/train.py", SAFE) for n in range(20)]
    assert "20 problems fixed." in tapefix("apply", "-j", 2).out
    assert {path.read_text() for path in paths} == {SAFE.replace("np.exp", "tf.exp")}
