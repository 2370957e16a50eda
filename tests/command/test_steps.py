"""Steps that a program prints become calls with a window, by its own rates, its own clock, or when its lines came."""

import math

import numpy as np
import pytest

from command.curve import Clock, CurveError, StepCurve
from command.measuring import warm_up
from command.points import Points, fitted
from scalemark.readers.opening import Reading


def curve_of(*readings: tuple[float, Reading]) -> StepCurve:
    curve = StepCurve()
    for arrival_s, reading in readings:
        curve.add(reading, arrival_s, reading.metrics.get("loss"))
    return curve


def at(arrival_s: float, step: int | None = None, **values: object) -> tuple[float, Reading]:
    return arrival_s, Reading(step=step, **values)


def test_without_rates_the_arrival_of_lines_makes_the_time():
    calls = curve_of(*(at(100 + 0.5 * n, 10 * n) for n in range(1, 6))).calls(None)
    assert (calls.clock, calls.steps_per_call) == (Clock.ARRIVAL, 10)
    assert calls.durations_s == pytest.approx([0.5] * 4)
    assert calls.arrivals_s == pytest.approx([100.5, 101, 101.5, 102, 102.5])
    assert calls.items_per_step is None


def test_rates_with_items_per_step_make_the_time_whenever_lines_came():
    calls = curve_of(at(5, 10, throughput=64.0), at(5, 20, throughput=128.0)).calls(64.0)
    assert calls.clock is Clock.RATE
    assert calls.durations_s == pytest.approx([10.0, 5.0])


def test_rates_alone_fill_the_time_between_the_lines():
    calls = curve_of(*(at(2.0 * n, n, throughput=50.0) for n in range(1, 6))).calls(None)
    assert calls.durations_s == pytest.approx([2.0] * 5)
    assert calls.items_per_step == pytest.approx(100.0)


def test_rates_without_steps_are_equal_windows():
    calls = curve_of(*(at(float(n), throughput=rate) for n, rate in enumerate([10, 20, 20]))).calls(
        None
    )
    assert calls.steps_per_call == 1
    mean = calls.items_per_step * 3 / sum(calls.durations_s)
    assert mean == pytest.approx(3 / (1 / 10 + 1 / 20 + 1 / 20))


def test_seconds_per_step_are_taken_as_they_are():
    calls = curve_of(*(at(0.0, 5 * n, step_s=0.2) for n in range(1, 4))).calls(None)
    assert calls.durations_s == pytest.approx([1.0] * 3)


def test_the_programs_clock_counts_unless_it_is_too_coarse():
    fine = curve_of(*(at(9.0, n, time_s=0.25 * n) for n in range(4))).calls(None)
    assert (fine.clock, fine.durations_s) == (Clock.OWN, pytest.approx([0.25] * 3))
    coarse = curve_of(*(at(0.4 * n, n, time_s=float(n // 2)) for n in range(4))).calls(None)
    assert coarse.clock is Clock.ARRIVAL


def test_steps_that_do_not_fit_the_usual_gap_are_cut_by_time():
    steps = [1, 10, 20, 30, 33]
    calls = curve_of(*(at(0.1 * step, step) for step in steps)).calls(None)
    assert calls.steps_per_call == 9
    assert calls.durations_s == pytest.approx([0.9] * 3)


def test_calls_end_where_the_lines_are():
    """tf_cnn_benchmarks prints step 1, 10, 20, ...: its last steps count, too."""
    arrivals = {1: 0.0, 10: 5.0, 20: 6.0, 30: 7.0, 40: 9.0}
    calls = curve_of(*(at(arrival_s, step) for step, arrival_s in arrivals.items())).calls(None)
    assert calls.durations_s == pytest.approx([1.0, 1.0, 2.0])
    assert calls.arrivals_s[-1] == 9.0


def test_a_program_that_resumes_has_not_done_the_steps_before():
    readings = [at(float(n), 1000 + 10 * n, throughput=40.0) for n in range(4)]
    assert len(curve_of(*readings).calls(4.0).durations_s) == 4


def test_steps_that_go_back_take_back_what_was_counted():
    readings = [at(float(step), step, throughput=10.0) for step in (10, 20, 30)]
    taken_back = [at(30.0 + n, 30 + n, throughput=90.0) for n in range(1, 8)]
    after = [at(float(step), step, throughput=10.0) for step in (50, 60)]
    readings[2:2] = [at(21.0, 24), at(22.0, 28)]
    curve = curve_of(*readings, *taken_back, at(40.0, 31), *after)
    assert (curve.num_steps, len(curve.points), curve.last_arrival_s) == (60, 8, 60.0)
    assert curve.mean_rate == pytest.approx(10.0)


def test_lines_that_come_in_one_chunk_are_one_call():
    calls = curve_of(*(at(0.01 * (n // 8), n) for n in range(800))).calls(None)
    assert calls.steps_per_call * len(calls.durations_s) <= 800
    assert min(calls.durations_s) >= 0.04
    assert sum(calls.durations_s) == pytest.approx(0.99, abs=0.06)


@pytest.mark.parametrize(
    ("readings", "problem"),
    [
        ([at(1.0, 7)], "one moment only"),
        ([at(1.0, 7), at(1.0, 8)], "its lines came too close together to be timed"),
        ([at(1.0, 0), at(2.0, 10**10)], "has `read` taken another number"),
    ],
)
def test_what_no_time_follows_from_is_named(readings, problem):
    with pytest.raises(CurveError, match=problem):
        curve_of(*readings).calls(None)


@pytest.mark.parametrize("per_burst", [50, 7])
def test_lines_that_come_in_bursts_are_spread_over_their_time(per_burst):
    """A program that does not flush hands over a block at a time; no call takes no time."""
    curve = curve_of(*(at(0.1 * (n // per_burst), n) for n in range(1, 700)))
    calls = curve.calls(None)
    assert min(calls.durations_s) > 0
    assert calls.steps_per_call % per_burst == 0
    step_s = sum(calls.durations_s) / (calls.steps_per_call * len(calls.durations_s))
    assert step_s == pytest.approx(0.1 / per_burst, rel=0.02)


def test_readings_with_steps_replace_those_without():
    curve = curve_of(at(0.0, throughput=1.0), at(1.0, 1), at(2.0, 2), at(3.0, throughput=9.0))
    assert (len(curve.points), curve.num_steps) == (2, 2)


def test_the_loss_of_a_call_is_the_last_one_in_it():
    readings = [at(float(n), n, metrics={"loss": 1.0 / n}) for n in range(1, 4)]
    assert curve_of(*readings).calls(None).losses == pytest.approx([1 / 2, 1 / 3])
    readings[1] = at(2.0, 2, metrics={"loss": math.nan})
    assert curve_of(*readings).calls(None).losses == [None, pytest.approx(1 / 3)]


def test_a_mean_stays_with_its_step_where_rows_are_left_out():
    """A bug: once rows were left out, a mean came to the row before."""
    points = Points(most=4)
    for step in range(1, 41):
        points.add(steps=step)
        if step % 3 == 0:
            points.add_mean(10.0 * step)
    np.testing.assert_array_equal(points["means"], [math.nan, math.nan, 30.0, math.nan])


def test_a_long_run_is_timed_by_its_first_rows():
    points = Points(most=100)
    for n in range(1, 10_001):
        points.add(steps=2 * n, arrivals=n / 10, step_s=0.1 if n % 2 else None)
    assert len(points) == 100
    assert points.total(points.seconds) == (198.0, pytest.approx(19.8))


SLOW = [2.0, 1.5, 1.2]


@pytest.mark.parametrize(
    ("durations_s", "min_steps", "wanted"),
    [
        (SLOW + [1.0] * 10, 2, (3, True)),  # one slow call hides behind a median
        ([3.0] + [1.0] * 10, 0, (1, True)),
        ([1.0, 1.0, 2.0] * 10, 0, (0, True)),  # as noisy early as late
        ([1.0] * 10, 20, (2, True)),  # calls of ten steps
        ([5.0] * 10 + [1.0] * 50, 0, (10, True)),  # evenly slow, until it was compiled
        ([5.0] * 20 + [1.0] * 60, 0, (20, True)),
        ([1.0] * 20 + [1.3] * 40, 0, (0, True)),  # it slows down: that is no warm-up
        ([1.0] * 5, 0, (0, False)),
        ([1.0], 30, (0, False)),
        ([2.0**-n for n in range(30)], 0, (0, False)),
    ],
)
def test_the_window_begins_with_the_first_steady_calls(durations_s, min_steps, wanted):
    steps_per_call = 10 if min_steps == 20 else 1
    assert warm_up(durations_s, steps_per_call, min_steps) == wanted


def test_rates_of_all_lines_count_where_a_busy_machine_reads_many_at_once():
    step_s = np.tile([0.0001, 0.0004, 0.0001, 0.0001, 0.0001], 2000)
    printed_s = np.cumsum(step_s)
    read_s = np.ceil(printed_s / 0.09) * 0.09  # the last lines of most reads tell of quick steps
    read_s[-1] = printed_s[-1]
    steps = np.arange(1.0, len(step_s) + 1)

    fit = fitted(steps, 0 * steps, read_s, 16 / step_s, begin_s=-math.inf)

    assert fit is not None
    assert not fit.is_mean
    assert fit.items_per_step == pytest.approx(16, rel=0.02)
    assert fit.misfit < 0.02
