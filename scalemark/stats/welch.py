"""Intervals of means and ratios over processes by Student's and Welch's t; evidence of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate

from scalemark.stats.distributions import upper_quantile

LEVEL = 0.05
"""How often the truth may be outside a 95 % interval."""


def log_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the logarithm of what |t| exceeds by chance `level`; `freedom` may be infinite."""
    return math.log(upper_quantile(level / 2, freedom))


def typical(measured: Sequence[float]) -> float:
    """Return the geometric mean of values above 0, the center of their interval and of ratios."""
    if len(measured) == 1:
        return measured[0]  # without the rounding of a logarithm
    return math.exp(_of_logarithms(tuple(measured))[0])


def interval(measured: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % CI of the geometric mean of two or more processes' values above 0."""
    mean, variance = _of_logarithms(tuple(measured))
    reach = reach_of_sum([(variance / len(measured), len(measured) - 1)])
    return _power(mean - reach), _power(mean + reach)


def ratio_interval(
    of_a: Sequence[float], of_b: Sequence[float], level: float = LEVEL
) -> tuple[float, float]:
    """Return the interval of A / B, of two or more values above 0 each; `level` 0.05 is 95 %.

    Welch's t (1947) with two corrections, since so few values say little of their own spread. With
    sides of unlike size his quantile is too small where the small one spreads by chance too little:
    it leans towards that of Cochran and Cox (1950), the more the less alike the sizes are. With
    sides of like size it is a little too wide: each variance is drawn towards what both have in
    common, by an eighth of a degree of freedom. Where both spread alike, 95 to 97.5 % of intervals
    hold the truth then; where one spreads up to 10 times as much, 92.5 to 98 %
    (benchmarks/evidence.md).
    """
    mean_a, variance_a = _of_logarithms(tuple(of_a))
    mean_b, variance_b = _of_logarithms(tuple(of_b))
    reach = reach_of_ratio((variance_a, variance_b), (len(of_a), len(of_b)), level)
    return _power(mean_a - mean_b - reach), _power(mean_a - mean_b + reach)


def reach_of_ratio(
    variances: tuple[float, float], nums: tuple[int, int], level: float = LEVEL
) -> float:
    """Return half of that interval, of logarithms, for two or more values of each side."""
    free_a, free_b = nums[0] - 1, nums[1] - 1
    alike = min(free_a, free_b) / max(free_a, free_b)
    common = (free_a * variances[0] + free_b * variances[1]) / (free_a + free_b)
    pull = alike**2 / 8
    errors = []  # squared, of the means
    for free, variance in ((free_a, variances[0]), (free_b, variances[1])):
        drawn = (free * variance + pull * common) / (free + pull)
        errors.append((drawn / (free + 1), free))
    return reach_of_sum(errors, level, lean=(1 - alike) ** 2)


def reach_of_sum(
    errors: Sequence[tuple[float, float]], level: float = LEVEL, lean: float = 0.0
) -> float:
    """Return half the interval of a sum of independent numbers, by Welch and Satterthwaite.

    Each has its squared error and the degrees of freedom of that. `lean` 1 takes the quantile of
    Cochran and Cox, which is never too small.
    """
    total = math.fsum([error for error, _ in errors])
    quantile = log_quantile(freedom_of_sum(errors), level)
    if lean:
        weighted = [error * math.exp(log_quantile(free, level)) for error, free in errors]
        quantile = (1 - lean) * quantile + lean * math.log(math.fsum(weighted) / total)
    return math.exp(quantile) * math.sqrt(total)


def freedom_of_sum(errors: Sequence[tuple[float, float]]) -> float:
    """Return the degrees of freedom of the error of such a sum, which is not 0."""
    total = math.fsum([error for error, _ in errors])
    return max(1.0, total**2 / math.fsum([error**2 / free for error, free in errors]))


def known_ratio_interval(
    of_a: Sequence[float], of_b: Sequence[float]
) -> tuple[float, float] | tuple[None, None]:
    """Return `ratio_interval`; None where a side is a single run: the next one may differ."""
    if min(len(of_a), len(of_b)) < 2:
        return None, None
    return ratio_interval(of_a, of_b)


class Relation(StrEnum):
    """The relation of a first side to a second."""

    MORE = "more"
    LESS = "less"
    TIE = "tie"  # the 95 % CI of the ratio contains 1; of published figures, 2 % or less apart
    UNKNOWN = "unknown"  # one of the two is a single run


def relation(of_a: Sequence[float], of_b: Sequence[float]) -> Relation:
    """Compare two results by the values of their processes."""
    return relation_by(*known_ratio_interval(of_a, of_b))


def relation_by(low: float | None, high: float | None) -> Relation:
    """Compare by the interval over processes of A / B, None where a side is a single run."""
    if low is None or high is None:
        return Relation.UNKNOWN
    if low > 1:
        return Relation.MORE
    if high < 1:
        return Relation.LESS
    return Relation.TIE


def error_of_log_mean(measured: Sequence[float]) -> float:
    """Return the relative error of the geometric mean of two or more values above 0."""
    return math.sqrt(log_variance(measured) / len(measured))


def log_variance(measured: Sequence[float]) -> float:
    """Return the variance of the logarithms of two or more values above 0."""
    return _of_logarithms(tuple(measured))[1]


def _power(log: float) -> float:
    """Return e to this power; infinity where no float is as large."""
    try:
        return math.exp(log)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=150_000)  # in a table the fastest is compared with all others
def _of_logarithms(measured: tuple[float, ...]) -> tuple[float, float]:
    """Return mean and variance; equal repeats are rounded, and more of them say no more."""
    logs = [math.log(value) for value in measured]
    mean = math.fsum(logs) / len(logs)
    if len(set(logs)) > 1:
        return mean, _squares(logs) / (len(logs) - 1)
    places = int(Decimal(repr(measured[0])).normalize().as_tuple().exponent)
    return mean, len(logs) * (10.0 ** min(0, places) / measured[0]) ** 2 / 12


PRIOR_DEVIATION = 0.03
"""Standard deviation of the logarithm of images/s among processes, where nothing was repeated yet:
no less than quiet machines have (0.5 to 3 %)."""

# the prior counts as much as so many degrees of freedom: two cells of three repeats have more to
# say
PRIOR_FREEDOM = 3
MOST_FREEDOM = 20  # what others show counts for no more: strategies need not spread alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Sums over trials of squared distances of log throughput from each trial's mean, and of their
    degrees of freedom.
    """

    squares: float = 0.0
    freedom: int = 0

    def __post_init__(self) -> None:
        if self.squares < 0 or self.freedom < 0:
            raise ValueError(f"{self}: wanted 0 or more of each")

    @classmethod
    def of(cls, speeds: Sequence[float]) -> Spread:
        """Return the spread of the repeats of one trial."""
        if len(speeds) < 2:
            return cls()
        squares = _squares([math.log(speed) for speed in speeds])
        return cls(squares=squares, freedom=len(speeds) - 1)

    @classmethod
    def sum(cls, spreads: Iterable[Spread]) -> Spread:
        squares, freedom = [], 0
        for spread in spreads:
            squares.append(spread.squares)
            freedom += spread.freedom
        return cls(squares=math.fsum(squares), freedom=freedom)

    def without(self, part: Spread) -> Spread:
        """Return the spread of the other trials; raises ValueError if `part` is more than it."""
        return Spread(
            squares=max(0.0, self.squares - part.squares), freedom=self.freedom - part.freedom
        )


def variance_of(
    own: Spread,
    others: Spread,
    *,
    prior_freedom: int = PRIOR_FREEDOM,
    most_freedom: int = MOST_FREEDOM,
) -> tuple[float, int]:
    """Return the variance of log throughput of one process, and its degrees of freedom.

    What was seen of its own trial is drawn towards what others show.
    A moderated variance (Smyth 2004, doi:10.2202/1544-6115.1027): alone, a t interval of two
    processes decides nothing. Without a prior and without others the own repeats speak alone.
    Raises ValueError where there are none of these either.
    """
    known = prior_freedom + others.freedom
    prior = 0.0
    if known:
        prior = (prior_freedom * PRIOR_DEVIATION**2 + others.squares) / known
    weight = min(known, most_freedom)
    freedom = weight + own.freedom
    if not freedom:
        raise ValueError("the spread of processes is unknown: wanted repeats, or a prior")
    return (weight * prior + own.squares) / freedom, freedom


LEAST_GAP = 0.005  # between the groups, as a share; clocks change by more
FEWEST_OF_A_MODE = 2  # a single one is an outlier


def has_two_modes(speeds: Sequence[float]) -> bool:
    """Split repeats where the variance between both sides is greatest; return whether it is clear.

    It is where of repeats with normal logarithms one sample of 100 would be split so well
    (Engelman & Hartigan 1969). Fewer than 4 repeats show nothing.
    """
    num = len(speeds)
    if num < 2 * FEWEST_OF_A_MODE:
        return False
    logs = sorted(map(math.log, speeds))
    center = math.fsum(logs) / num
    sums = [0.0, *accumulate(log - center for log in logs)]
    cuts = range(FEWEST_OF_A_MODE, num - FEWEST_OF_A_MODE + 1)
    # the sums of both sides cancel, so the squares between them are sum ** 2 * num / (left * right)
    cut = max(cuts, key=lambda left: sums[left] ** 2 / (left * (num - left)))
    within = _squares(logs[:cut]) + _squares(logs[cut:])
    gap = logs[cut] - logs[cut - 1]
    # 1 % of normal samples exceed it; fitted to 4 to 30 values (`benchmarks/coverage.py`, `modes`)
    clear = -math.log(1 - 2 / math.pi) + 2.33 / math.sqrt(num - 2) + 5 / (num - 2)
    return gap >= LEAST_GAP and _squares(logs) >= math.exp(clear) * within


def _squares(logs: Sequence[float]) -> float:
    mean = math.fsum(logs) / len(logs)
    return math.fsum([(log - mean) ** 2 for log in logs])


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
