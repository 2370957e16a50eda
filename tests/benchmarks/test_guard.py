"""The short form of `benchmarks/guard.py`: a few simulated years, each night judged by the nights before it."""

import numpy as np

from analysis.guard.changes import changes
from benchmarks.guard import KINDS, score
from benchmarks.guarding.years import SIZES, Kind, year


def test_six_regressions_a_year_are_found_within_three_nights_without_false_alarms():
    total = score(KINDS[0], 3)
    assert total.soon == dict.fromkeys(SIZES, 3)
    assert max(total.false) <= 1
    assert all(total.dated)


def test_a_year_in_which_nothing_happens_has_no_alarm():
    quiet = year(Kind(name="quiet", sizes=(), num_repeats=1), np.random.default_rng(2))
    assert changes([quiet.record], 0.02) == []
