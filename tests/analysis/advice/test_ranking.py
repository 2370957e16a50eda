"""A choice is called worse only where so many choices would not bring such a distance by chance."""

from types import SimpleNamespace

import numpy as np
import pytest

from analysis.advice.aims import Aim
from analysis.advice.ranking import rank
from analysis.results import Origin

AXES = {"precision": "fp32", "batch_size": 64}


def choices(repeats):
    place = SimpleNamespace(origin=Origin.MEASURED)
    return [
        SimpleNamespace(axes=AXES, num_gpus=1, hosts=1, place=place, repeats=tuple(of), images_per_second=float(np.median(of)))
        for of in repeats
    ]


def ranked(repeats):
    return rank(SimpleNamespace(able=choices(repeats)), Aim(), lambda result: [None] * len(result.repeats))


@pytest.mark.parametrize(("num", "num_repeats"), [(20, 3), (20, 10), (5, 5)])
def test_of_many_equal_choices_one_is_called_worse_in_5_percent_of_rankings_at_most(num, num_repeats):
    random = np.random.default_rng(1)
    wrong = sum(bool(ranked(100 * np.exp(0.01 * random.normal(size=(num, num_repeats)))).worse) for _ in range(60))
    assert wrong <= 3


def test_of_many_choices_one_that_is_far_behind_is_worse():
    equals = 100 * np.exp(0.01 * np.random.default_rng(2).normal(size=(9, 5)))
    found = ranked([*equals, equals[0] / 2])
    assert [one.ratio > 1.9 for one in found.worse] == [True]


def test_of_single_processes_what_is_less_than_10_percent_behind_is_unclear():
    found = ranked([[100.0], [90.7], [89.9]])
    assert [one.candidate.score for one in found.unclear] == [90.7]
