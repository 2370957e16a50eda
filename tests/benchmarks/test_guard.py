"""The short form of `benchmarks/guard.py`: a few simulated years, each night judged by the nights before it."""

import numpy as np
import pytest

from analysis.guard.changes import changes
from benchmarks.guard import KINDS, RIVALS, scores
from benchmarks.guarding import rules
from benchmarks.guarding.years import SIZES, Kind, year


def test_six_regressions_a_year_are_found_within_three_nights_without_false_alarms():
    score = scores(KINDS[0], 3, {})["guard"]
    assert score.soon == dict.fromkeys(SIZES, 3)
    assert max(score.false) <= 1
    assert all(score.dated)


def test_a_year_in_which_nothing_happens_has_no_alarm():
    quiet = year(Kind(name="quiet", sizes=(), num_repeats=1), np.random.default_rng(2))
    assert changes([quiet.record], 0.02) == []


@pytest.mark.parametrize("name", RIVALS)
def test_each_rival_finds_a_step_and_is_quiet_where_all_is_equal(name):
    random = np.random.default_rng(1)
    logs = 0.01 * random.normal(size=(2, 120))
    logs[0, 80:] -= 0.3
    alarms = RIVALS[name](logs)
    assert alarms[0, 80:100].any()
    assert not alarms[:, 60:79].any()


def test_e_divisive_splits_where_the_level_changes():
    logs = np.concatenate([np.zeros(20), np.ones(12)])[None] + 0.01 * np.sin(np.arange(32.0))
    assert rules._best_split(logs).tolist() == [20]
