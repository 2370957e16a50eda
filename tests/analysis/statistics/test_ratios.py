"""Ratios say what their interval is of, and intervals hold the truth as often as they promise."""

import math

import numpy as np
import pytest

from analysis.statistics.judgement import ratio
from analysis.statistics.sample import Sample
from benchmarks.coverage import (
    Case,
    compared,
    repeats,
    simulated,
    uneven_cases,
)
from benchmarks.step_times import Times
from scalemark.stats.welch import interval, ratio_interval
from scalemark.stats.within_process import spread_within


def steps(mean_s=0.1, n=60, seed=1):
    return tuple(np.random.default_rng(seed).lognormal(math.log(mean_s), 0.03, n).tolist())


def test_of_repeats_the_interval_is_over_processes():
    found = ratio(Sample.of([100, 102]), Sample.of([50, 51]))
    assert (found.num_a, found.num_b) == (2, 2)
    assert found.ratio == pytest.approx(2.0)
    assert found.low < 2 < found.high


def test_a_ratio_turned_round_has_the_interval_turned_round():
    a, b = Sample.of([100, 103, 99]), Sample.of([70, 90])
    there, back = ratio(a, b), ratio(b, a)
    assert (back.ratio, back.low, back.high) == pytest.approx(
        (1 / there.ratio, 1 / there.high, 1 / there.low)
    )


def test_a_single_run_of_a_side_has_no_interval():
    found = ratio(Sample.of([100.0]), Sample.of([80.0, 81.0]))
    assert (found.low, found.high, found.num_a, found.num_b) == (None, None, 1, 2)


def test_without_any_spread_the_interval_has_no_width():
    assert ratio(Sample.of([4.0, 4.0]), Sample.of([2.0, 2.0])).high == pytest.approx(2.0)


def test_steps_that_resemble_their_neighbors_tell_less():
    alike = np.repeat(steps(n=30), 4)
    mixed = np.random.default_rng(3).permutation(alike)
    assert spread_within(alike).variance > 2 * spread_within(mixed).variance


def test_a_drift_is_not_taken_for_noise():
    calm = np.asarray(steps(n=100))
    drifting = calm * np.linspace(0.9, 1.1, 100)
    assert spread_within(drifting).variance < 1.5 * spread_within(calm).variance


@pytest.mark.parametrize("throughput", [(), (0.0,), (math.nan, 1.0)])
def test_a_sample_has_only_numbers_that_have_a_ratio(throughput):
    with pytest.raises(ValueError, match="wanted numbers above 0 of at least one process"):
        Sample.of(throughput)


def test_a_sample_has_the_steps_of_all_its_processes_or_of_none():
    with pytest.raises(ValueError, match="1 of 2 processes: wanted all or none"):
        Sample(throughput=(1.0, 2.0), durations_s=((0.1,),))


@pytest.mark.parametrize(("num_a", "num_b"), [(2, 2), (3, 3), (5, 5), (2, 5)])
def test_93_to_97_percent_of_intervals_over_processes_hold_the_truth(num_a, num_b):
    times = Times(num_steps=60)
    case = Case(name="usual", num_a=num_a, num_b=num_b, a=times, b=times)
    (found,) = compared(1000, [case])
    assert 0.93 <= found.held <= 0.97
    assert found.different <= 0.05


@pytest.mark.integration
def test_as_many_intervals_of_simulated_processes_hold_the_truth():
    assert [str(row) for row in simulated(1000, [3]) if not row.is_met] == []


@pytest.mark.slow
def test_in_no_case_of_the_benchmark_is_the_limit_missed():
    rows = [*repeats(4000), *simulated(4000)]
    of_two = [row for row in rows if row.case.startswith("2 and") and 0.92 <= row.held <= 0.985]
    by_chance = [
        row for row in rows if 0.925 <= row.held <= 0.975 and (row.different or 0) <= 0.055
    ]
    known = (*of_two, *by_chance)
    assert [str(row) for row in rows if not row.is_met and row not in known] == []


@pytest.mark.parametrize("case", uneven_cases(), ids=lambda case: case.name)
def test_where_one_side_spreads_more_the_interval_still_holds_the_truth(case):
    random = np.random.default_rng(7)
    of_a, of_b = (
        np.exp(times.process_noise * random.normal(size=(1000, num))).tolist()
        for times, num in ((case.a, case.num_a), (case.b, case.num_b))
    )
    held = sum(low <= 1 <= high for low, high in map(ratio_interval, of_a, of_b)) / 1000
    assert (
        0.914 <= held <= 0.985
    )  # 93 % within two standard errors of so many; it was 90 % with variances that were pooled


def test_an_interval_that_no_float_holds_is_unbounded():
    assert interval([1e-300, 1e300]) == (0.0, math.inf)
    assert ratio_interval([1e-300, 1e300], [1.0, 2.0]) == (0.0, math.inf)
