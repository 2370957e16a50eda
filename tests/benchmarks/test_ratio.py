"""What a row of a benchmark's table says about its target."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.ratio import Ratio, Want, table


def row(pairs: list[tuple[float, float]], want: Want, target: float | None = 1.0) -> Ratio:
    return Ratio(
        name="n", ours="ours", peer="peer", metric="s", pairs=pairs, target=target, want=want
    )


FASTER = [(1.0, 2.0), (1.1, 2.0), (0.9, 2.0)]  # half of the peer's time, in every round
ALIKE = [(1.01, 1.0), (1.0, 1.02), (1.0, 1.0)]
EITHER = [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)]


@pytest.mark.parametrize(
    ("pairs", "want", "verdict"),
    [
        (FASTER, Want.AT_MOST, "met"),
        (FASTER, Want.AT_LEAST, "missed"),
        (FASTER, Want.EQUAL, "missed"),
        (EITHER, Want.AT_MOST, "open"),
        (EITHER, Want.AT_LEAST, "open"),
        (EITHER, Want.EQUAL, "open"),  # it may well be twice or half
        (ALIKE, Want.EQUAL, "met"),
    ],
)
def test_a_target_is_met_or_missed_only_where_the_whole_interval_says_so(
    pairs: list[tuple[float, float]], want: Want, verdict: str
):
    assert row(pairs, want).verdict == verdict


def test_one_round_has_no_interval_and_decides_nothing():
    assert row(FASTER[:1], Want.AT_MOST).verdict == "open"


def test_a_row_without_target_has_no_verdict():
    assert row(FASTER, Want.AT_MOST, None).verdict == ""


def test_the_ratio_is_the_median_of_the_rounds():
    ratio = row([(1.0, 1.0), (1.0, 4.0), (3.0, 2.0)] * 2, Want.AT_MOST)
    assert (ratio.ratio, ratio.low, ratio.high) == (1.0, 0.25, 1.5)
    assert "| 1 | 2 | 1.000 | 0.250..1.500 | <= 1.00 | open |" in table([ratio])


def test_of_few_rounds_the_interval_is_by_students_t():
    ratio = row([(0.98, 1.0), (1.0, 1.0), (1.02, 1.0)], Want.EQUAL)
    assert ratio.low == pytest.approx(0.951, abs=5e-4)  # exp(-4.303 * 0.02 / sqrt(3)), nearly
    assert ratio.high == pytest.approx(1.051, abs=5e-4)


def test_equals_are_seldom_called_unequal():
    """A bug: with 3 rounds a quarter of equals were, because the lowest and highest ratio made the interval."""
    draws = np.random.default_rng(1).lognormal(sigma=0.01, size=(400, 3, 2))
    found = Counter(row([tuple(pair) for pair in rounds], Want.EQUAL).verdict for rounds in draws)
    assert found["missed"] == 0
    assert found["met"] > 300
