"""Step times of which the truth is known: processes that differ, neighbors that resemble each
other, drift and outliers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from simulator.run import process_factor, step_factors

BATCH = 64  # images per step
APART = 0.1  # of two speeds: how much longer the slower one's steps take, as a share
_FORGOTTEN = 50  # steps before the first, by which an autoregression has forgotten how it began


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long the steps of one trial take."""

    mean_s: float = 0.1
    process_noise: float = 0.02  # standard deviation of the logarithm of a process's mean
    noise: float = 0.03  # of the logarithm of a step within it
    correlation: float = 0.5  # of neighboring steps
    drift: float = 0.0  # growth over the attempt, as a share
    # how much longer the first step takes, as a share: what is left of a warm-up, equal parts of
    # which fade by e in these shares of all steps, and which is none of the truth
    fading: float = 0.0
    fades_in: tuple[float, ...] = (0.1,)
    outliers: float = 0.0  # share of steps that take longer
    pause: float = 1.0  # by how many steps these take longer, on average
    stay: float = math.inf  # steps that each of two speeds lasts on average; of one speed no end
    modes: float = 0.0  # how much longer the steps of half of all processes take, as a share
    num_steps: int = 100


def truth(times: Times) -> float:
    """Images/s of the typical process: of processes without end, the geometric mean of batch /
    expected step time.
    """
    drifting = np.exp(times.drift * _time(times.num_steps)).mean()
    return float(
        BATCH
        / (
            times.mean_s
            * math.exp(times.noise**2 / 2)
            * drifting
            * (1 + times.outliers * times.pause)
            * (1 if math.isinf(times.stay) else 1 + APART / 2)
            * math.sqrt(1 + times.modes)
        )
    )


def processes(times: Times, num: int, count: int, random: np.random.Generator) -> Iterator[Timed]:
    """`count` samples of `num` processes each."""
    shape = (count, num, times.num_steps)
    steps = np.exp(
        times.noise * _alike(shape, times.correlation, random)
        + times.drift * _time(times.num_steps)
    )
    steps *= np.where(
        random.random(shape) < times.outliers, 1 + random.exponential(times.pause, shape), 1.0
    )
    steps *= times.mean_s * np.exp(times.process_noise * random.normal(size=(count, num, 1)))
    if times.fading:
        passed = _time(times.num_steps) + 0.5
        parts = [np.exp(-passed / length) for length in times.fades_in]
        steps *= 1 + times.fading * np.mean(parts, axis=0)
    if times.modes:
        steps *= 1 + times.modes * random.integers(0, 2, (count, num, 1))
    if not math.isinf(times.stay):
        steps *= 1 + APART * _is_slow(shape, times.stay, random)
    for one in steps:
        yield Timed(
            throughput=tuple((BATCH / one.mean(axis=1)).tolist()),
            durations_s=tuple(map(tuple, one.tolist())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Processes with the seconds of their steps."""

    throughput: tuple[float, ...]  # of each process
    durations_s: tuple[tuple[float, ...], ...]


def _is_slow(shape: tuple[int, int, int], stay: float, random: np.random.Generator) -> np.ndarray:
    """0 or 1, which take turns along the last axis and begin with either."""
    first = random.integers(0, 2, (*shape[:2], 1))
    changes = np.cumsum(random.random(shape) < 1 / stay, axis=2)
    found: np.ndarray = (first + changes) % 2
    return found


def _alike(
    shape: tuple[int, int, int], correlation: float, random: np.random.Generator
) -> np.ndarray:
    """Of standard deviation 1 along the last axis."""
    new = random.normal(size=(*shape[:2], shape[2] + _FORGOTTEN)) * math.sqrt(1 - correlation**2)
    found: np.ndarray = lfilter([1.0], [1.0, -correlation], new, axis=2)[:, :, _FORGOTTEN:]
    return found


def _time(num_steps: int) -> np.ndarray:
    """From -1/2 to 1/2 over the attempt."""
    return np.arange(num_steps) / num_steps - 0.5


def step_times(
    random: np.random.Generator, step_s: float, injected: Mapping[str, float], num_steps: int
) -> list[float]:
    """Draw the step times of one process, whose mean over all processes is `step_s`."""
    mean_s = step_s * process_factor(random, injected)
    factors = step_factors(random, injected, num_steps)
    return [mean_s * factor for factor in itertools.islice(factors, num_steps)]
