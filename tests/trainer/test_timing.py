"""Warm-up ends when steps are steady, and throughput is of the synchronized window."""

import os
import subprocess
import sys
import time

import pytest

from scalemark.records.measurement import Phase
from tests.conftest import PROJECT
from trainer import measured


class Clock:
    """Advances only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(
    durations,
    *,
    min_warm_up_steps=2,
    num_steps=3,
    synchronize_s=0.0,
    wait_s=0.0,
    min_window_s=0.0,
    steps_per_call=1,
    min_warm_up_s=0.0,
):
    clock, left, seen = Clock(), iter(durations), []

    def next_batch():
        clock.now += wait_s
        return "batch"

    def step(batch):
        assert batch == "batch"
        clock.now += next(left)
        return 1.0

    def synchronize():
        clock.now += synchronize_s

    step_clock = measured.StepClock(
        synchronize=synchronize,
        effort=measured.Effort(
            min_warm_up_steps=min_warm_up_steps,
            num_steps=num_steps,
            min_window_s=min_window_s,
            steps_per_call=steps_per_call,
            min_warm_up_s=min_warm_up_s,
        ),
        on_sample=seen.append,
        now=clock,
        cpu_now=clock,
    )
    timed = measured.run_steps(step_clock, next_batch, step)
    assert seen == timed.samples
    return timed


def test_warm_up_goes_on_until_steps_become_no_faster():
    timed = run([9, 6, 3, 2] + [1] * 10, min_warm_up_steps=2)
    assert [sample.phase for sample in timed.samples] == [Phase.WARM_UP] * 9 + [Phase.MEASURE] * 3
    assert timed.steady


def test_warm_up_gives_up_in_time_and_says_so():
    timed = run([2**-n for n in range(30)], min_warm_up_steps=4)
    assert len(timed.samples) - len(timed.measured()) == 4 * measured.MAX_WARM_UP_FACTOR
    assert not timed.steady


def test_noise_is_not_taken_for_a_trend_nor_a_hiccup_for_noise():
    assert measured.is_steady([1.0, 1.3, 0.8, 1.2, 0.9, 1.1])
    assert measured.is_steady([1.0, 1.0, 1.0, 1.0, 6.1, 1.0])
    assert not measured.is_steady([6.1, 2.0, 1.0, 0.9, 0.9, 0.92])
    assert not measured.is_steady([3.0, 2.5, 2.0, 0.9, 6.1, 0.9])


def test_long_calls_have_room_to_become_steady():
    """One call of 3 steps is the least warm-up here; five times that would end before six calls can be compared."""
    timed = run([2] + [1] * 20, min_warm_up_steps=3, num_steps=9, steps_per_call=3)
    assert timed.steady


def test_the_first_call_of_the_window_does_not_count_among_durations():
    timed = run([1] * 6 + [0.25, 1, 1], min_warm_up_steps=6)
    assert timed.step_durations_s() == [1, 1]
    assert timed.window_s == pytest.approx(2.25)


def test_warm_up_is_never_shorter_than_asked():
    assert len(run([1] * 20, min_warm_up_steps=10).samples) == 13


def test_no_warm_up_can_be_asked_for():
    timed = run([1] * 3, min_warm_up_steps=0)
    assert len(timed.samples) == 3
    assert not timed.steady


def test_warm_up_goes_on_for_as_long_as_asked_though_steps_are_steady():
    """Clocks of GPUs settle within seconds, in which a small model takes thousands of steps."""
    timed = run([0.25] * 40, min_warm_up_steps=2, min_warm_up_s=5.0)
    assert len(timed.samples) - len(timed.measured()) == 20
    assert timed.steady


def test_the_window_is_no_shorter_than_asked():
    assert len(run([0.25] * 40, min_warm_up_steps=6, num_steps=3, min_window_s=2.0).measured()) == 8


def test_calls_of_many_steps_are_counted_in_steps_and_rounded_up():
    timed = run([1] * 20, min_warm_up_steps=18, num_steps=7, steps_per_call=3)
    assert [sample.step for sample in timed.samples] == list(range(0, 27, 3))
    assert [sample.num_steps for sample in timed.measured()] == [3, 3, 3]


def test_the_loss_of_a_call_is_read_after_the_next_was_started():
    """So that a GPU always has work queued."""
    events = []

    class Loss:
        def __init__(self, number):
            self.number = number

        def __float__(self):
            events.append(f"read {self.number}")
            return float(self.number)

    def step(number):
        events.append(f"start {number}")
        return Loss(number)

    numbers = iter(range(9))
    clock = measured.StepClock(
        synchronize=lambda: events.append("synchronize"),
        effort=measured.Effort(min_warm_up_steps=0, num_steps=3, min_window_s=0.0),
        on_sample=lambda sample: events.append(f"written {sample.step}"),
        on_window=lambda: events.append("window"),
    )
    timed = measured.run_steps(clock, lambda: next(numbers), step)
    assert [sample.loss for sample in timed.samples] == [0.0, 1.0, 2.0]
    assert " ".join(events).split("window")[1].strip() == (
        "start 0 start 1 read 0 written 0 start 2 read 1 written 1 read 2 synchronize written 2"
    )


def test_the_window_ends_when_the_devices_are_idle():
    timed = run([1] * 10, min_warm_up_steps=6, num_steps=4, synchronize_s=0.5)
    assert timed.window_s == pytest.approx(4.5)
    assert timed.cpu_s == pytest.approx(4.5)


def test_waiting_for_data_is_kept_apart_and_is_part_of_the_step():
    sample = run([1] * 10, wait_s=0.25).measured()[0]
    assert (sample.duration_s, sample.data_wait_s) == (pytest.approx(1.25), pytest.approx(0.25))


def test_samples_are_numbered_and_timed_from_the_first_step():
    samples = run([1] * 10, min_warm_up_steps=6).samples
    assert [sample.step for sample in samples] == list(range(9))
    assert [sample.start_s for sample in samples] == list(range(9))


def test_a_loss_that_is_no_number_is_none_in_its_sample():
    clock = Clock()
    step_clock = measured.StepClock(
        synchronize=lambda: None,
        effort=measured.Effort(min_warm_up_steps=0, num_steps=1, min_window_s=0.0),
        on_sample=lambda _: None,
        now=clock,
        cpu_now=clock,
    )
    timed = measured.run_steps(step_clock, lambda: None, lambda _: float("nan"))
    assert timed.samples[0].loss is None


AGE = """
import time
begun_s = time.clock_gettime(time.CLOCK_BOOTTIME)
from trainer import measured
before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
age_s = measured.process_age_s()
after_s = time.clock_gettime(time.CLOCK_BOOTTIME)
print(begun_s, before_s - age_s, after_s - age_s)
"""


def test_the_age_of_a_process_is_counted_from_its_start():
    asked_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    reported = subprocess.run(
        [sys.executable, "-c", AGE], cwd=PROJECT, stdout=subprocess.PIPE, check=True
    ).stdout
    begun_s, earliest_start_s, latest_start_s = map(float, reported.split())
    assert earliest_start_s <= begun_s
    assert latest_start_s >= asked_s - 1 / os.sysconf("SC_CLK_TCK")  # the kernel counts in these
