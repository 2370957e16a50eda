"""Numbers for people: without an exponent below 1e15, with as many digits as the articles have."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scalemark.text.wording import fixed


def number(value: float, *, exactly: bool = False) -> str:
    """Return 0.0123, 3.14, 91.8, 142 or 10509; with `exactly` all digits of another number."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    text = fixed(value, _decimals(abs(value)))
    if exactly and float(text) != value and 1e-4 <= abs(value) < 1e10:
        return f"{value:.10g}"
    return text


def span(low: float, high: float, around: float) -> str:
    """Return `88.7, 93.2`, with as many decimals as the number that they lie around."""
    decimals = _decimals(abs(around))
    return f"{fixed(low, decimals)}, {fixed(high, decimals)}"


def with_interval(value: float, low: float | None, high: float | None) -> str:
    """Return `91.8 [88.7, 93.2]`, the one notation of an interval."""
    if low is None or high is None:
        return number(value)
    return f"{number(value)} [{span(low, high, value)}]"


def rate_with_interval(rate: float, low: float | None, high: float | None) -> str:
    """Return a throughput with its interval; of repeats too few to tell `331 [unknown]`."""
    if low is None or high is None:
        return number(rate)
    return f"{number(rate)} [{rate_span(low, high, rate)}]"


def rate_span(low: float, high: float, around: float) -> str:
    """Return the ends of a throughput's interval as `span`; `unknown` where it is wider than the
    number, as that of two repeats may be, and tells nothing.
    """
    return "unknown" if high - low > around else span(low, high, around)


FEW_REPEATS = 4  # below so many, runs are shown instead of an interval


def spread(repeats: Sequence[float], low: float | None, high: float | None, around: float) -> str:
    """Return `[88.7, 93.2]`, or `(159 to 435, n=2)` where repeats are too few for an interval, or
    it is wider than the number. A single run has no spread.
    """
    if len(repeats) < 2:
        return ""
    is_known = low is not None and high is not None and high - low <= around
    if len(repeats) < FEW_REPEATS or not is_known or low is None or high is None:
        return f"({number(min(repeats))} to {number(max(repeats))}, n={len(repeats)})"
    return f"[{span(low, high, around)}]"


def _decimals(size: float) -> int:
    """Keep three digits, or one behind the point below 100."""
    if size >= 99.95:
        return 0
    if size >= 9.995:
        return 1
    return min(2 - math.floor(math.log10(size)), 6) if 0 < size < 0.1 else 2
