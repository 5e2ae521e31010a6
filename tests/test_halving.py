"""Which of many repairs can be proven."""

import pytest

from tapefix.halving import provable


def search(items, good):
    """`good(set)` says whether a program with these repairs is whole; also counts the runs."""
    runs = []

    def prove(chosen):
        runs.append(tuple(chosen))
        return dict.fromkeys(chosen, good(set(chosen)))

    kept, evidence = provable(items, prove, lambda shown: shown)
    return kept, evidence, runs


def test_all_together_first():
    kept, _, runs = search(list(range(10)), lambda chosen: True)
    assert kept == list(range(10))
    assert len(runs) == 1


@pytest.mark.parametrize("bad", [{0}, {4}, {9}, {1, 8}, {0, 1, 2}, set(range(10))])
def test_what_cannot_be_proven_is_left_out_alone(bad):
    kept, evidence, _ = search(list(range(10)), lambda chosen: not chosen & bad)
    assert kept == [n for n in range(10) if n not in bad]
    assert {n for n, shown in evidence.items() if not shown} == bad


def test_one_bad_repair_among_many_costs_few_runs():
    _, _, runs = search(list(range(64)), lambda chosen: 37 not in chosen)
    assert len(runs) <= 14


def test_repairs_that_fail_only_together_keep_one():
    kept, _, runs = search(["a", "b"], lambda chosen: chosen != {"a", "b"})
    assert kept == ["a"]
    assert ("a",) in runs


def test_evidence_by_item_is_used_to_divide():
    def prove(chosen):
        return {item: item != "bad" for item in chosen}

    assert provable(["a", "bad", "b"], prove, bool)[0] == ["a", "b"]


def test_nothing_to_prove():
    assert search([], lambda chosen: False)[0] == []
