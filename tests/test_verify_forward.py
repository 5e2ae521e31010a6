"""Losses are compared within the precision of their type, and only as far as they can be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapefix.verify.forward import compare, same, tolerance
from tapefix.verify.outcome import Gradient, Variable


def gradient(loss, *norms, line=1, dtype="float32", status=None):
    variables = tuple(
        Variable(f"v{i}", "m", (1,), dtype, status or ("none" if norm is None else "ok"), norm)
        for i, norm in enumerate(norms)
    )
    return Gradient("/p/a.py", line, "gradient", 1, loss, variables)


@pytest.mark.parametrize(
    ("dtype", "relative"), [("float32", 1e-5), ("float64", 1e-10), ("float16", 1e-2), ("bfloat16", 1e-2)]
)
def test_the_tolerance_is_that_of_the_type(dtype, relative):
    assert tolerance([gradient(1.0, 1.0, dtype=dtype)])[0] == relative
    above, below = 1 + 2 * relative, 1 + relative / 2
    for other, equal in ((above, False), (below, True)):
        forward = compare([gradient(1.0, 1.0, dtype=dtype)], [gradient(other, 1.0, dtype=dtype)])
        assert forward is not None
        assert forward.equal is equal
        assert forward.tolerance == relative


def test_the_least_precise_type_counts():
    assert tolerance([gradient(1.0, 1.0, dtype="float64"), gradient(1.0, 1.0)])[0] == 1e-5


def test_what_cancellation_leaves_is_the_same_to_the_last_digits():
    relative, absolute = tolerance([gradient(0.0, 1.0)])
    assert same(3e-8, -6e-8, relative, absolute)
    assert not same(3e-5, -6e-5, relative, absolute)


def test_nan_equals_nothing():
    assert not same(math.nan, math.nan, 1e-5, 1e-6)


def test_the_comparison_ends_where_a_repair_changes_the_weights():
    before = [gradient(1.0, None), gradient(2.0, 1.0, line=2)]
    after = [gradient(1.0, 3.0), gradient(2.5, 1.0, line=2)]
    forward = compare(before, after)
    assert forward is not None
    assert (forward.equal, forward.compared) == (True, 1)


def test_a_later_loss_counts_while_the_gradients_are_the_same():
    before = [gradient(1.0, 1.0), gradient(2.0, 1.0, line=2)]
    after = [gradient(1.0, 1.0), gradient(2.5, 1.0, line=2)]
    forward = compare(before, after)
    assert forward is not None
    assert (forward.equal, forward.compared, forward.max_abs_diff) == (False, 2, 0.5)
    assert forward.places == (("/p/a.py", 2, 2.0, 2.5),)


def test_nothing_to_compare_is_no_equality():
    assert compare([gradient(None, 1.0)], [gradient(1.0, 1.0)]) is None
    assert compare([], [gradient(1.0, 1.0)]) is None


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_sameness_is_symmetric_and_holds_for_a_value_itself(a, b):
    relative, absolute = tolerance([])
    assert same(a, a, relative, absolute)
    assert same(a, b, relative, absolute) == same(b, a, relative, absolute)
