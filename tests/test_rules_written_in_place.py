"""The repairs of TAP101-TAP104 to the letter: each fixture with an after.py, and what is repaired in no other way.

An after.py is what `apply` makes of before.py (`apply --unsafe-fixes` where the case calls for judgement). It trains
as fixed.py, the repair by hand, does; see test_fixtures_programs.py for before.py and fixed.py themselves.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import math
import pathlib
import sys
import tokenize
from collections.abc import Callable, Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from program_runner import ProgramRunner
from tapefix.codemod import Fix, Refusal
from tapefix.config import Config
from tapefix.documents.workspace import Workspace
from tapefix.engine import Checked, Fixed, Proposal, check_document, fix_documents, is_safe
from tapefix.reading import Tools
from tapefix.runner import load_tools
from test_fixtures_programs import assert_trains, first_calls, first_loss, runs_programs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
CODES = ("TAP101", "TAP102", "TAP103", "TAP104")
GOLDEN = sorted(path.parent for code in CODES for path in FIXTURES.glob(f"{code}/*/after.py"))
each_golden = pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.parent.name}-{case.name}")


@pytest.fixture(scope="module")
def tools() -> Callable[[bool], Tools]:
    known = {unsafe: load_tools(dataclasses.replace(Config(), unsafe_fixes=unsafe)) for unsafe in (False, True)}
    return known.__getitem__


def everything(_: Proposal) -> bool:
    return True


def applied(text: str, tools: Tools, unsafe: bool = False) -> Fixed:
    """What `apply` makes of a program."""
    name = str(pathlib.Path("program.py").absolute())
    workspace = Workspace(lambda filename: text.encode() if filename == name else None)
    return fix_documents(workspace, [name], tools, everything if unsafe else is_safe)


def text_of(fixed: Fixed) -> str:
    return fixed.workspace.open("program.py").text


def wants_judgement(case: pathlib.Path) -> bool:
    return tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))["fix"] != "safe"


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) > 40


@each_golden
def test_the_repair_to_the_letter(case: pathlib.Path, tools: Callable[[bool], Tools]) -> None:
    before = (case / "before.py").read_text(encoding="utf-8")
    unsafe = wants_judgement(case)
    after = text_of(applied(before, tools(unsafe), unsafe))
    assert after == (case / "after.py").read_text(encoding="utf-8")
    ast.parse(after)
    assert comments(after) == comments(before)


@each_golden
def test_a_second_apply_changes_nothing(case: pathlib.Path, tools: Callable[[bool], Tools]) -> None:
    after = (case / "after.py").read_text(encoding="utf-8")
    unsafe = wants_judgement(case)
    assert not applied(after, tools(unsafe), unsafe).applied


@pytest.fixture(scope="module")
def runner() -> Iterator[ProgramRunner]:
    with ProgramRunner() as ready:
        yield ready


@runs_programs
@each_golden
def test_the_repair_trains_as_the_one_by_hand(case: pathlib.Path, runner: ProgramRunner) -> None:
    after, fixed = runner.run(case / "after.py"), runner.run(case / "fixed.py")
    assert_trains(after)
    assert math.isclose(first_loss(after), first_loss(fixed), rel_tol=2e-5, abs_tol=1e-7)
    places = list(zip(first_calls(after), first_calls(fixed), strict=False))
    assert places
    for one, other in places:
        assert len(one["norms"]) == len(other["norms"])
        for mine, theirs in zip(sorted(one["norms"]), sorted(other["norms"]), strict=True):
            assert math.isclose(mine, theirs, rel_tol=1e-3, abs_tol=1e-6)


TRAIN = """

w = tf.Variable(tf.ones([4, 3]))
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(forward(w))
print(tape.gradient(loss, w))
"""


def program(body: str) -> str:
    return "import numpy as np\nimport tensorflow as tf\n\n\n" + body.strip("\n") + "\n" + TRAIN


#: what is written -> (the function before, the lines that the repair puts in)
WRITTEN = {
    "a number goes to every entry of its slot": (
        """
def forward(w):
    out = np.zeros((4, 3), np.float32)
    for i in range(4):
        out[i] = tf.reduce_sum(w[i])
    return out
""",
        ["out = []", "out.append(tf.broadcast_to(tf.reduce_sum(w[i]), [3]))", "out = tf.stack(out)"],
    ),
    "a column is stretched over its slot": (
        """
def forward(w):
    out = np.zeros((4, 2, 3), np.float32)
    for k in range(2):
        out[:, k] = tf.reduce_sum(w, axis=1, keepdims=True)
    return out
""",
        [
            "out = []",
            "out.append(tf.broadcast_to(tf.reduce_sum(w, axis=1, keepdims=True), [4, 3]))",
            "out = tf.stack(out, axis=1)",
        ],
    ),
    "a batch of one loses its axis": (
        """
dense = tf.keras.layers.Dense(3)


def forward(w):
    out = np.zeros((4, 3), np.float32)
    for i in range(4):
        out[i] = dense(w[i][None])
    return out
""",
        ["out = []", "out.append(tf.reshape(dense(w[i][None]), [3]))", "out = tf.stack(out)"],
    ),
    "a value of unknown rank may want either": (
        """
def forward(w, how=(tf.tanh, tf.reduce_sum)):
    out = np.zeros((4, 3), np.float32)
    for i in range(4):
        out[i] = how[i % 2](w[i])
    return out
""",
        [
            "out = []",
            "out.append(tf.reshape(tf.broadcast_to(how[i % 2](w[i]), [1, 3]), [3]))",
            "out = tf.stack(out)",
        ],
    ),
    "a buffer that may have no columns stays what it is": (
        """
def forward(w):
    n = w.shape[1] - 1
    out = np.zeros((4, n, 3), np.float32)
    for k in range(n):
        out[:, k] = w * k
    return out
""",
        ["out = []", "out.append(w * k)", "out = tf.stack(out, axis=1) if out else np.zeros((4, n, 3), np.float32)"],
    ),
    "two places in one statement": (
        """
def forward(w):
    out = np.zeros((4, 4), np.float32)
    for i in range(4):
        for j in range(i):
            out[i, j] = out[j, i] = tf.reduce_sum(w[i] * w[j])
    return out
""",
        [
            "out = [[0.0] * 4 for _ in range(4)]",
            "out[i][j] = out[j][i] = tf.reduce_sum(w[i] * w[j])",
            "out = tf.stack(out)",
        ],
    ),
    "a function gives back what it fills": (
        """
def fill(out, w):
    for i in range(4):
        out[i] = w[i] * 2.0
    return out


def forward(w):
    out = np.zeros((4, 3), np.float32)
    out = fill(out, w)
    return out
""",
        ["out = tf.tensor_scatter_nd_update(out, [[i]], [w[i] * 2.0])", "out = tf.zeros((4, 3))"],
    ),
    "what the next call reads": (
        """
class Cell:
    def __init__(self):
        self.h = tf.Variable(tf.zeros([3]))

    def __call__(self, row):
        self.h.assign(tf.tanh(0.5 * self.h + row))
        return self.h


def forward(w):
    cell = Cell()
    return [cell(row) for row in tf.unstack(w)]
""",
        ["self.h = tf.zeros([3])", "self.h = tf.tanh(0.5 * self.h + row)"],
    ),
    "what the next pass reads": (
        """
state = tf.Variable(tf.zeros([3]), trainable=False)


def forward(w):
    total = 0.0
    for i in range(4):
        if i % 2 == 0:
            state.assign(tf.tanh(w[i]))
        total += tf.square(state + w[i])
    return total
""",
        [
            "state_value = tf.convert_to_tensor(state)",
            "state_value = tf.tanh(w[i])",
            "state.assign(state_value)",
            "total += tf.square(state_value + w[i])",
        ],
    ),
    "a loop over the rows of a tensor in a graph": (
        """
buffer = tf.Variable(tf.zeros([4, 3]), trainable=False)


@tf.function
def forward(w):
    for i in tf.range(4):
        buffer[i].assign(tf.sin(w[i]))
    return buffer * 2.0
""",
        [
            "buffer_value = tf.convert_to_tensor(buffer)",
            "buffer_value = tf.tensor_scatter_nd_update(buffer_value, [[i]], [tf.sin(w[i])])",
            "buffer.assign(buffer_value)",
            "return buffer_value * 2.0",
        ],
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_what_is_written_keeps_its_shape(what: str, tools: Callable[[bool], Tools]) -> None:
    body, wanted = WRITTEN[what]
    before = program(body)
    after = text_of(applied(before, tools(False)))
    old = [line.strip() for line in before.splitlines()]
    new = [line.strip() for line in after.splitlines()]
    assert sorted(line for line in new if line and new.count(line) > old.count(line)) == sorted(wanted)


#: why not -> the function, and words of the refusal
REFUSED = {
    "a view": (
        """
def forward(w):
    out = np.zeros((3, 4), np.float32)
    for i in range(4):
        out.T[i] = w[i]
    return out
""",
        "it is written through `out.T`",
    ),
    "a part by another name": (
        """
def forward(w):
    out = np.zeros((4, 3), np.float32)
    for i in range(4):
        row = out[i]
        for j in range(3):
            row[j] = w[i, j]
    return out
""",
        "`row` is a part of `out`",
    ),
    "a second name that sees the later writes": (
        """
def forward(w):
    out = np.zeros((4, 3), np.float32)
    kept = []
    for i in range(4):
        out[i] = w[i]
        kept.append(out)
    return tf.stack(kept)
""",
        "keeps `out` while it is still written",
    ),
    "a state of a layer that each call takes up": (
        """
class Cell(tf.keras.layers.Layer):
    def build(self, shape):
        self.h = self.add_weight(shape=(3,), trainable=False, initializer="zeros")

    def call(self, row):
        self.h.assign(tf.tanh(row + self.h))
        return self.h * 1.0


cell = Cell()


def forward(w):
    return [cell(row) for row in tf.unstack(w)]
""",
        "each call starts from what the one before has written",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_says_why(what: str, tools: Callable[[bool], Tools]) -> None:
    body, reason = REFUSED[what]
    before = program(body)
    fixed = applied(before, tools(False))
    assert text_of(fixed) == before
    (result,) = fixed.results.values()
    assert isinstance(result, Checked)
    reasons = [finding.outcome.reason for finding in result.findings if isinstance(finding.outcome, Refusal)]
    assert any(reason in said for said in reasons), reasons


FILLED_ELSEWHERE = """
from filling import fill


def forward(w):
    out = np.zeros((4, 3), np.float32)
    fill(out, w)  # two slots at a time
    return out.mean(axis=0)
"""


def checked(folder: pathlib.Path, filling: str, tools: Tools) -> tuple[Workspace, Fix | Refusal]:
    """Two files, and what is said of the only finding in the one that trains."""
    (folder / "filling.py").write_text(filling)
    (folder / "main.py").write_text(program(FILLED_ELSEWHERE))
    workspace = Workspace()
    result = check_document(workspace, str(folder / "main.py"), tools)
    assert isinstance(result, Checked)
    (finding,) = result.findings
    assert finding.place.filename == str(folder / "filling.py")
    return workspace, finding.outcome


def test_a_buffer_that_another_file_fills(tmp_path: pathlib.Path, tools: Callable[[bool], Tools]) -> None:
    filling = "def fill(out, w):\n    for i in range(4):\n        out[i] = w[i] * 2.0\n"
    workspace, fix = checked(tmp_path, filling, tools(False))
    assert isinstance(fix, Fix)
    assert {edit.filename for edit in fix.edits} == {str(tmp_path / "main.py")}
    after = workspace.edited(fix.edits).open(str(tmp_path / "main.py")).text
    assert (
        "    out = list(np.zeros((4, 3), np.float32))\n"
        "    fill(out, w)  # two slots at a time\n"
        "    out = tf.stack(out)\n"
        "    return tf.reduce_mean(out, axis=0)\n"
    ) in after


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("out[i:i + 1] = w[i:i + 1]", "filling.py, line 3, uses more than one slot"),
        ("out[i] += w[i]", "filling.py, line 3, changes a slot"),
        ("out[i] = w[i, 0]", "filling.py, line 3, may write a value of another shape"),
        ("out.T[0] = w[:, 0]", "filling.py, line 3: it is written through `out.T`"),
    ],
)
def test_what_only_an_array_takes_is_refused_by_its_file(
    tmp_path: pathlib.Path, tools: Callable[[bool], Tools], line: str, reason: str
) -> None:
    filling = f"def fill(out, w):\n    for i in range(4):\n        {line}\n"
    _, refusal = checked(tmp_path, filling, tools(False))
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason
    assert "main.py" in refusal.reason
