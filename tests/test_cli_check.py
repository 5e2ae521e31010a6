"""`tapefix check`, from outside: output to the letter, statuses, and that the number of processes does not show."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import tapefix as package

pytestmark = pytest.mark.usefixtures("toy_plugin")

SCHEMAS = Path(package.__file__).parent / "report" / "schemas"
TWO = "import tensorflow as tf\n\nif x:\n    y = np.exp(x)\nz = np.fft(x)\n"


def test_text_shows_the_line_the_reason_and_the_repair(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(TWO)
    ran = tapefix("check", "train.py")
    assert ran.status == 1
    assert ran.err == ""
    assert ran.out == (
        "train.py:4:9 TOY101 no gradient flows through `np.exp`\n"
        "  |\n"
        "4 |     y = np.exp(x)\n"
        "  |         ^^^^^^^^^\n"
        "  = why: NumPy knows nothing of the tape\n"
        "  = fix: tf.exp in place of np.exp   [safe: tapefix apply]\n"
        "\n"
        "train.py:5:5 TOY201 no gradient flows through `np.fft`\n"
        "  |\n"
        "5 | z = np.fft(x)\n"
        "  |     ^^^^^^^^^\n"
        "  = why: NumPy knows nothing of the tape\n"
        "  = fix: not rewritten: there is no one transform that fits\n"
        "\n"
        "Found 2 problems in 1 file; 1 fixable.\n"
    )


def test_carets_stand_below_wide_characters_and_tabs(tapefix, tmp_path):
    (tmp_path / "train.py").write_text("import tensorflow\nif 1:\n\t重建 = np.exp(重)\n")
    lines = tapefix("check", "train.py").out.splitlines()
    assert lines[2:4] == ["3 | \t重建 = np.exp(重)", "  | \t       ^^^^^^^^^^"]


def test_concise_is_one_line_a_finding(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(TWO)
    assert tapefix("check", "--output-format", "concise").out == (
        "train.py:4:9 TOY101 no gradient flows through `np.exp` [fixable]\n"
        "train.py:5:5 TOY201 no gradient flows through `np.fft`\n"
        "Found 2 problems in 1 file; 1 fixable.\n"
    )


def test_json_follows_its_schema_and_its_edits_are_the_repair(tapefix, tmp_path):
    text = "import tensorflow\n# größe 𝛼\ny = np.mean(np.exp('𝛼'))\nz = np.fft(x)\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    ran = tapefix("check", "--output-format", "json")
    found = json.loads(ran.out)
    jsonschema.validate(found, json.loads((SCHEMAS / "check.json").read_text()))
    assert [f["code"] for f in found] == ["TOY101", "TOY201"]
    assert found[0]["filename"] == str(tmp_path / "train.py")
    assert found[0]["location"] == {"row": 3, "column": 13}
    assert found[0]["fix"]["applicability"] == "unsafe"
    assert found[1]["fix"] is None
    assert found[1]["refusal"] == "there is no one transform that fits"
    assert applied(text, found[0]["fix"]["edits"]) == text.replace("np.mean(np.exp", "tf.reduce_mean(tf.exp")


def applied(text, edits):
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    for edit in sorted(edits, key=lambda e: (e["location"]["row"], e["location"]["column"]), reverse=True):
        start, end = (starts[p["row"] - 1] + p["column"] - 1 for p in (edit["location"], edit["end_location"]))
        text = text[:start] + edit["content"] + text[end:]
    return text


def test_sarif_names_rules_places_and_replacements(tapefix, tmp_path):
    (tmp_path / "a b.py").write_text(TWO)
    (run,) = json.loads(tapefix("check", "--output-format", "sarif").out)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["TOY101", "TOY201"]
    location = run["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "a%20b.py"
    assert location["region"] == {"startLine": 4, "startColumn": 9, "endLine": 4, "endColumn": 18}
    (replacement,) = run["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement == {
        "deletedRegion": {"startLine": 4, "startColumn": 9, "endLine": 4, "endColumn": 11},
        "insertedContent": {"text": "tf"},
    }


def test_github_annotations_escape_what_they_must(tapefix, tmp_path):
    (tmp_path / "a,b.py").write_text(TWO)
    first, second = tapefix("check", "--output-format", "github").out.splitlines()
    assert first == (
        "::error title=tapefix TOY101,file=a%2Cb.py,line=4,col=9,endLine=4,endColumn=18::"
        "no gradient flows through `np.exp`%0Awhy: NumPy knows nothing of the tape"
        "%0Afix: tf.exp in place of np.exp   [safe: tapefix apply]"
    )
    assert second.startswith("::error title=tapefix TOY201,file=a%2Cb.py,line=5")


def test_gitlab_fingerprints_outlive_lines_added_above(tapefix, tmp_path):
    def fingerprints(text):
        (tmp_path / "train.py").write_text(text)
        return [issue["fingerprint"] for issue in json.loads(tapefix("check", "--output-format", "gitlab").out)]

    before = fingerprints(TWO + "z = np.fft(x)\n")
    assert len(set(before)) == 3
    assert fingerprints("# a line\n" + TWO + "z = np.fft(x)\n") == before


def test_markdown_is_a_table(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(TWO)
    lines = tapefix("check", "--output-format", "markdown").out.splitlines()
    assert len(lines) == 6
    assert all(line.count(" | ") == 4 for line in lines[:4])


def test_statistics_count_by_rule(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(TWO + "a = np.fft(y)\n")
    assert tapefix("check", "--statistics").out == "2  TOY201  numpy-fft\n1  TOY101  numpy-exp\n"


def test_nothing_found_is_status_0(tapefix, tmp_path):
    (tmp_path / "train.py").write_text("x = 1\n")
    ran = tapefix("check")
    assert (ran.status, ran.out, ran.err) == (0, "No problems found in 1 file.\n", "")


def test_exit_zero(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(TWO)
    assert tapefix("check", "--exit-zero").status == 0


def test_a_folder_without_python_is_a_warning(tapefix):
    ran = tapefix("check")
    assert ran.status == 0
    assert ran.err.startswith("tapefix: warning: no Python file found")


def test_a_file_that_does_not_parse_fails_where_it_is_named_and_is_counted_in_a_folder(tapefix, tmp_path):
    (tmp_path / "old.py").write_text("print 'Python 2'\n")
    (tmp_path / "new.py").write_text(TWO)
    named = tapefix("check", "old.py")
    assert named.status == 2
    assert named.err.startswith("tapefix: old.py:1: does not parse as Python 3")
    met = tapefix("check")
    assert met.status == 1
    assert met.out.endswith("Found 2 problems in 1 file; 1 fixable; 1 file not readable.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "gone.py"], "tapefix: gone.py: no such file or folder\n"),
        (["check", "--select", "TOY10l"], "tapefix: unknown rule code 'TOY10l' (did you mean 'TOY10"),
        (["check", "--output-format", "jsn"], "tapefix: unknown output format 'jsn' (did you mean 'json'?)"),
        (["check", "-", "x.py"], "tapefix: `-` (standard input) cannot be mixed"),
        (["check", "--explain", "x.py"], "tapefix: --explain wants FILE:LINE"),
        (["rule", "TOY999"], "tapefix: no rule 'TOY999' (did you mean 'TOY9"),
        (["apply", "x.py", "--", "pytest"], "tapefix: a command after `--` is for --verify"),
        (["patch", "gone.diff"], "tapefix: gone.diff: cannot be read"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_2(tapefix, arguments, message):
    ran = tapefix(*arguments)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith(message)
    assert ran.err.count("\n") == 1


def test_an_unknown_setting_is_named_with_the_nearest(tapefix, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.tapefix]\nselct = []\n")
    ran = tapefix("check")
    assert ran.status == 2
    assert "tool.tapefix.selct is not a known key (did you mean 'select'?)" in ran.err


def test_settings_and_command_line_add_up(tapefix, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.tapefix]\nignore = ["TOY2"]\nexclude = ["old/"]\n')
    (tmp_path / "train.py").write_text(TWO)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "train.py").write_text(TWO)
    assert "Found 1 problem in 1 file" in tapefix("check").out
    assert "No problems found in 1 file" in tapefix("check", "--ignore", "TOY1").out
    assert "No problems found in 0 files" in tapefix("check", "--exclude", "train.py").out


def test_a_rule_that_crashes_is_told_and_status_2(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(TWO + "# crash\n")
    ran = tapefix("check")
    assert ran.status == 2
    assert "TOY901 failed: ZeroDivisionError: by design" in ran.err
    assert "Found 2 problems" in ran.out
    assert ran.out.rstrip().endswith("; tapefix itself failed 1 time.")


def test_standard_input_bears_the_name_it_is_given(tapefix):
    ran = tapefix("check", "-", "--stdin-filename", "in.py", "--output-format", "concise", stdin=TWO.encode())
    assert ran.status == 1
    assert ran.out.startswith("in.py:4:9 TOY101")


def test_unused_comments_are_told(tapefix, tmp_path):
    (tmp_path / "train.py").write_text("import tensorflow\nx = 1  # tapefix: ignore[TOY101]\n")
    ran = tapefix("check")
    assert (ran.status, ran.err) == (0, "tapefix: train.py:2: unused `# tapefix: ignore[TOY101]`; remove it\n")


def test_what_git_ignores_is_not_looked_at(tapefix, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("out*/\n!keep.py\n")
    for folder in ("src", "output", "src/deep"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "train.py").write_text(TWO)
    (tmp_path / "src" / ".gitignore").write_text("/deep\n")
    ran = tapefix("check", "--output-format", "concise")
    assert {line.split(":")[0] for line in ran.out.splitlines()[:-1]} == {"src/train.py"}
    assert tapefix("check", "output/train.py").status == 1


def test_explain_tells_what_the_model_believes(tapefix, tmp_path):
    (tmp_path / "train.py").write_text("import tensorflow as tf\nx = tf.ones(3)\n")
    ran = tapefix("check", "--explain", "train.py:2")
    assert ran.status == 0
    assert ran.out.startswith("2 | x = tf.ones(3)\n")
    assert len(ran.out.splitlines()) > 1


def test_rule_lists_the_catalogue_and_shows_a_page(tapefix):
    listed = tapefix("rule")
    assert listed.status == 0
    assert "TOY101  numpy-exp: A small model" in listed.out
    assert tapefix("rule", "toy101").out.startswith("TOY101 numpy-exp\n\nA small model and three rules")


def many_files(folder):
    for number in range(30):
        (folder / f"train{number}.py").write_text(TWO * (number % 3) + f"# {number}\n")
    (folder / "broken.py").write_text("x = = 1\n")


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_the_number_of_processes_does_not_show(tapefix, tmp_path, output_format):
    many_files(tmp_path)
    one, four = (tapefix("check", "--no-cache", "--output-format", output_format, "-j", jobs) for jobs in (1, 4))
    assert one == four
    assert one.status == 1


def test_the_cache_answers_alike_and_forgets_what_has_changed(tapefix, tmp_path):
    many_files(tmp_path)
    first, second = tapefix("check"), tapefix("check")
    assert first == second
    assert not any((tmp_path / ".tapefix_cache").glob("*.pickle"))
    (tmp_path / "train1.py").write_text("x = 1\n")
    assert tapefix("check") == tapefix("check", "--no-cache")
    assert "TOY201" not in tapefix("check", "--ignore", "TOY2").out


def test_the_cache_is_used(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(TWO)
    tapefix("check")
    (entry,) = (tmp_path / ".tapefix_cache").glob("*.json")
    entry.write_text(entry.read_text().replace("no gradient flows", "from the cache: no gradient flows"))
    assert "from the cache" in tapefix("check").out
    assert "from the cache" not in tapefix("check", "--no-cache").out


def test_a_damaged_cache_is_made_anew(tapefix, tmp_path):
    (tmp_path / "train.py").write_text(TWO)
    before = tapefix("check")
    for entry in (tmp_path / ".tapefix_cache").glob("*.json"):
        entry.write_text("{")
    assert tapefix("check") == before


HEAVY = ("libcst", "rich", "tensorflow", "keras", "numpy")


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom tapefix.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit as end: assert not end.code\n"
        f"print('HEAVY', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    for arguments in (["--help"], ["check", "--help"], ["apply", "--help"], ["verify", "--help"], ["--version"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env=os.environ
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_a_bad_option_is_status_2(tapefix):
    ran = tapefix("check", "--no-such-option")
    assert ran.status == 2
    assert "Traceback" not in ran.err
