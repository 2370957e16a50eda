"""Drift is distinguished from steps that resemble each other, and what lies far away is flagged and kept."""

import numpy as np
import pytest

from analysis.statistics.outliers import outlying_processes, outlying_steps
from analysis.statistics.sample import Sample
from analysis.statistics.trends import trend
from benchmarks.coverage import OURS, drifts
from benchmarks.step_times import Times, processes

pytestmark = pytest.mark.integration


def durations(**changes):
    (found,) = processes(Times(**changes), 1, 1, np.random.default_rng(2))
    return found.durations_s[0]


@pytest.mark.parametrize("num_steps", [60, 2000])
def test_steps_that_grow_slower_drift(num_steps):
    found = trend(durations(drift=0.15, num_steps=num_steps))
    assert found.is_drift
    assert found.growth == pytest.approx(0.15, abs=0.04)
    assert found.words.startswith("steps become slower by ")


def test_steps_that_grow_faster_drift_too():
    found = trend(durations(drift=-0.1))
    assert found.is_drift
    assert found.words.startswith("steps become faster by ")


def test_a_trend_of_less_than_1_percent_is_not_worth_telling():
    found = trend(durations(drift=0.005, noise=0.0005))
    assert found.p < 0.01
    assert not found.is_drift


def test_neither_few_steps_nor_steps_all_alike_have_a_trend():
    assert trend([0.1] * 7) is None
    assert not trend([0.1] * 100).is_drift


def test_without_a_trend_hardly_any_attempt_is_said_to_drift():
    assert [str(row) for row in drifts(300, [30]) if row.method == OURS and not row.is_met] == []


def test_far_steps_are_flagged_with_what_they_cost():
    found = outlying_steps([*[0.1, 0.101, 0.099] * 10, 0.4])
    assert found.places == (30,)
    assert found.words == "1 step is far from the others, +8.8% of the time (kept)"


@pytest.mark.parametrize("steps", [[], [0.1] * 30, [0.1] * 29 + [0.1019], durations()])
def test_near_steps_are_no_outliers(steps):
    assert outlying_steps(steps) is None


def test_a_far_process_is_flagged_where_four_or_more_show_what_is_usual():
    side = Sample(throughput=(100.0, 101.0, 99.0, 80.0), attempt_ids=(1, 2, 3, 4), unit="tokens/s")
    (found,) = outlying_processes(side)
    assert found.words == "attempt 4 is far from the others, 80.0 tokens/s against 99.5 (kept)"
    assert outlying_processes(Sample.of([100, 101, 80])) == []
    assert outlying_processes(Sample.of([100, 101, 80, 100]))[0].words.startswith(
        "process 3 is far"
    )
