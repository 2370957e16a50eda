"""The candidates of one prediction, from which it can be weighed again by other constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from analysis.calibration.intervals import NORMAL_QUANTILE, QUANTILES, Quantiles, scale
from analysis.calibration.predictive import Candidate, Predictive
from analysis.calibration.weights import CURVE, TYPICAL, Entry, Typical, stacked


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """The candidates of one prediction, and how they did on the same box."""

    kind: str  # CURVE or another of `weights`
    num_gpus: int
    most_gpus: int  # of its curve's rows
    logs: Mapping[str, float]  # by candidate: of the time of one item on one GPU
    leverages: Mapping[str, float]  # `rules.leverages`; of candidates that are not there 1
    record: tuple[Entry, ...]
    noise: float  # of one figure
    physics: Predictive

    def predictive(
        self, typical: Typical = TYPICAL, quantiles: Quantiles = QUANTILES
    ) -> Predictive:
        """Replace the physics' throughput and interval by those of all candidates."""
        stack = stacked(self.logs, self._variances(typical[self.kind]), self.record)
        spread = scale(self.noise, stack.variance, self.physics.log_spread)
        candidates = []
        for name, share in stack.weights.items():
            throughput = self.num_gpus / math.exp(stack.logs[name])
            candidates.append(Candidate(name=name, throughput=throughput, weight=share))
        one = replace(
            self.physics,
            throughput=self.num_gpus / math.exp(stack.middle),
            candidates=tuple(candidates),
            scale=spread,
            weighing=self,
        )
        is_normal = self.kind != CURVE
        return one.within(NORMAL_QUANTILE if is_normal else quantiles[bool(one.reasons)])

    def _variances(self, typical: Mapping[str, float]) -> dict[str, float]:
        """Return the variance that each candidate has by itself: of the physics of a curve, for
        which no typical error is fitted, that of its interval.
        """
        found = {}
        for name in self.logs:
            if name in typical:
                carried = self.leverages.get(name, 1.0) * self.noise**2
                found[name] = carried + typical[name] ** 2
            else:
                found[name] = self.physics.log_spread**2
        return found
