"""The values that a search for the largest batch tries."""

import pytest

import scalemark
from sweeper.grid.search import (
    MOST_ATTEMPTS,
    MOST_VALUES,
    SearchGoal,
    ValueSearch,
    largest,
    next_value,
)
from tests.specs import small

SIMULATED = ("engine=simulated", "hardware=p100_pcie_8", "model=trivial")


def search(values, first=None) -> ValueSearch:
    specs = {value: small(batch_size=value) for value in values}
    return ValueSearch(axis="batch_size", goal=SearchGoal.MAX, specs=specs, first=first)


@pytest.mark.parametrize(
    ("values", "first"),
    [
        (range(1, 2), None),
        (range(1, 65), None),
        (range(8, 513, 8), None),
        (range(1, MOST_VALUES + 1), None),
        (range(1, 49), 16),
    ],
)
def test_every_limit_is_found_with_the_attempts_that_are_allowed(values, first):
    looked_for = search(values, first)
    for limit in range(values.start - 1, values.stop):
        ran: dict[int, bool] = {}
        while (value := next_value(looked_for, ran, MOST_ATTEMPTS - len(ran))) is not None:
            assert value not in ran
            ran[value] = value <= limit
        fitting = [value for value in values if value <= limit]
        assert largest(ran) == max(fitting, default=None)
        assert len(ran) <= MOST_ATTEMPTS


def test_it_doubles_before_it_bisects():
    assert next_value(search(range(1, 49), 16), {16: True}, 7) == 32
    assert next_value(search(range(1, 49), 16), {16: True, 32: False}, 6) == 24


def test_what_once_had_no_room_bounds_what_runs():
    assert largest({8: True, 12: False, 16: True}) == 8
    assert next_value(search(range(1, 17)), {8: True, 12: False, 16: True}, 5) == 10


@pytest.mark.parametrize(
    "override",
    [
        ("batch_size=max(64,8)",),
        ("batch_size=max(0,8)",),
        ("batch_size=max(8)",),
        ("batch_size=max(8,64,0)",),
        ("batch_size=max(1,4096)",),
        ("batch_size=max,best",),
        ("batch_size=max(1,8)", "+axes.mbs=max(1,8)"),
        ("batch_size=max", "sweep.margin=1"),
        ("batch_size=max", "sweep.dry_run=true", "sweep.plan_format=json"),
        ("batch_size=max(1,8)", "sweep.exclude=batch_size<9"),
    ],
    ids=" ".join,
)
def test_a_search_that_cannot_be_is_refused(override, snapshot):
    with pytest.raises(scalemark.SweepRefusedError) as refusal:
        scalemark.sweep(*SIMULATED, *override)
    assert str(refusal.value) == snapshot
