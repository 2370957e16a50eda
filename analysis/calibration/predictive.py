"""The predictive distribution of fits: throughput with an interval, and the parts of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from analysis.calibration.doubts import doubts, width_doubt
from analysis.calibration.fit import Fit, Prepared
from analysis.calibration.layout import Floats
from costs.step import Costs
from costs.work import Work

if TYPE_CHECKING:
    from analysis.calibration.weighing import Weighing

NUM_DRAWS = 200
_LOW, _HIGH = 2.5, 97.5
_REACH = 1.96  # standard deviations from the middle to the end of a 95 % interval
# degrees of freedom of Student's t: sources bring surprises more often than a normal distribution
_TAILS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What one way of several predicts."""

    name: str
    throughput: float
    weight: float  # of all of one prediction 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictive:
    """The prediction of one row."""

    throughput: float  # median
    low: float  # 95 % predictive interval: of a single figure or process, noise included
    high: float
    reasons: tuple[str, ...]  # to doubt it, but for the width of its interval
    parts: Costs  # at the most probable rates
    candidates: tuple[Candidate, ...] = ()  # that it was weighed from; none: the physics alone
    # of its log, of which the interval is a multiple; 0: the interval is of the physics' draws
    scale: float = 0.0
    weighing: Weighing | None = None  # what it was weighed from; None: the physics alone

    @property
    def uncertain(self) -> tuple[str, ...]:
        """The reasons to doubt it; empty of a sound prediction."""
        return tuple(filter(None, (*self.reasons, width_doubt(self.half_width))))

    @property
    def log_spread(self) -> float:
        """The standard deviation of the log, by the interval."""
        return math.log(self.high / self.low) / (2 * _REACH)

    def doubted(self, reason: str) -> Predictive:
        """Return it with one more reason to doubt it, if any."""
        return replace(self, reasons=(*self.reasons, reason)) if reason else self

    def within(self, quantile: float) -> Predictive:
        """Return it with the interval that reaches so many of its scales to each side."""
        factor = math.exp(quantile * self.scale)
        return replace(self, low=self.throughput / factor, high=self.throughput * factor)

    @property
    def half_width(self) -> float:
        """Half of the interval, over the median."""
        return (self.high - self.low) / 2 / self.throughput


def predictive(fits: Sequence[tuple[float, Fit]], seed: int = 0) -> list[Predictive]:
    """Predict the targets of fits of the same rows, one for each box with its weight, in all 1.

    A prediction does not depend on what else is asked for: each rate and each target has its own
    random numbers.
    """
    shares = _shares(fits)
    likeliest = max(range(len(fits)), key=lambda box: fits[box][0])
    logs, noisy = [], []
    reasons: list[list[str]] = []
    for box, (num, (_, fit)) in enumerate(zip(shares, fits, strict=True)):
        if not num and box != likeliest:
            continue
        doubted = [doubts(target, fit) for target in fit.targets]
        if box == likeliest:
            reasons = [[doubt.reason for doubt in of if doubt.reason] for of in doubted]
        if num:
            further = [sum(doubt.error**2 for doubt in of) for of in doubted]
            drawn, with_noise = _draws(fit, num, np.array(further), (seed, box))
            logs.append(drawn)
            noisy.append(with_noise)
    _, fit = fits[likeliest]
    both = np.concatenate(logs).T, np.concatenate(noisy).T  # (T, D) each
    return [_one(fit, *of) for of in zip(fit.targets, reasons, *both, strict=True)]


def _shares(fits: Sequence[tuple[float, Fit]]) -> list[int]:
    """Return how many draws each box has, by its weight."""
    ends = np.rint(NUM_DRAWS * np.cumsum([weight for weight, _ in fits])).astype(int)
    return [int(num) for num in np.diff(ends, prepend=0)]


def _draws(fit: Fit, num: int, further: Floats, seed: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return log step times (D, T), without and with noise; doubts add `further` variance (T,).

    They follow from draws of the rates, and from what the rows' residuals say of what the physics
    leaves out.
    """
    normal = np.column_stack([_mirrored(seed, name, num) for name in fit.names])
    vectors = fit.vector + normal @ np.linalg.cholesky(fit.covariance).T
    logs = np.column_stack([one.log_step(vectors) for one in fit.targets])
    spread = np.sqrt(fit.outer + further)
    if fit.rows:
        from scipy.linalg import cho_factor, cho_solve  # here, as in `analysis.calibration.fit`

        measured = np.log([one.row.step_s for one in fit.rows])
        computed = np.column_stack([one.log_step(vectors) for one in fit.rows])
        weights = cho_solve(cho_factor(fit.inner), fit.cross.T).T  # (T, R)
        logs = logs + (measured - computed) @ weights.T
        left = np.maximum(fit.outer - np.sum(weights * fit.cross, axis=1), 1e-6)
        spread = np.sqrt(left + further)
    tails = [_random(seed, _name(one.row.work)).standard_t(_TAILS, num) for one in fit.targets]
    t = np.column_stack(tails)
    return logs, logs + t / np.sqrt(_TAILS / (_TAILS - 2)) * spread


def _random(seed: tuple[int, int], name: tuple[object, ...]) -> np.random.Generator:
    """Return the same numbers for the same name, in whatever company."""
    return np.random.default_rng([*seed, crc32(repr(name).encode())])


def _mirrored(seed: tuple[int, int], name: tuple[object, ...], num: int) -> Floats:
    """Return normal numbers, half of which are the negatives of the others: their middle is 0."""
    half = _random(seed, name).standard_normal(-(-num // 2))
    return np.concatenate([half, -half])[:num]


def _name(work: Work) -> tuple[object, ...]:
    """Name a target by its axes, without the layers of its network.

    Axes that came later are named where they are unusual alone: all others keep their numbers.
    """
    later = ("gradient_accumulation", "optimizer", "recompute")
    axes = [
        getattr(work, field.name)
        for field in fields(Work)
        if field.name != "network"
        and (field.name not in later or getattr(work, field.name) != field.default)
    ]
    network = work.network
    size = network.seq_len or network.image_px
    return (network.name, size, *axes)


def _one(
    fit: Fit, target: Prepared, reasons: Sequence[str], log_steps: Floats, noisy: Floats
) -> Predictive:
    """Summarize the draws; parts and reasons to doubt are of the likeliest box."""
    items = target.row.work.num_items(target.row.item)
    median = items / np.exp(np.median(log_steps))
    low, high = items / np.exp(np.percentile(noisy, [_HIGH, _LOW]))
    return Predictive(
        reasons=tuple(reasons),
        throughput=float(median),
        low=float(low),
        high=float(high),
        parts=target.costs(fit.vector),
    )
