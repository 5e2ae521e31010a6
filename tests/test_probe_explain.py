"""The rules of explanation, each on a few hand-written edges."""

from __future__ import annotations

import pytest

from tapefix.probe import graph as g
from tapefix.probe.explain import explain
from tapefix.probe.frames import Frame

TAPE = 1


class Story:
    """Writes down what happened, a line of the program at a time. Nodes are named."""

    def __init__(self):
        self.graph = g.Graph()
        self.names: dict[str, int] = {}
        self.when = 0
        self.opened = self.event(10, "tape")

    def node(self, name):
        return self.names.setdefault(name, len(self.names) + 1)

    def event(self, line, op="op", tapes=(TAPE,), frames=()):
        self.when += 1
        stack = (*frames, Frame((1, 0), "main", "a.py", line)) if frames else (Frame((1, 0), "main", "a.py", line),)
        return g.Event(self.when, op, stack, tuple(tapes))

    def read(self, line, variable, out, tapes=(TAPE,)):
        state = self.node(f"state of {variable}")
        self.graph.variable[state] = self.node(variable)
        self.graph.edges.append(g.Edge(state, self.node(out), g.READ, self.event(line, "ReadVariableOp", tapes)))

    def op(self, line, op, inputs, out, carries=True, tapes=(TAPE,), hard=False):
        event = self.event(line, op, tapes)
        if hard:
            self.graph.hard.add(self.node(out))
        for name in inputs:
            self.graph.edges.append(g.Edge(self.node(name), self.node(out), g.OP, event, carries and not hard))
        self.graph.born[self.node(out)] = event

    def link(self, line, kind, src, dst, op=""):
        self.graph.edges.append(g.Edge(self.node(src), self.node(dst), kind, self.event(line, op or kind)))

    def variable(self, name, status="none", **more):
        return g.Source(name, variable=self.node(name), status=status, **more)

    def ask(self, *sources, goal="loss", suspected=()):
        asked = self.event(99, "gradient")
        lines = frozenset(("a.py", line) for line in suspected)
        return explain(
            self.graph, g.Question(TAPE, self.opened, asked, (self.node(goal),), tuple(sources), suspected=lines)
        )


def lines(reasons, partial=False):
    return [(r.kind, r.place[1]) for r in reasons if r.partial == partial]


def test_a_gradient_that_is_there_needs_no_reason():
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "Square", ["x"], "loss")
    assert story.ask(story.variable("w", status="ok")) == []


def test_what_comes_back_before_the_cut_is_no_cause():
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "StopGradient", ["x"], "mean", carries=False)
    story.op(12, "SquaredDifference", ["x", "mean"], "variance")
    story.link(13, g.EXPORT, "variance", "number", "numpy")
    story.link(14, g.ENTER, "number", "loss")
    assert lines(story.ask(story.variable("w"))) == [(g.EXPORT, 13)]


def test_a_value_that_left_and_came_back_is_cut_where_it_left():
    story = Story()
    story.read(11, "w", "x")
    story.link(12, g.EXPORT, "x", "number", "numpy")
    story.link(13, g.PYTHON, "number", "mean")
    story.link(14, g.ENTER, "mean", "t")
    story.op(14, "Square", ["t"], "loss")
    reasons = story.ask(story.variable("w"))
    assert lines(reasons) == [(g.EXPORT, 12)]
    assert reasons[0].back == ("a.py", 14)


def test_a_number_for_the_log_is_no_cut():
    story = Story()
    story.read(11, "w", "x")
    story.link(12, g.EXPORT, "x", "logged", "numpy")
    story.op(13, "Round", ["x"], "r", carries=False)
    story.op(14, "Square", ["r"], "loss")
    assert lines(story.ask(story.variable("w"))) == [(g.OP, 13)]


def test_a_written_variable_is_cut_at_the_write():
    story = Story()
    story.read(11, "w", "x")
    story.link(12, g.WRITE, "x", "state of buffer", "ResourceStridedSliceAssign")
    story.read(13, "buffer", "b")
    story.op(14, "Sum", ["b"], "loss")
    assert lines(story.ask(story.variable("w"))) == [(g.WRITE, 12)]


def test_the_state_before_a_partial_write_counts_only_without_another_cut():
    story = Story()
    story.read(11, "w", "x")
    story.link(12, g.STATE, "state of w", "state 2 of w")
    story.link(12, g.WRITE, "x", "state 2 of w", "ResourceScatterAdd")
    story.graph.variable[story.node("state 2 of w")] = story.node("w")
    story.graph.edges.append(g.Edge(story.node("state 2 of w"), story.node("y"), g.READ, story.event(13, tapes=())))
    story.op(14, "Sum", ["y"], "loss")
    assert (g.WRITE, 12) in lines(story.ask(story.variable("w")))


def test_a_variable_that_is_not_trainable_is_told_at_the_call():
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "Square", ["x"], "loss")
    assert lines(story.ask(story.variable("w", trainable=False))) == [("untrainable", 99)]
    assert lines(story.ask(story.variable("w", integer=True))) == [("integer", 99)]


def test_an_input_that_is_not_watched_is_told_at_the_tape():
    story = Story()
    story.op(12, "Square", ["picture"], "loss", carries=True)
    source = g.Source("picture", node=story.node("picture"), watched=False)
    assert lines(story.ask(source)) == [("unwatched", 10)]


def test_a_tensor_among_variables_is_told_where_it_is_made():
    story = Story()
    story.op(5, "Fill", [], "bias", tapes=())
    story.read(11, "w", "x")
    story.op(12, "AddV2", ["x", "bias"], "loss")
    bias = g.Source("bias", node=story.node("bias"), watched=False)
    assert lines(story.ask(bias, story.variable("w", status="ok"))) == [("unwatched", 5)]


def test_a_tensor_watched_after_its_use_is_told_at_the_use():
    story = Story()
    story.op(12, "Square", ["x"], "y")
    late = story.event(13).when
    story.op(14, "Sum", ["y"], "loss")
    source = g.Source("x", node=story.node("x"), watched_at=late)
    assert lines(story.ask(source)) == [("late", 12)]


def test_a_read_before_the_tape_is_outside():
    story = Story()
    story.read(7, "w", "x", tapes=())
    story.op(12, "Square", ["x"], "loss")
    assert lines(story.ask(story.variable("w"))) == [("outside", 7)]


def test_an_operation_after_the_tape_is_told():
    story = Story()
    story.read(11, "w", "x")
    story.op(20, "Square", ["x"], "loss", tapes=())
    assert lines(story.ask(story.variable("w"))) == [("after", 20)]


def test_a_value_that_decides_a_branch():
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "Greater", ["x"], "flag", hard=True)
    story.graph.tests.append(g.Test(story.event(13, "truth"), (story.node("flag"),)))
    story.op(14, "Sum", ["data"], "loss")
    assert lines(story.ask(story.variable("w"))) == [("decides", 13)]


@pytest.mark.parametrize(("word", "line"), [("left", 13), ("rights", 15)])
def test_of_several_branches_the_one_that_speaks_of_the_source(word, line):
    story = Story()
    story.graph.tests += [
        g.Test(story.event(13, "truth"), (), mentions=frozenset(["left"])),
        g.Test(story.event(15, "if"), (), mentions=frozenset(["right"]), weak=True),
    ]
    story.op(16, "Sum", ["data"], "loss")
    assert lines(story.ask(story.variable("w", words=frozenset([word])))) == [("undecided", line)]


def test_a_source_that_nobody_reads_is_told_at_the_call():
    story = Story()
    story.op(12, "Sum", ["data"], "loss")
    assert lines(story.ask(story.variable("w"))) == [("unread", 99)]


def test_a_layer_made_in_the_call_comes_before_branches():
    story = Story()
    story.graph.made.append(story.event(12, "made"))
    story.graph.tests.append(g.Test(story.event(13, "truth"), ()))
    story.op(14, "Sum", ["data"], "loss")
    assert lines(story.ask(story.variable("w"))) == [("made", 12)]


def test_a_result_that_is_thrown_away_is_a_dead_end():
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "Relu", ["x"], "h")
    story.op(13, "Sum", ["data"], "loss")
    assert lines(story.ask(story.variable("w"))) == [("dead-end", 12)]


def test_sign_on_every_way_makes_the_gradient_zero():
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "Sign", ["x"], "s")
    story.op(13, "Sum", ["s"], "loss")
    assert lines(story.ask(story.variable("w", status="zero"))) == [("zero", 12)]


def test_an_unused_expert_with_zero_gradient_has_no_reason():
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "Mul", ["x", "mask"], "loss")
    assert story.ask(story.variable("w", status="zero")) == []


def detached(meeting, then=()):
    """A loss in which `out` stays live and a number made from it meets it in one operation."""
    story = Story()
    story.read(11, "w", "out")
    story.link(12, g.EXPORT, "out", "number", "__float__")
    story.link(13, g.ENTER, "number", "t")
    story.op(13, meeting, ["out", "t"], "m")
    last = "m"
    for step, op in enumerate(then):
        story.op(14 + step, op, [last], f"then {step}")
        last = f"then {step}"
    return story.ask(story.variable("w", status="ok"), goal=last)


@pytest.mark.parametrize("op", ["AddV2", "AddN", "ConcatV2", "Pack"])
def test_a_term_without_its_gradient_is_a_partial_cut(op):
    assert lines(detached(op), partial=True) == [(g.EXPORT, 12)]


@pytest.mark.parametrize("op", ["Mul", "RealDiv", "SquaredDifference", "Minimum"])
def test_a_weight_a_scale_or_a_target_is_detached_on_purpose(op):
    assert detached(op) == []


def test_a_difference_is_a_target_when_squared_and_a_term_when_not():
    assert detached("Sub", ["Square", "Mean"]) == []
    assert lines(detached("Sub", ["Mean", "Neg"]), partial=True) == [(g.EXPORT, 12)]


def test_an_index_made_from_a_value_is_no_partial_cut():
    story = Story()
    story.read(11, "w", "out")
    story.op(12, "ArgMax", ["out"], "index", hard=True)
    story.link(13, g.EXPORT, "index", "number", "__int__")
    story.graph.hard.add(story.node("number"))
    story.link(14, g.ENTER, "number", "t")
    story.op(14, "AddV2", ["out", "t"], "loss")
    assert story.ask(story.variable("w", status="ok")) == []


def test_features_through_other_weights_are_a_partial_cut_and_through_their_own_are_not():
    def story_with(kernel):
        story = Story()
        story.read(11, "encoder", "code")
        story.link(12, g.EXPORT, "code", "array", "numpy")
        story.link(13, g.ENTER, "array", "t")
        story.read(13, kernel, "k")
        story.op(13, "MatMul", ["t", "k"], "logits")
        story.op(14, "AddV2", ["logits", "code"], "loss")
        return story.ask(story.variable("encoder", status="ok"), story.variable("head", status="ok"))

    assert lines(story_with("head"), partial=True) == [(g.EXPORT, 12)]
    assert story_with("encoder") == []


def test_one_place_is_told_once_with_all_its_sources():
    story = Story()
    for name in ("kernel", "bias"):
        story.read(11, name, f"{name} read")
    story.op(12, "AddV2", ["kernel read", "bias read"], "x")
    story.op(13, "Round", ["x"], "r", carries=False)
    story.op(14, "Sum", ["r"], "loss")
    (reason,) = story.ask(story.variable("kernel"), story.variable("bias"))
    assert reason.sources == (0, 1)


def rounded_beside(how):
    """`w` is rounded, and what becomes of that (`how` writes it down) is joined with `w` itself."""
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "Round", ["x"], "r", carries=False)
    how(story)
    return lines(story.ask(story.variable("w", "ok")), partial=True)


def test_a_rounded_term_beside_a_whole_one_is_partial():
    def added(story):
        story.op(13, "Square", ["r"], "a")
        story.op(14, "AddV2", ["a", "x"], "loss")

    assert rounded_beside(added) == [("op", 12)]


def test_a_rounded_value_that_is_stopped_or_only_taken_off_is_no_cut():
    def stopped(story):
        story.op(13, "StopGradient", ["r"], "s", carries=False)
        story.op(14, "AddV2", ["s", "x"], "loss")

    def fraction(story):
        story.op(13, "Sub", ["x", "r"], "loss")

    assert rounded_beside(stopped) == []
    assert rounded_beside(fraction) == []


@pytest.mark.parametrize(("taken", "partial"), [("Mean", [("export", 13)]), ("Max", [])])
def test_the_mean_of_itself_as_a_number_is_a_cut_the_maximum_is_not(taken, partial):
    story = Story()
    story.read(11, "w", "x")
    story.op(12, taken, ["x"], "m")
    story.link(13, g.EXPORT, "m", "number")
    story.link(14, g.ENTER, "number", "again")
    shifted = story.event(14, "Sub")
    for name in ("x", "again"):
        story.graph.edges.append(g.Edge(story.node(name), story.node("shifted"), g.OP, shifted, True))
    story.op(15, "Exp", ["shifted"], "loss")
    assert lines(story.ask(story.variable("w", "ok")), partial=True) == partial


@pytest.mark.parametrize(("joined", "partial"), [("AddV2", [("op", 12)]), ("Sub", [("op", 12)]), ("Mul", [])])
def test_a_count_is_cut_as_a_term_of_the_target_and_not_as_a_factor(joined, partial):
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "Greater", ["x"], "above", hard=True)
    story.op(13, "Cast", ["above"], "ones", carries=False)
    story.op(14, "Sum", ["ones"], "count")
    story.op(15, "Sum", ["x"], "cost")
    joining = story.event(16, joined)
    for name in ("cost", "count"):
        story.graph.edges.append(g.Edge(story.node(name), story.node("loss"), g.OP, joining, True))
    assert lines(story.ask(story.variable("w", "ok")), partial=True) == partial


def test_what_an_index_takes_from_a_living_tensor_is_no_count():
    story = Story()
    story.read(11, "w", "x")
    story.op(12, "ArgMin", ["x"], "nearest", hard=True)
    taken = story.event(13, "GatherV2")
    for name, carries in (("x", True), ("nearest", False)):
        story.graph.edges.append(g.Edge(story.node(name), story.node("distance"), g.OP, taken, carries))
    story.op(14, "Mean", ["distance"], "loss")
    assert lines(story.ask(story.variable("w", "ok")), partial=True) == []


# ---------------------------------------------------------------------- what `check` has found at the line
def masked():
    """The score of `w` is compared in line 12, the mask made a float in 13 and multiplied with the score itself."""
    story = Story()
    story.read(11, "w", "score")
    story.op(12, "Greater", ["score"], "above", hard=True)
    story.op(13, "Cast", ["above"], "mask", carries=False)
    story.op(14, "Mul", ["mask", "score"], "loss")
    return story


@pytest.mark.parametrize(
    ("suspected", "partial"), [((), []), ((12,), [("op", 12)]), ((13,), [("op", 13)]), ((14,), [])]
)
def test_a_mask_beside_its_own_value_is_a_cut_where_check_has_a_finding(suspected, partial):
    story = masked()
    assert lines(story.ask(story.variable("w", "ok"), suspected=suspected), partial=True) == partial


def test_a_hard_value_whose_gradient_is_made_by_hand_is_no_cut():
    story = masked()
    story.op(15, "StopGradient", ["mask"], "reward", carries=False)
    story.read(11, "w", "logit")
    story.op(16, "Mul", ["reward", "logit"], "score")
    story.op(17, "AddV2", ["loss", "score"], "sum")
    assert lines(story.ask(story.variable("w", "ok"), goal="sum", suspected=(13,)), partial=True) == []


@pytest.mark.parametrize(("op", "partial"), [("RealDiv", []), ("Square", [("op", 13)])])
def test_a_factor_that_is_one_and_has_a_gradient_makes_up_for_a_hard_value(op, partial):
    story = masked()
    story.op(15, "StopGradient", ["loss"], "stopped", carries=False)
    event = story.event(15, op)
    for name in ("loss", "stopped") if op == "RealDiv" else ("loss",):
        story.graph.edges.append(g.Edge(story.node(name), story.node("sum"), g.OP, event, True))
    assert lines(story.ask(story.variable("w", "ok"), goal="sum", suspected=(13,)), partial=True) == partial


@pytest.mark.parametrize(("chosen", "partial"), [("x", []), ("other", [("op", 12)])])
def test_a_condition_that_chooses_between_values_of_its_own_is_no_cut(chosen, partial):
    story = Story()
    story.read(11, "w", "x")
    story.read(11, "v", "other")
    story.op(12, "Greater", ["x"], "above", hard=True)
    story.op(13, "Square", [chosen], "branch")
    event = story.event(13, "SelectV2")
    for name, carries in (("above", False), ("branch", True)):
        story.graph.edges.append(g.Edge(story.node(name), story.node("out"), g.OP, event, carries))
    story.op(14, "AddV2", ["out", "x"], "loss")
    assert lines(story.ask(story.variable("w", "ok"), suspected=(12,)), partial=True) == partial


def test_a_finding_at_a_value_that_does_not_lead_to_the_target_is_no_cut():
    story = masked()
    story.link(20, g.EXPORT, "score", "logged", "numpy")
    assert lines(story.ask(story.variable("w", "ok"), suspected=(20,)), partial=True) == []


@pytest.mark.parametrize(("variable", "partial"), [("w", [("decides", 12)]), ("other", [])])
def test_a_decision_is_a_cut_of_what_it_depends_on_where_check_has_a_finding(variable, partial):
    story = Story()
    story.read(11, "w", "score")
    story.read(11, "other", "y")
    story.graph.tests.append(g.Test(story.event(12, "if"), (story.node("score"),)))
    story.op(13, "AddV2", ["score", "y"], "loss")
    assert lines(story.ask(story.variable(variable, "ok"), suspected=(12,)), partial=True) == partial
    assert lines(story.ask(story.variable(variable, "ok")), partial=True) == []


def test_a_value_from_before_the_tape_is_a_cut_at_the_call_where_check_has_a_finding():
    story = Story()
    before = story.event(40, "ReadVariableOp", (), frames=(Frame((2, 0), "score", "a.py", 30),))
    state = story.node("state of w")
    story.graph.variable[state] = story.node("w")
    story.graph.edges.append(g.Edge(state, story.node("early"), g.READ, before))
    story.read(50, "w", "x")
    story.op(51, "AddV2", ["x", "early"], "loss")
    assert lines(story.ask(story.variable("w", "ok")), partial=True) == []
    assert lines(story.ask(story.variable("w", "ok"), suspected=(40,)), partial=True) == [("outside", 40)]


@pytest.mark.parametrize(("own", "partial"), [(True, [("write", 12)]), (False, [])])
def test_a_trained_variable_gets_its_start_from_data_but_is_cut_from_its_own_value(own, partial):
    story = Story()
    story.read(11, "first", "x")
    story.read(11, "second", "y")
    written = story.node("state of second, later")
    story.graph.variable[written] = story.node("second")
    story.link(12, g.WRITE, "y" if own else "x", "state of second, later", "AssignVariableOp")
    story.graph.edges.append(g.Edge(written, story.node("again"), g.READ, story.event(13, "ReadVariableOp")))
    story.op(14, "AddV2", ["x", "again"], "sum")
    story.op(15, "AddV2", ["sum", "y"], "loss")
    reasons = story.ask(story.variable("first", "ok"), story.variable("second", "ok"))
    assert lines(reasons, partial=True) == partial


# ---------------------------------------------------------------------- before the tape
def kept(number):
    """`w` is read in line 30 before the tape; a number is kept in 31, or the tensor itself."""
    story = Story()
    story.read(30, "w", "score", tapes=())
    if number:
        event = story.event(31, "__float__", ())
        story.graph.edges.append(g.Edge(story.node("score"), story.node("number"), g.EXPORT, event))
        story.link(50, g.ENTER, "number", "again")
    story.op(51, "Square", ["again" if number else "score"], "loss")
    return story


@pytest.mark.parametrize(("number", "reasons"), [(True, [("stored", 31)]), (False, [("outside", 30)])])
def test_a_number_kept_before_the_tape_is_cut_where_it_is_taken_a_tensor_where_it_is_made(number, reasons):
    story = kept(number)
    assert lines(story.ask(story.variable("w"))) == reasons


def test_a_number_that_was_kept_beside_a_whole_way_is_a_cut_where_check_has_a_finding():
    story = kept(True)
    story.read(52, "w", "x")
    story.op(53, "AddV2", ["x", "loss"], "sum")
    source = story.variable("w", "ok")
    assert lines(story.ask(source, goal="sum"), partial=True) == []
    assert lines(story.ask(source, goal="sum", suspected=(31,)), partial=True) == [("stored", 31)]


def test_weights_that_nothing_uses_are_told_where_they_were_made():
    story = Story()
    story.read(11, "other", "loss")
    source = story.variable("w")
    story.graph.made_at[source.variable] = story.event(5, "VariableMade", ())
    assert lines(story.ask(source)) == [("unread", 99), ("unused", 5)]
