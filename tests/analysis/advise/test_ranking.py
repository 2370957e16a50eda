"""A choice is called worse only where so many choices would not bring such a distance by chance."""

from types import SimpleNamespace

import numpy as np
import pytest

from analysis.advise.ranking import rank
from analysis.judgement import judge
from benchmarks.advice import Kind, play_races, play_single_runs
from scalemark.records.references import Origin
from scalemark.stats.welch import typical

AXES = {"precision": "fp32", "batch_size": 64}


def choices(repeats, out_of_race=()):
    environment = SimpleNamespace(origin=Origin.MEASURED)
    return [
        SimpleNamespace(
            axes=AXES,
            num_gpus=1,
            hosts=1,
            environment=environment,
            repeats=tuple(of),
            throughput=typical(of),
            out_of_race="race: 9 % behind a" if number in out_of_race else "",
        )
        for number, of in enumerate(repeats)
    ]


def ranked(repeats, out_of_race=()):
    return rank(choices(repeats, out_of_race))


@pytest.mark.parametrize(("num", "num_repeats"), [(20, 2), (20, 3), (20, 10), (5, 5)])
def test_one_of_many_equals_is_called_worse_in_at_most_5_percent(num, num_repeats):
    random = np.random.default_rng(1)
    wrong = sum(
        bool(ranked(100 * np.exp(0.01 * random.normal(size=(num, num_repeats)))).worse)
        for _ in range(60)
    )
    assert wrong <= 3


def test_of_many_choices_one_that_is_far_behind_is_worse():
    equals = 100 * np.exp(0.01 * np.random.default_rng(2).normal(size=(9, 5)))
    found = ranked([*equals, equals[0] / 2])
    assert [one.ratio > 1.9 for one in found.worse] == [True]


def test_single_runs_are_unclear_where_they_may_well_be_better():
    """If processes differ by 10 %, one 12 % behind is better in less than one case of 5."""
    assert [one.candidate.score for one in ranked([[100.0], [89.9]]).unclear] == [89.9]
    assert ranked([[100.0], [88.0]]).unclear == ()


def test_many_single_runs_must_be_farther_behind():
    found = ranked([[100.0], [88.0], [70.0], [60.0]])
    assert [one.candidate.score for one in found.unclear] == [88.0]
    assert ranked([[100.0], *[[78.0]] * 9]).worse == ()


def test_single_runs_less_than_10_percent_behind_are_unclear_beside_quiet_repeats():
    found = ranked([[100.0, 100.1], [91.0], [80.0]])
    assert [one.candidate.score for one in found.unclear] == [91.0]


@pytest.mark.parametrize("deviation", [0.005, 0.05])
def test_one_of_few_equals_is_called_worse_in_at_most_5_percent(
    deviation,
):
    random = np.random.default_rng(5)
    wrong = sum(
        bool(ranked(100 * np.exp(deviation * random.normal(size=(5, 2)))).worse) for _ in range(400)
    )
    assert wrong <= 29  # 5 % of 400, and two standard errors


@pytest.mark.parametrize("num_behind", [3, 19])
def test_one_of_two_groups_of_equals_is_called_worse_than_its_own_in_5_percent(num_behind):
    """The farther ones are proven to be behind, so that fewer choices are compared."""
    random = np.random.default_rng(6)
    true = np.repeat([0.0, -0.3], [20 - num_behind, num_behind])[:, None]
    wrong = 0
    for _ in range(100):
        speeds = 100 * np.exp(true + 0.01 * random.normal(size=(20, 2)))
        wrong += len(ranked(speeds).worse) > num_behind
    assert wrong <= 9  # 5 % of 100, and two standard errors


def test_of_20_choices_with_2_repeats_most_of_10_percent_behind_are_proven():
    """Processes differ by 2 %. Bonferroni over all pairs proved 28 %, Tukey's range 86 %."""
    random = np.random.default_rng(7)
    true = np.log(np.repeat([1.0, 0.9], [1, 19]))[:, None]
    proven = 0
    for _ in range(40):
        found = ranked(100 * np.exp(true + 0.02 * random.normal(size=(20, 2))))
        proven += sum(one.is_proven for one in found.worse)
    assert proven / (40 * 19) > 0.75


def test_two_repeats_far_behind_are_worse_among_many_choices():
    equals = 100 * np.exp(0.01 * np.random.default_rng(4).normal(size=(3, 2)))
    found = ranked([*equals, *([speed, speed * 1.02] for speed in np.linspace(10, 85, 16))])
    assert len(found.worse) == 16
    assert all(one.is_proven for one in found.worse)


def test_what_is_far_behind_is_worse_though_hardly_anything_was_repeated():
    found = ranked([[100.0, 101.0], [70.0, 71.0], *([speed] for speed in range(30, 60, 2))])
    assert not found.unclear


def test_repeats_of_some_do_not_tell_of_others_that_scatter():
    quiet = [[speed, speed * 1.001] for speed in range(10, 40, 3)]
    found = ranked([[100.0, 140.0], [75.0, 120.0], *quiet])
    assert [one.candidate.scores for one in found.unclear] == [(75.0, 120.0)]


@pytest.mark.parametrize("repeats", [[95.0], [94.0, 99.0]])
def test_what_a_race_put_out_is_reported_so_and_never_called_worse_for_it(repeats):
    assert ranked([[100.0, 101.0], repeats]).worse == ()
    raced = ranked([[100.0, 101.0], repeats], out_of_race=(1,))
    assert (len(raced.out), raced.unclear, raced.worse, raced.is_sure) == (1, (), (), False)


def test_what_a_race_put_out_is_worse_where_its_repeats_tell():
    found = ranked([[100.0, 101.0, 100.5], [80.0, 81.0]], out_of_race=(1,))
    assert [one.is_proven for one in found.worse] == [True]


def test_of_many_raced_choices_two_repeats_far_behind_are_worse_though_they_scatter():
    """A bug: 16 % behind it was a tie, ranked above what was 9 % behind."""
    quiet = [[speed * 1.003, speed * 0.997] for speed in np.linspace(6650, 5300, 11)]
    singles = [[speed] for speed in np.linspace(3600, 940, 40)]
    repeats = [[7499, 7460, 7525], [6855, 6840, 6850], [6192, 6338], *quiet, *singles]
    found = ranked(repeats, out_of_race=range(2, len(repeats)))
    assert found.is_sure
    assert found.unproven.candidate.scores == (6192, 6338)
    scores = [candidate.score for candidate, _ in found.standings]
    assert scores == sorted(scores, reverse=True)


def test_what_a_race_put_out_is_taken_by_nobody_as_the_plainest_of_equals():
    tied = [[100.0, 101.0, 99.0], [99.0, 100.0, 101.0]]
    assert len(ranked(tied).tied) == 1
    raced = ranked(tied, out_of_race=(1,))
    assert (raced.tied, len(raced.out), raced.pick) == ((), 1, raced.top)


@pytest.mark.parametrize("num_other_races", [0, 3])
@pytest.mark.parametrize(
    ("num", "most_repeats", "deviation"), [(2, 10, 0.03), (3, 5, 0.03), (5, 5, 0.01), (2, 3, 0.1)]
)
def test_after_a_race_one_of_equals_is_worse_in_5_percent_of_rankings(
    num, most_repeats, deviation, num_other_races
):
    """It was 20 to 60 %: who would hardly win the full grid was called slower, also by a single run."""
    kind = Kind(
        num=num, most_repeats=most_repeats, deviation=deviation, num_other_races=num_other_races
    )
    score = play_races(kind, 100)
    assert score.num_wrong <= 9  # 5 % of 100, and two standard errors
    assert score.num_raced_out > 0


@pytest.mark.parametrize("num", [3, 5])
def test_a_race_of_processes_that_differ_by_ten_percent_calls_few_equals_worse(num):
    """It was 7 to 8 %: any of the equals may come first."""
    score = play_races(Kind(num=num, most_repeats=3, deviation=0.1), 1000)
    assert score.num_wrong <= 57  # 5 % of 1000, and one standard error


def test_two_choices_are_judged_as_compare_judges_them():
    a, b = [100.0, 101.0, 99.0], [90.0, 98.0, 97.0]
    (one,) = [*(found := ranked([a, b])).tied, *found.unclear, *found.worse]
    assert (one.low, one.ratio) == (
        pytest.approx(judge(a, b).ratio.low),
        pytest.approx(judge(a, b).ratio.ratio),
    )


def test_endless_intervals_are_no_crash():
    found = ranked([[100.0, 300.0], [99.0, 350.0], *([1.0] for _ in range(60))])
    assert found.unclear or found.tied


def test_two_that_spread_more_than_the_others_are_judged_by_their_own_repeats():
    noisy = [[97.0, 100.0, 103.0], [91.0, 93.7, 96.5]]
    quiet = [[speed, speed * 1.001, speed * 0.999] for speed in (50.0, 40.0, 30.0)]
    found = ranked([*noisy, *quiet])
    assert [one.candidate.scores for one in found.unclear] == [tuple(noisy[1])]
    assert [one.is_proven for one in found.worse] == [True] * 3


@pytest.mark.parametrize(("num", "most_behind"), [(2, 0.3), (3, 0.3), (5, 0.6)])
def test_the_best_of_single_runs_is_the_best_in_80_percent_of_sure_answers(num, most_behind):
    """Processes differ by 10 %. With 10 % of distance alone it was in 78 % of 3 choices."""
    num_said, num_right = play_single_runs(num, most_behind, 0.1, 400)
    assert num_said > 40
    assert num_right / num_said >= 0.8
