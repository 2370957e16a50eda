"""Writes numbers with a fixed number of decimals; of huge ones not every digit."""

from __future__ import annotations

_HUGE = 1e15  # from here on a float no longer holds every digit


def fixed(value: float, decimals: int) -> str:
    """Return 91.80, or 1.234e+300 for what is 1e15 or more."""
    return f"{value:.4g}" if abs(value) >= _HUGE else f"{value:.{decimals}f}"
