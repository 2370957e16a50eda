"""A budget is read from its text, and decides which attempts there is room for."""

import math

import pytest

from sweeper import SweepRefusedError
from sweeper.early_stopping.budget import Budget, read_budget
from tests.sweeper.loop.fakes import FakeClock


@pytest.mark.parametrize(
    ("text", "most_s", "of_devices"),
    [
        ("2h", 7200.0, False),
        ("90m", 5400.0, False),
        ("2h30m", 9000.0, False),
        ("0.5h", 1800.0, False),
        ("1m30s", 90.0, False),
        ("8gpu_h", 28800.0, True),
        ("inf", math.inf, False),
    ],
)
def test_a_budget_is_a_time_or_gpu_hours(text, most_s, of_devices):
    budget = read_budget(text, FakeClock())
    assert (budget.most_s, budget.of_devices) == (most_s, of_devices)


def test_without_a_budget_there_is_none():
    assert read_budget("") is None


@pytest.mark.parametrize(
    "text",
    ["-1h", "0", "0h", "2", "1e9h", "nan", "Inf", "2 h", "30m2h", "h", "gpu_h", "-8gpu_h", "٢h"],
)
def test_what_is_no_budget_is_refused_with_the_forms(text):
    with pytest.raises(SweepRefusedError) as refused:
        read_budget(text)
    assert str(refused.value) == (
        f"sweep.budget={text}: wanted a time as 2h, 90m or 2h30m, GPU-hours as 8gpu_h, or inf for "
        "races without a limit; leave it out to run everything in full"
    )


def test_time_counts_from_the_first_attempt_on():
    clock = FakeClock()
    budget = Budget(100.0, clock=clock)
    clock.now_s = 1000.0
    assert budget.has_room(500.0, 8), "the first attempt always runs"
    budget.begun("a", None, 8)
    clock.now_s = 1040.0
    assert budget.ended("a") == 40.0
    assert budget.has_room(59.0, 8)
    assert not budget.has_room(60.0, 8)
    assert budget.has_room(None, 8), "its duration is unknown"
    clock.now_s = 1100.0
    assert not budget.has_room(None, 8)
    assert str(budget) == "2 min of 2 min"


def test_gpu_hours_are_seconds_of_attempts_times_their_devices():
    clock = FakeClock()
    budget = Budget(3600.0, of_devices=True, clock=clock)
    budget.begun("a", None, 8)
    clock.now_s = 100.0
    budget.ended("a")
    clock.now_s = 5000.0  # nothing runs
    assert str(budget) == "0.222 device-hours of 1 device-hours"
    assert not budget.has_room(350.0, 8)
    assert budget.has_room(349.0, 8)
    budget.begun("b", 300.0, 4)
    assert not budget.has_room(200.0, 8), "what runs will take 1200"
    assert budget.has_room(199.0, 8)
