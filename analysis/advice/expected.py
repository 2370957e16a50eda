"""Estimates trials that nobody ran with the calibrated cost model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

from analysis.advice.questions import Question
from analysis.results import Result
from analysis.text.numbers import with_interval
from costs.work import Work
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.stats.welch import error_of_log_mean
from store.errors import StoreError

_REACH = 1.96  # standard deviations from the middle to the end of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The prediction for one trial."""

    throughput: float
    low: float  # 95 % predictive interval of a process
    high: float
    unit: str  # of throughput
    doubts: tuple[str, ...]  # empty of a sound prediction

    @property
    def text(self) -> str:
        predicted = f"{with_interval(self.throughput, self.low, self.high)} {self.unit}"
        return ", ".join([f"predicted {predicted}", *self.badges])

    @property
    def badges(self) -> tuple[str, ...]:
        return ("uncertain",) if self.doubts else ()

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


def expected(question: Question, specs: Sequence[TrialSpec]) -> dict[str, Expected]:
    """Predict trials, by their ids, from the rows of their question.

    Those are missing whose model or strategy the cost model does not know, and those too far from
    the rows.
    """
    specs = [spec for spec in specs if spec.hosts == 1]
    if not specs or question.environment.device_kind is DeviceKind.CPU_DEVICE:
        return {}
    if question.is_of_program:
        return {}
    # Imported here, because scipy takes its time.
    from analysis.prediction.predictions import alike

    found: dict[str, Expected] = {}
    for results in alike(question.able):
        of_kind = [spec for spec in specs if dict(spec.free) == results[0].free]
        if of_kind:
            found |= _expected(results, of_kind)
    return found


def _expected(results: Sequence[Result], specs: Sequence[TrialSpec]) -> dict[str, Expected]:
    """Predict trials from results that have their free axes."""
    from analysis.calibration.environments import guess_of
    from analysis.calibration.row import Row
    from analysis.prediction.predictions import learned, predictions

    try:
        guess = guess_of(results[0].environment, max(spec.num_gpus for spec in specs))
        known = learned(results, guess)
        rows = [
            Row(
                work=Work.of(asdict(spec)),
                throughput=None,
                name=spec.trial_id,
                item=results[0].item,
            )
            for spec in specs
        ]
        predicted = predictions(known, rows)
    except (StoreError, ValueError):  # nothing to learn from, or unknown to the cost model
        return {}
    found = {}
    for row, one in zip(rows, predicted, strict=True):
        if one.predictive is not None:
            found[row.name] = Expected(
                throughput=one.predictive.throughput,
                low=one.predictive.low,
                high=one.predictive.high,
                unit=one.unit,
                doubts=one.predictive.uncertain,
            )
    return found
