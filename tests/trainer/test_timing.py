"""Warm-up ends when steps are steady, and throughput is of the synchronized window."""

import pytest

from store.records import Phase
from trainer import timing


class Clock:
    """Advances only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(durations, *, min_warm_up_steps=2, num_steps=3, synchronize_s=0.0, wait_s=0.0):
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

    timed = timing.run_steps(
        next_batch=next_batch,
        step=step,
        synchronize=synchronize,
        min_warm_up_steps=min_warm_up_steps,
        num_steps=num_steps,
        on_step=seen.append,
        clock=clock,
        cpu_clock=clock,
    )
    assert seen == timed.samples
    return timed


def test_warm_up_goes_on_until_three_steps_agree():
    timed = run([9, 6, 1, 1, 1, 1, 1, 1])
    assert [sample.phase for sample in timed.samples] == [Phase.WARM_UP] * 5 + [Phase.MEASURE] * 3
    assert timed.steady


def test_warm_up_gives_up_in_time_and_says_so():
    timed = run([1, 2] * 10, min_warm_up_steps=2)
    assert len(timed.samples) - len(timed.measured()) == 2 * timing.MAX_WARM_UP_STEPS_FACTOR
    assert not timed.steady


def test_warm_up_is_never_shorter_than_asked():
    assert len(run([1] * 20, min_warm_up_steps=10).samples) == 13


def test_no_warm_up_can_be_asked_for():
    timed = run([1] * 3, min_warm_up_steps=0)
    assert len(timed.samples) == 3
    assert not timed.steady


def test_the_window_ends_when_the_devices_are_idle():
    timed = run([1] * 10, min_warm_up_steps=3, num_steps=4, synchronize_s=0.5)
    assert timed.window_s == pytest.approx(4.5)
    assert timed.cpu_s == pytest.approx(4.5)


def test_waiting_for_data_is_kept_apart_and_is_part_of_the_step():
    sample = run([1] * 10, wait_s=0.25).measured()[0]
    assert (sample.duration_s, sample.data_wait_s) == (pytest.approx(1.25), pytest.approx(0.25))


def test_samples_are_numbered_and_timed_from_the_first_step():
    samples = run([1] * 10, min_warm_up_steps=3).samples
    assert [sample.step for sample in samples] == list(range(6))
    assert [sample.start_s for sample in samples] == [0, 1, 2, 3, 4, 5]


def test_jitter_is_the_scaled_median_absolute_deviation():
    assert timing.jitter_s([1.0, 1.0, 2.0, 4.0, 8.0]) == pytest.approx(1.4826 * 1.0)


def test_a_loss_that_is_no_number_is_none_in_its_sample():
    clock = Clock()
    timed = timing.run_steps(
        next_batch=lambda: None,
        step=lambda _: float("nan"),
        synchronize=lambda: None,
        min_warm_up_steps=0,
        num_steps=1,
        on_step=lambda _: None,
        clock=clock,
        cpu_clock=clock,
    )
    assert timed.samples[0].loss is None
