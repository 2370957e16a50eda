"""Tests whether the order of two sides' processes alone distinguishes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ALPHA = 0.05
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Result of the exact test of Mann and Whitney (1947)."""

    p: float  # chance of so uneven an order, or more so, among equals
    least: float  # p that so many processes can reach

    @property
    def can_answer(self) -> bool:
        """3 against 3 cannot: of equals, too, all of one side are ahead in one case of 10."""
        return self.least <= ALPHA

    @property
    def agrees(self) -> bool:
        """Say whether it agrees that the sides differ; of so few all of one must be ahead."""
        return self.p <= max(ALPHA, self.least) + _ROUNDING

    @property
    def words(self) -> str:
        if not self.can_answer:
            return f"too few processes for the rank test (its least p is {self.least:.2g})"
        return f"the rank test {'agrees' if self.agrees else 'does not agree'} (p = {self.p:.2g})"


def ranks(a: Sequence[float], b: Sequence[float]) -> Ranks:
    """Test any number of processes; equal values count half, which makes p a little too large."""
    from scipy.stats import mannwhitneyu  # its import takes longer than most commands do

    p = float(mannwhitneyu(a, b, method="exact").pvalue)
    return Ranks(p=p, least=min(1.0, 2 / math.comb(len(a) + len(b), len(a))))
