"""Verdicts on simulated trials whose cause is known, since it is injected."""

import pytest

from analysis.explain.causes import Bound
from analysis.explain.verdicts import Confidence
from benchmarks.explain import table
from benchmarks.explaining.mixed import verdicts
from benchmarks.explaining.played import played
from benchmarks.explaining.simulated import CLEAR, EVERY, KINDS, answers


def right_and_surely_wrong(found):
    surely_wrong = [one for one in found if one.confidence is Confidence.SURE and not one.is_right]
    return sum(one.is_right for one in found) / len(found), surely_wrong


def test_injected_causes_are_found_and_none_is_surely_wrong():
    found = answers(seed=5, num_cases=55)
    share, surely_wrong = right_and_surely_wrong(found)
    assert {one.kind for one in found} == set(KINDS)
    assert (share >= 0.95, surely_wrong) == (True, [])
    assert sum(one.confidence is Confidence.SURE for one in found) >= 30
    assert f"| all |  | 55 | {round(55 * share)} " in table(found)


def test_of_causes_that_just_matter_none_is_surely_mistaken():
    for thinned in (False, True):
        share, surely_wrong = right_and_surely_wrong(
            answers(seed=5, num_cases=55, thinned=thinned, selection=EVERY)
        )
        assert (share >= 0.8, surely_wrong) == (True, [])


@pytest.mark.integration
def test_causes_are_found_by_the_way_that_simulated_trials_go(tmp_path):
    found = played(seed=5, num_cases=12, folder=tmp_path)
    assert {one.kind for one in found} == set(KINDS)
    assert [(one.kind, one.bound) for one in found] == [(one.kind, one.wanted) for one in found]
    assert any(one.confidence is Confidence.SURE for one in found)


def test_where_ablations_are_missing_verdicts_become_unsure_and_not_wrong():
    found = answers(seed=5, num_cases=55, thinned=True)
    share, surely_wrong = right_and_surely_wrong(found)
    assert surely_wrong == []
    assert share >= 0.8
    assert {Confidence.LIKELY, Confidence.SURE} <= {one.confidence for one in found}


def test_what_is_not_right_is_so_with_the_trials_that_are_named_as_missing():
    found = answers(seed=5, num_cases=55, thinned=True)
    wrong = [one for one in found if not one.is_right]
    assert len(wrong) >= 3
    assert all(one.is_told for one in wrong)


def test_of_several_causes_at_once_none_is_surely_mistaken():
    found = [
        one for thinned in (False, True) for one in verdicts(seed=7, num_cases=60, thinned=thinned)
    ]
    sure = [one for one in found if one.confidence is Confidence.SURE]
    assert len(sure) >= 30
    assert max(one.wrong_by for one in sure) < 0.02
    assert max(one.wrong_by for one in found) > 0.1  # likely ones may be


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_95_percent_of_300_causes_are_found_and_none_surely_wrong(seed):
    share, surely_wrong = right_and_surely_wrong(answers(seed, num_cases=300))
    assert (share >= 0.95, surely_wrong) == (True, [])
    for selection in (CLEAR, EVERY):
        _, surely_wrong = right_and_surely_wrong(
            answers(seed, num_cases=300, thinned=True, selection=selection)
        )
        assert surely_wrong == []
    _, surely_wrong = right_and_surely_wrong(answers(seed, num_cases=300, selection=EVERY))
    assert surely_wrong == []


def test_every_verdict_is_asked_for():
    assert {kind.bound for kind in KINDS.values()} == set(Bound) - {Bound.HOST}  # of programs alone
