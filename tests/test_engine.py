"""The engine: repairs come in chains, whole or not at all, and once is as good as twice."""

import pytest

from tapefix.codemod import Applicability
from tapefix.engine import Checked, Failed, Skipped, check_document, fix_documents, is_safe
from toy import tools, workspace

NAME = "/p/train.py"


def check(text, **settings):
    return check_document(workspace(train=text), NAME, tools(**settings))


def fix(text, wanted=lambda proposal: True, **settings):
    fixed = fix_documents(workspace(train=text), [NAME], tools(**settings), wanted)
    return fixed.workspace.open(NAME).text, fixed


def test_a_file_without_a_cut_has_no_findings():
    assert check("y = tf.exp(x)\n") == Checked(NAME, ())


def test_a_file_that_does_not_parse_is_told_with_its_line():
    result = check("x = 1\ny = = 2\n")
    assert isinstance(result, Failed)
    assert result.error.startswith(f"{NAME}:2: does not parse")


def test_a_missing_file_is_no_exception():
    assert isinstance(check_document(workspace(), NAME, tools()), Failed)


def test_what_the_model_skips_is_told_with_the_reason():
    assert check("tf.Session()\n") == Skipped(NAME, "TensorFlow 1 graph code")


def test_a_rule_that_crashes_costs_its_own_findings_only():
    result = check("y = np.exp(x)  # crash\n")
    assert [f.code for f in result.findings] == ["TOY101"]
    assert len(result.crashes) == 1
    assert "TOY901 failed: ZeroDivisionError: by design" in result.crashes[0]


def test_one_cut_one_edit():
    (finding,) = check("y = np.exp(x)\n").findings
    (edit,) = finding.fix.edits
    assert "y = np.exp(x)\n"[: edit.start] + edit.content + "y = np.exp(x)\n"[edit.end :] == "y = tf.exp(x)\n"
    assert finding.fix.applicability is Applicability.SAFE


def test_a_chain_is_one_fix_as_safe_as_its_weakest_link():
    (finding,) = check("y = np.mean(np.exp(x))\n").findings
    assert finding.code == "TOY101"
    assert finding.fix.applicability is Applicability.UNSAFE
    assert finding.fix.message == "tf.exp in place of np.exp; then tf.reduce_mean in place of np.mean"
    assert fix("y = np.mean(np.exp(x))\n")[0] == "y = tf.reduce_mean(tf.exp(x))\n"


def test_a_chain_that_ends_in_a_refusal_is_not_offered():
    (finding,) = check("a = 0\ny = np.fft(np.exp(x))\n").findings
    assert finding.fix is None
    expected = "repairing this line only moves the cut to line 2: there is no one transform that fits"
    assert finding.outcome.reason == expected


def test_a_chain_does_not_use_rules_that_are_switched_off():
    (finding,) = check("y = np.mean(np.exp(x))\n", ignore=("TOY102",)).findings
    assert finding.outcome.reason == "repairing this line only moves the cut to line 1: TOY102 is switched off"


def test_a_refusal_elsewhere_is_no_obstacle():
    text = "a = np.fft(x)\ny = np.exp(x)\nb = np.fft(x)\n"
    first, middle, last = check(text).findings
    assert middle.fix is not None
    assert first.fix is None
    assert last.fix is None
    assert fix(text)[0] == text.replace("np.exp", "tf.exp")


def test_a_repair_that_leaves_a_use_that_no_longer_works_is_not_offered():
    (finding,) = check("y = np.exp(x).tolist()\n").findings
    assert finding.outcome.reason == "after the repair line 1 would no longer work: a tensor has no tolist()"


def test_a_broken_use_that_a_rule_can_mend_is_part_of_the_repair():
    (finding,) = check("y = np.exp(x).item()\n").findings
    assert finding.fix.message == "tf.exp in place of np.exp; then the tensor itself"
    assert fix("y = np.exp(x).item()\n")[0] == "y = tf.exp(x)\n"


def test_a_use_that_never_worked_is_no_obstacle():
    text = "z = tf.exp(x).tolist()\ny = np.exp(x)\n"
    assert fix(text)[0] == "z = tf.exp(x).tolist()\ny = tf.exp(x)\n"


def test_a_rewrite_that_does_not_parse_is_reverted_and_its_rule_named():
    (finding,) = check("y = np.sum(x)\n").findings
    assert finding.outcome.reason.startswith("the rewrite by TOY103 gives code that does not parse")
    assert fix("y = np.sum(x)\n")[0] == "y = np.sum(x)\n"


def test_a_rewrite_that_changes_nothing_is_not_offered():
    (finding,) = check("y = np.abs(x)\n").findings
    assert finding.fix is None


def test_rewrites_that_undo_each_other_come_to_an_end():
    (finding,) = check("y = np.log(x)\n").findings
    assert finding.outcome.reason.startswith("repairing this line comes to no end")


def test_all_of_a_files_cuts_are_repaired_one_after_another():
    text = "a = np.exp(x) + np.exp(y)\nb = np.exp(z)\n"
    after, fixed = fix(text)
    assert after == text.replace("np.", "tf.")
    assert len(fixed.applied) == 3
    assert fixed.results[NAME].findings == ()


def test_twice_is_once():
    once, _ = fix("a = np.mean(np.exp(x))\nb = np.fft(np.exp(y))\n")
    twice, fixed = fix(once)
    assert twice == once
    assert fixed.applied == []


def test_only_what_is_wanted_is_written_and_the_rest_remains():
    after, fixed = fix("a = np.exp(x)\nb = np.mean(y)\n", wanted=is_safe)
    assert after == "a = tf.exp(x)\nb = np.mean(y)\n"
    assert [f.code for f in fixed.results[NAME].findings] == ["TOY102"]


def test_identical_statements_are_told_apart():
    text = "y = np.exp(x)\n" * 3
    after, _ = fix(text, wanted=lambda proposal: proposal.identity.ordinal == 1)
    assert after.splitlines() == ["y = np.exp(x)", "y = tf.exp(x)", "y = np.exp(x)"]


@pytest.mark.parametrize("comment", ["tapefix: ignore", "tapefix: ignore[TOY101]", "tapefix:ignore[TOY1, TAP1]"])
def test_a_comment_on_the_line_silences(comment):
    result = check(f"y = np.exp(x)  # {comment}\nz = np.exp(x)\n")
    assert [f.place.row for f in result.findings] == [2]
    assert result.unused == ()


def test_a_comment_for_another_rule_silences_nothing_and_is_told():
    result = check("y = np.exp(x)  # tapefix: ignore[TOY102]\n")
    assert len(result.findings) == 1
    assert [comment.text for comment in result.unused] == ["# tapefix: ignore[TOY102]"]


def test_a_comment_for_a_rule_that_is_off_is_not_called_unused():
    assert check("y = np.exp(x)  # tapefix: ignore[TOY102]\n", ignore=("TOY102",)).unused == ()


def test_text_that_looks_like_a_comment_silences_nothing():
    assert len(check('y = np.exp("# tapefix: ignore")\n').findings) == 1


def test_a_whole_file_is_silenced():
    assert check("# tapefix: ignore-file\ny = np.exp(x)\n").findings == ()
    assert len(check("# tapefix: ignore-file[TOY102]\ny = np.exp(x)\n").findings) == 1


def test_a_cut_in_an_imported_module_is_repaired_there():
    files = workspace(train="import helper\nloss = helper.f(x)\n", helper="def f(x):\n    return np.exp(x)\n")
    (finding,) = check_document(files, NAME, tools()).findings
    assert finding.place.filename == "/p/helper.py"
    fixed = fix_documents(files, [NAME], tools(), is_safe)
    assert list(fixed.workspace.changed) == ["/p/helper.py"]
    assert fixed.workspace.open("/p/helper.py").text == "def f(x):\n    return tf.exp(x)\n"


def test_a_comment_in_an_imported_module_counts():
    files = workspace(train="import helper\n", helper="y = np.exp(x)  # tapefix: ignore\n")
    result = check_document(files, NAME, tools())
    assert result.findings == ()
    assert result.used_elsewhere == (("/p/helper.py", 1),)


def test_the_workspace_tells_what_a_result_rests_on():
    files = workspace(train="import helper\nimport absent\n", helper="y = 1\n")
    check_document(files, NAME, tools())
    assert set(files.consulted) == {NAME, "/p/helper.py", "/p/absent.py"}
    assert files.consulted["/p/absent.py"] is None


def test_selection_takes_the_longest_beginning():
    text = "a = np.exp(x)\nb = np.mean(y)\nc = np.fft(z)\n"

    def codes(**settings):
        return [f.code for f in check(text, **settings).findings]

    assert codes(select=("TOY1",)) == ["TOY101", "TOY102"]
    assert codes(select=("TOY1",), ignore=("TOY102",)) == ["TOY101"]
    assert codes(select=("TOY102",), ignore=("TOY1",)) == ["TOY102"]
    assert codes(ignore=("TOY",), extend_select=("TOY2",), select=("TOY",)) == ["TOY201"]
    assert codes(per_file_ignores=(("train.py", ("TOY10",)),)) == ["TOY201"]
