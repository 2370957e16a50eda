"""Tests whether what the models of a box lose grows with the bytes that they send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALPHA = 0.05
FEWEST = 4  # of fewer no order is rarer than 1 in 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One model and batch, on all devices of the test and on one alone."""

    sent_bytes: float  # gradients of one replica
    alone_s: float  # the step of one replica alone
    lost_s: float  # that the step on all devices takes longer

    @property
    def demand(self) -> float:
        """Bytes for each second of compute: what the links must carry to cost nothing."""
        return self.sent_bytes / self.alone_s

    @property
    def share(self) -> float:
        """The loss for each second of compute."""
        return self.lost_s / self.alone_s

    @property
    def efficiency(self) -> float:
        return self.alone_s / (self.alone_s + self.lost_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The growth of losses with bytes."""

    s_per_byte: float  # Theil and Sen's slope
    p: float  # chance of so rising an order, or more so, where bytes do not matter
    num: int  # points
    # the order of the time of compute explains losses as well: a fixed time per step would do
    is_rivaled: bool

    @property
    def is_shown(self) -> bool:
        return self.p <= ALPHA and not self.is_rivaled


def growth(points: Sequence[Point]) -> Growth | None:
    """Test by Kendall's tau, one-sided, of the loss against the bytes per second of compute.

    Contention for power or memory takes a share of the compute: then the order is by chance. What
    the host takes of each step is fixed, and weighs more where compute is short, which the demand
    rises with, too: so bytes must order the losses better than 1 / compute does. Of trials that
    lose by such causes at most 1 % are taken for communication (`benchmarks/verdicts.py`).

    Returns None for fewer than 4 points, and where all send or lose as much: nothing has an order.
    """
    # their import takes longer than most commands do
    from scipy.stats import kendalltau, theilslopes

    demands = [point.demand for point in points]
    shares = [point.share for point in points]
    sizes = [point.sent_bytes for point in points]
    if len(points) < FEWEST or any(len({*each}) < 2 for each in (sizes, demands, shares)):
        return None
    found = kendalltau(demands, shares, alternative="greater")
    fixed = kendalltau([1 / point.alone_s for point in points], shares)
    return Growth(
        s_per_byte=float(theilslopes(shares, demands).slope),
        p=float(found.pvalue),
        num=len(points),
        is_rivaled=not found.statistic > fixed.statistic,
    )
