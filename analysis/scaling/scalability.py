"""Fits how the loss of a curve against the ideal line grows, by the laws of scalability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.results import Result
from scalemark.stats.student import log_quantile
from scalemark.stats.welch import known_ratio_interval

FEWEST_COUNTS = 4  # numbers of GPUs that a law of three parameters needs
MOST_MISFIT = (
    0.05  # of a curve's throughput: where a law misses it by more, it does not describe it
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The Universal Scalability Law (Gunther 1993):
    throughput = rate * N / (1 + sigma * (N - 1) + kappa * N * (N - 1)).

    In shares of a step on one GPU, sigma is what every further GPU adds to it (they queue for
    something they share), kappa what every further pair adds (they wait for each other, and more
    GPUs become slower in the end).
    """

    sigma: float
    sigma_low: float  # 95 % CI, from how far the curve is from the law
    sigma_high: float
    kappa: float
    kappa_low: float
    kappa_high: float
    # the largest distance of a number of GPUs from the law, as a share of its throughput
    misfit: float
    most: int  # GPUs that were tried

    @property
    def describes(self) -> bool:
        return self.misfit <= MOST_MISFIT

    @property
    def lost_by_sigma(self) -> float:
        """The time that a step on the most GPUs is longer by than one on 1."""
        return self.sigma * (self.most - 1)

    @property
    def lost_by_kappa(self) -> float:
        return self.kappa * self.most * (self.most - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial:
    """The share that does not scale, by Amdahl (strong scaling) or Gustafson (weak scaling)."""

    law: str  # Amdahl or Gustafson
    num_gpus: int
    share: float
    low: float | None  # 95 % CI; None where a side is a single run
    high: float | None


def fitted(curve: Sequence[Result]) -> Law | None:
    """Fit results that have numbers; None of fewer than FEWEST_COUNTS numbers of GPUs."""
    counts = [result.num_gpus for result in curve]
    if len(counts) < FEWEST_COUNTS:
        return None
    import numpy as np  # here, because a moment's import is saved where no law is fitted

    from analysis.scaling.law_fit import fit, log_images

    logs_of = [np.log(result.repeats) for result in curve]
    logs = np.concatenate(logs_of)
    nums = np.repeat(np.array(counts, float), [len(of) for of in logs_of])
    found, errors = fit(nums, logs)
    reach = math.exp(log_quantile(len(logs) - 3)) * errors
    means = np.array([of.mean() for of in logs_of])
    misfit = np.abs(np.expm1(means - log_images(np.array(counts, float), found))).max()
    _, sigma, kappa = (float(value) for value in found)
    _, sigma_reach, kappa_reach = (float(value) for value in reach)
    return Law(
        sigma=sigma,
        sigma_low=max(0.0, sigma - sigma_reach),
        sigma_high=sigma + sigma_reach,
        kappa=kappa,
        kappa_low=max(0.0, kappa - kappa_reach),
        kappa_high=kappa + kappa_reach,
        misfit=float(misfit),
        most=max(counts),
    )


def serial_share(result: Result, *, strong: bool) -> Serial | None:
    """Derive it from the speed-up alone; None without a baseline on 1 GPU, and on 1 GPU."""
    baseline = result.baseline
    if result.num_gpus < 2 or baseline is None or baseline.num_gpus != 1 or result.speed_up is None:
        return None
    law = _amdahl if strong else _gustafson
    low, high = known_ratio_interval(result.repeats, baseline.repeats)
    return Serial(
        law="Amdahl" if strong else "Gustafson",
        num_gpus=result.num_gpus,
        share=law(result.speed_up, result.num_gpus),
        low=None if high is None else law(high, result.num_gpus),
        high=None if low is None else law(low, result.num_gpus),
    )


def _amdahl(speed_up: float, num_gpus: int) -> float:
    """Return Karp and Flatt's (1990) experimentally determined serial fraction."""
    return (num_gpus / speed_up - 1) / (num_gpus - 1)


def _gustafson(speed_up: float, num_gpus: int) -> float:
    return (num_gpus - speed_up) / (num_gpus - 1)
