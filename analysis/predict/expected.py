"""What advice expects of trials that nobody ran: those that carry a measured curve on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from analysis.predict.curves import curves, predict
from analysis.predict.rules import Basis
from analysis.results import Result
from analysis.text.numbers import with_interval
from scalemark.records.trial import TrialSpec
from scalemark.stats.welch import error_of_log_mean

_REACH = 1.96  # standard deviations from the middle to the end of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The prediction for one trial."""

    throughput: float
    low: float  # 95 % interval
    high: float
    unit: str
    is_doubted: bool  # it rests on less than a curve

    @property
    def text(self) -> str:
        predicted = f"{with_interval(self.throughput, self.low, self.high)} {self.unit}"
        return ", ".join([f"predicted {predicted}", *self.badges])

    @property
    def badges(self) -> tuple[str, ...]:
        return ("uncertain",) if self.is_doubted else ()

    def chance(self, throughput: float, best: Result) -> float:
        """Return the chance to reach `throughput`, known as well as the repeats of the best are.

        Both are taken to be normal in logarithms.
        """
        spread = math.hypot(_spread(self.low, self.high), _error(best))
        return NormalDist().cdf(math.log(self.throughput / throughput) / spread)


def _error(best: Result) -> float:
    """Return the error of its log throughput: over processes, or within a single one."""
    if len(best.repeats) > 1:
        return error_of_log_mean(best.repeats)
    return _spread(best.low, best.high)


def _spread(low: float | None, high: float | None) -> float:
    """Return the standard deviation of the logarithm; 0 where no interval is known."""
    return math.log(high / low) / (2 * _REACH) if low and high else 0.0


def expected(results: Sequence[Result], specs: Sequence[TrialSpec]) -> dict[str, Expected]:
    """Predict trials, by their ids, from results of one environment.

    Those are missing that carry no curve on: another strategy or batch is measured, not predicted.
    """
    there = curves(results)
    by_digest = {curve.first.curve: curve for curve in there}
    found: dict[str, Expected] = {}
    for spec in specs:
        curve = by_digest.get(spec.curve)
        if curve is None:
            continue
        prediction = predict(curve, spec.num_gpus, there)
        if prediction.throughput and prediction.low and prediction.high:
            found[spec.trial_id] = Expected(
                throughput=prediction.throughput,
                low=prediction.low,
                high=prediction.high,
                unit=prediction.unit,
                is_doubted=prediction.basis is not Basis.CURVE,
            )
    return found
