"""Documents: bytes in, the same bytes out but for the edits; places count as people and editors do."""

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapefix.documents.discovery import find_files
from tapefix.documents.document import Document, Edit, UnreadableDocument
from tapefix.documents.suppressions import suppressions_of
from tapefix.documents.workspace import Workspace
from tapefix.errors import TapefixError


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x = 1",
        b"x = 1\r\ny = 2\r",
        b"\xef\xbb\xbfx = 1\n",
        b"# coding: latin-1\nx = '\xe9'\n",
        "x = '\u2028'\n\x0cy = 1\n".encode(),
    ],
)
def test_an_edit_of_nothing_gives_the_same_bytes(data):
    document = Document("x.py", data)
    assert document.apply([]).data == data
    assert document.apply([Edit("x.py", 0, 0, "")]).data == data


def test_an_edit_touches_nothing_else():
    document = Document("x.py", b"# coding: latin-1\r\ny = '\xe9' + a\r\n\x0cz = 1")
    start = document.text.index("a\r")
    assert document.apply([Edit("x.py", start, start + 1, "b")]).data == document.data.replace(b"+ a", b"+ b")


def test_edits_that_overlap_are_an_error():
    with pytest.raises(ValueError, match="overlap"):
        Document("x.py", b"abcdef").apply([Edit("x.py", 0, 3, "x"), Edit("x.py", 2, 4, "y")])


@given(st.text(alphabet=st.sampled_from("aé重𝛼 \t\f\r\n\u2028"), max_size=40))
def test_positions_and_offsets_are_one_another(text):
    document = Document("x.py", text.encode())
    for offset in range(len(text) + 1):
        assert document.offset_at(*document.position(offset)) == offset


def test_places_count_characters_where_ast_counts_bytes():
    document = Document("x.py", "é = f('重')\n".encode())
    call = document.tree.body[0].value
    place = document.place(call)
    assert (place.row, place.column, place.end_column) == (1, 5, 11)
    assert document.text_at(place) == document.source(call) == "f('重')"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"x = \xff\n", "not readable as text"),
        (b"# coding: nonsense\n", "not readable as text"),
        (b"x = 1\nprint 1\n", ":2: does not parse as Python 3"),
        (b"x = 1\0\n", "does not parse as Python 3"),
    ],
)
def test_what_is_no_python_is_told_in_one_line(data, problem):
    with pytest.raises(UnreadableDocument, match=problem) as failed:
        _ = Document("x.py", data).tree
    assert "\n" not in str(failed.value)


def test_comments_are_known_from_text():
    document = Document("x.py", b"s = '# tapefix: ignore'\nx = 1  # because  # tapefix: ignore[TAP101, tap2]\r\n")
    (comment,) = suppressions_of(document).comments
    assert (comment.row, comment.codes, comment.whole_file) == (2, ("TAP101", "TAP2"), False)


def test_a_comment_counts_on_any_line_of_the_finding():
    document = Document("x.py", b"x = f(\n  a,  # tapefix: ignore\n)\n")
    place = document.place(ast.parse("x = f(\n  a,\n)").body[0])
    assert suppressions_of(document).cover("TAP101", place)


def test_a_workspace_gives_the_same_document_until_it_is_edited():
    workspace = Workspace({"/p/x.py": b"a\n"}.get)
    first = workspace("/p/x.py")
    assert workspace("/p/x.py") is first
    edited = workspace.edited([Edit("/p/x.py", 0, 1, "b")])
    assert (workspace.open("/p/x.py").text, edited.open("/p/x.py").text) == ("a\n", "b\n")
    assert list(edited.changed) == ["/p/x.py"]
    assert edited.edited([Edit("/p/x.py", 0, 1, "a")]).changed == {}
    assert workspace("/p/none.py") is None


def lay(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def names(found, folder):
    return [name[len(str(folder)) + 1 :] for name in found.files]


def test_folders_give_their_python_files_in_order_and_none_of_other_peoples(tmp_path):
    lay(tmp_path, "b.py", "a/x.py", "a/note.txt", ".venv/lib/y.py", "node_modules/z.py", "a/__pycache__/x.py")
    assert names(find_files([str(tmp_path)]), tmp_path) == ["a/x.py", "b.py"]


def test_ignore_files_outside_a_repository_hold_below_themselves(tmp_path):
    lay(tmp_path, "a/x.py", "a/y.py", "b/x.py")
    (tmp_path / "a" / ".gitignore").write_text("x.py\n")
    assert names(find_files([str(tmp_path)]), tmp_path) == ["a/y.py", "b/x.py"]


def test_excluded_folders_are_not_entered_but_named_files_are_taken(tmp_path):
    lay(tmp_path, "a/x.py", "b/x.py", "c/deep/x.py")
    found = find_files([str(tmp_path), str(tmp_path / "a" / "x.py")], ["a/", "c/**"], tmp_path)
    assert names(found, tmp_path) == ["a/x.py", "b/x.py"]
    assert found.named == {str(tmp_path / "a" / "x.py")}


def test_links_that_lead_in_a_circle_are_not_followed(tmp_path):
    lay(tmp_path, "a/x.py")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert names(find_files([str(tmp_path)]), tmp_path) == ["a/x.py"]


def test_a_missing_path_is_an_error():
    with pytest.raises(TapefixError, match="no such file or folder"):
        find_files(["/no/such/file.py"])


def test_what_python_says_of_an_escape_sequence_is_not_told():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Document("a.py", b's = "\\s"\n').tree.body
