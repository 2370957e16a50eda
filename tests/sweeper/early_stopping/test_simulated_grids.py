"""Races of simulated grids end as the full grids do, for half of their GPU-seconds, and a budget finds the fastest trial for a fifth; benchmarks/racing.py plays more of them."""

import random

import pytest

from benchmarks.racing import HELD_OUT, Kind, Score, found_on, grid, play

pytestmark = pytest.mark.integration


def played(kind: Kind, num_grids: int) -> Score:
    return sum(
        (
            play(grid(kind, random.Random(seed)), kind.most_repeats, seed)
            for seed in range(num_grids)
        ),
        Score(),
    )


def test_a_race_finds_the_same_winner_for_55_percent_of_the_gpu_seconds():
    score = played(Kind(num_models=2), 15)
    assert score.num_races == 120
    assert score.num_same >= 0.95 * score.num_races
    assert score.num_reported >= 0.95 * score.num_races
    assert score.spent_s <= 0.55 * score.full_s


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Kind(), Kind(most_repeats=10), Kind(num_models=1)])
def test_of_many_grids(kind):
    score = played(kind, 50)
    assert score.num_same >= 0.95 * score.num_races
    assert score.num_reported >= 0.95 * score.num_races
    assert score.spent_s <= 0.6 * score.full_s


def test_where_all_tie_the_repeats_are_spent_and_the_winner_is_the_same():
    score = played(Kind(num_models=1, most_behind=0.01), 8)
    assert score.num_same >= 0.95 * score.num_races
    assert score.spent_s > 0.7 * score.full_s


def test_a_fifth_of_the_gpu_seconds_finds_a_trial_within_2_percent_of_the_fastest():
    found = found_on(HELD_OUT, 1, models=("resnet50", "vgg16"))
    assert found.num_grids == 24
    assert found.num_illegal == 0
    assert found.num_close >= 0.95 * found.num_grids
    assert found.share <= 0.2 * found.num_grids
