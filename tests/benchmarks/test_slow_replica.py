"""The slow replica is named in 99 % of cases and an innocent one in 1 % at most: a short form."""

import pytest

from benchmarks.slow_replica import CASES, rows

BY_NAME = {case.name: case for case in CASES}
NUM_TIMES = 40


@pytest.mark.parametrize(
    "case", ["noise 6 %", "a host that slows all alike", "order or place, 2 %", "pauses in 5 % of rounds",
             "AR(1) 0.9, noise 5 %"]
)  # fmt: skip
def test_the_slow_one_is_named_and_no_other(case):
    none, one, two = rows(BY_NAME[case], NUM_TIMES)
    assert (none.wrong, one.wrong, two.wrong) == (0, 0, 0)
    assert one.named >= 0.97


@pytest.mark.parametrize("case", ["AR(1) 0.9, noise 20 %", "a socket 8 % slower"])
def test_what_looks_slow_by_chance_or_place_is_not_named(case):
    found = list(rows(BY_NAME[case], NUM_TIMES))
    assert {row.wrong for row in found} == {0}
