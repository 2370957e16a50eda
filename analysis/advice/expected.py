"""What trials that nobody ran are expected to reach, by the cost model calibrated with the rows of
their question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from analysis.advice.questions import Question
from analysis.results import Result
from analysis.text.numbers import number, span
from costs.work import Work
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.stats.welch import error_of_log_mean
from store.errors import StoreError

if TYPE_CHECKING:
    from analysis.prediction.predictions import Prediction

_REACH = 1.96  # standard deviations from the middle to the end of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Of one trial."""

    throughput: float
    low: float  # 95 % interval of a process
    high: float
    doubts: tuple[str, ...]  # empty of a sound prediction

    @property
    def text(self) -> str:
        around = (
            f"{number(self.throughput)} images/s [{span(self.low, self.high, self.throughput)}]"
        )
        return f"predicted {around}{', with doubts' if self.doubts else ''}"

    def chance(self, throughput: float, best: Result) -> float:
        """That it reaches as much as the best does, which is itself as sure as its repeats; both
        are normal in logarithms.
        """
        spread = math.hypot(_spread(self.low, self.high), _error(best))
        return NormalDist().cdf(math.log(self.throughput / throughput) / spread)


def _error(best: Result) -> float:
    """Of its typical logarithm, over processes; of one process alone what is known, within it."""
    return (
        error_of_log_mean(best.repeats) if len(best.repeats) > 1 else _spread(best.low, best.high)
    )


def _spread(low: float | None, high: float | None) -> float:
    """Standard deviation of the logarithm; 0 where nobody knows an interval."""
    return math.log(high / low) / (2 * _REACH) if low and high else 0.0


def expected(question: Question, specs: Sequence[TrialSpec]) -> list[Expected | None]:
    """None where the cost model does not know the model or the strategy, or the rows are too few,
    or too far.
    """
    nothing: list[Expected | None] = [None] * len(specs)
    if not specs or question.place.device_kind is DeviceKind.CPU_STAND_IN:
        return nothing
    from analysis.calibration.places import guess_of
    from analysis.calibration.row import Row  # here, because scipy takes its time to import
    from analysis.prediction.predictions import learned, predictions

    try:
        known = learned(
            question.able, guess_of(question.place, max(spec.num_gpus for spec in specs))
        )
        rows = {
            spec.trial_id: Row(work=Work.of(asdict(spec)), throughput=None, name=spec.trial_id)
            for spec in specs
            if spec.hosts == 1
        }
        found = dict(zip(rows, predictions(known, list(rows.values())), strict=True))
        return [
            _expected(found[spec.trial_id]) if spec.trial_id in found else None for spec in specs
        ]
    # nothing to learn from, or not in the cost model's words: then nothing is predicted
    except (StoreError, ValueError):
        return nothing


def _expected(one: Prediction) -> Expected | None:
    found = one.predictive
    if found is None:
        return None
    return Expected(
        throughput=found.throughput,
        low=found.low,
        high=found.high,
        doubts=found.uncertain,
    )
