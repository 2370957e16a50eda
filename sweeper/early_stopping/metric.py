"""The number by which a change is judged, and what is read of the numbers of its runs."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalemark.records.axes import number_of
from store.reading.earlier import CompletedRepeat
from sweeper import SweepRefusedError
from sweeper.early_stopping.rule import KeptMetric

THROUGHPUT = "throughput"
FALLS = re.compile(r"(?i)(^|[^a-z])(loss|perplexity|ppl|error)$")  # names of what is better low
_LEAST, _MOST = 1e-150, 1e150  # ratios of values within are numbers, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What tells which of two trials is better."""

    name: str = THROUGHPUT
    lower: bool = False  # less of it is better

    def speeds(self, values: Sequence[float]) -> tuple[float, ...]:
        """Return numbers of which more is better."""
        return tuple(1 / value for value in values) if self.lower else tuple(values)

    def gain(self, better_by: float) -> float:
        """Return the gain of such numbers where the metric is better by a share."""
        return better_by / (1 - better_by) if self.lower else better_by

    def percent(self, gain: float | None) -> float | None:
        """Return by how much better the metric is with a gain of such numbers."""
        if gain is None:
            return None
        return 100 * (gain / (1 + gain) if self.lower else gain)


def parse_kept(text: str) -> KeptMetric:
    """Return the limit that `loss=0.5%` or `accuracy=-1%` means. Raises SweepRefusedError."""
    name, _, percent = text.rpartition("=")
    limit = (number_of(percent.strip().removesuffix("%").strip()) or 0.0) / 100
    if not name or not percent.strip().endswith("%") or not 0 < abs(limit) < 1:
        raise SweepRefusedError(
            f"--keep {text}: wanted NAME=PERCENT, as loss=0.5% where it may rise by less than that "
            "or accuracy=-1% where it may fall, more than 0 and below 100 %"
        )
    return KeptMetric(name=name.strip(), limit=limit)


def values_of(repeats: Sequence[CompletedRepeat], name: str) -> list[float]:
    """Return the numbers that can be compared by their ratios."""
    values = [repeat.metrics.get(name, math.nan) for repeat in repeats]
    if name == THROUGHPUT:
        values = [repeat.throughput for repeat in repeats]
    return [value for value in values if _LEAST < value < _MOST]


def lacking(repeats: Sequence[CompletedRepeat], names: Iterable[str]) -> str:
    """Return which number a repeat lacks; empty where all are there."""
    for repeat in repeats:
        for name in names:
            if not values_of([repeat], name):
                value = repeat.metrics.get(name, "not known")
                return f"no {name} above 0 in attempt {repeat.attempt_id}, where it is {value}"
    return ""
