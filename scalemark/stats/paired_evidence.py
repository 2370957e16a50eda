"""Weighs interleaved pairs of runs, and shares the false wins of a series of proposals."""

import math
from collections.abc import Callable, Sequence

LEVEL = 0.05
"""How often `always_valid_interval` may leave the truth out, at any of all looks."""

# mixed gains, in standard deviations of a difference, and their weights: those are to be found soon
# that are about as large as the noise, and larger ones are sure after few pairs
_GAINS = (0.7, 1.4, 2.8, 5.6, 11.2)
_WEIGHTS = (0.2, 0.45, 0.2, 0.1, 0.05)
_REACH = 8.0  # of an integrand that falls as fast as a normal density, on both sides of its peak
_NUM_STEPS = 201
_HALVINGS = 50


def log_evidence(differences: Sequence[float], idle: Sequence[float] = ()) -> float:
    """Return the logarithm of the e-value for differences whose mean is above 0.

    `idle` are differences of the same spread whose mean is known to be 0: of two runs of one side.
    They must not be among `differences`.

    The largest difference counts in the sum as the second largest does: one run that a neighbor
    slowed down proves nothing, and one difference alone has no evidence. The e-value is smaller for
    it, and so as valid.
    """
    squares = math.fsum(value**2 for value in (*differences, *idle))
    if len(differences) < 2 or squares == 0:
        return 0.0
    *others, second, _ = sorted(differences)
    total = math.fsum((*others, second, second))
    return _log_mixture(total / math.sqrt(squares), len(differences), len(idle))


def most_log_evidence(num: int, num_idle: int) -> float:
    """Return what `log_evidence` comes to if the gain is far larger than any noise."""
    if num < 2:
        return 0.0
    return _log_mixture(math.sqrt(num), num, num_idle)


def always_valid_interval(
    differences: Sequence[float], idle: Sequence[float] = ()
) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean difference, which holds it at all looks at once.

    A mean is in it unless the evidence that the true one is above it, or below, exceeds 2 / LEVEL.
    None where so few differences exclude nothing.
    """
    enough = math.log(2 / LEVEL)
    if not differences or most_log_evidence(len(differences), len(idle)) <= enough:
        return None
    mean = math.fsum(differences) / len(differences)

    def excludes_from_below(reach: float) -> bool:
        return log_evidence([value - mean + reach for value in differences], idle) > enough

    def excludes_from_above(reach: float) -> bool:
        return log_evidence([mean + reach - value for value in differences], idle) > enough

    return mean - _least(excludes_from_below), mean + _least(excludes_from_above)


def _least(holds: Callable[[float], bool]) -> float:
    """Return the least number above 0 for which it holds, as it does for all larger ones."""
    high = 1e-9
    while not holds(high):
        high *= 2
    low = high / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _log_mixture(ratio: float, num: int, num_idle: int) -> float:
    """Return the log e-value for `ratio`: the sum of differences over the root of all squares.

    Root of all squares over spread, y, has the density y^(N-1) exp(-y^2/2) up to a factor; a gain
    of g spreads multiplies the likelihood by exp(g ratio y - num g^2/2).
    """
    import numpy as np  # here, because a sweep that judges nothing needs none

    freedom = num + num_idle
    if freedom < 2:
        return 0.0  # the sign of a single number
    logs = []
    for gain, weight in zip(_GAINS, _WEIGHTS, strict=True):
        lean = gain * ratio
        logs.append(math.log(weight) + _log_integral(freedom, lean) - num * gain**2 / 2)
    return float(np.logaddexp.reduce(logs)) - _log_integral(freedom, 0.0)


def _log_integral(freedom: int, lean: float) -> float:
    """Return the logarithm of the integral of y^(freedom - 1) exp(lean y - y^2/2) over y > 0."""
    import numpy as np

    peak = (lean + math.sqrt(lean**2 + 4 * (freedom - 1))) / 2
    y = np.linspace(max(0.0, peak - _REACH), peak + _REACH, _NUM_STEPS)
    highest = (freedom - 1) * math.log(peak) + lean * peak - peak**2 / 2
    with np.errstate(divide="ignore"):  # of the logarithm of 0, where the density is 0
        logs = (freedom - 1) * np.log(y / peak) + lean * (y - peak) - (y**2 - peak**2) / 2
    return highest + math.log(np.trapezoid(np.exp(logs), y))


HALF_SPENT_AFTER = 100
"""Proposals among which half of the error is divided: the first hundred have levels much alike, and
those of a thousand, with wins among them, do as well."""


def level_of(number: int, num_wins: int, allowed: float) -> float:
    """Return the level of a proposal; `number` counts from 1, `num_wins` are those known when it
    began, and `allowed` is the share of wins that may be false.
    """
    half = HALF_SPENT_AFTER
    share = half / ((number - 1 + half) * (number + half))  # of all numbers the sum is 1
    return min(1.0, allowed * share * (num_wins + 1))
