"""Student's t and Fisher's F, by the incomplete beta function. Standard library only."""

import math
from functools import lru_cache
from statistics import NormalDist

_MOST_ROUNDS = 10_000  # of a continued fraction: it takes about the root of the larger parameter
_ROUNDING = 1e-15
_MOST_STEPS = 100  # of Newton's method, which takes a few
_NEAR = 1e-12  # share of a quantile


def beta_share(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), for a and b above 0.

    By the continued fraction of DLMF 8.17.22, which Lentz's method sums up from its begin.
    """
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):  # else it converges slowly
        return 1 - beta_share(b, a, 1 - x)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    factor = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a
    above, below = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = below
    for num in range(1, _MOST_ROUNDS):
        place = a + 2 * num
        for term in (
            num * (b - num) * x / ((place - 1) * place),
            -(a + num) * (a + b + num) * x / (place * (place + 1)),
        ):
            above = 1 + term / above
            below = 1 / (1 + term * below)
            fraction *= above * below
        if abs(above * below - 1) < _ROUNDING:
            break
    return factor * fraction


def chance_of_f(ratio: float, freedom_above: float, freedom_below: float) -> float:
    """Return the chance that F, a ratio of two variances of equal truth, exceeds this one."""
    share = freedom_below / (freedom_below + freedom_above * ratio)
    return beta_share(freedom_below / 2, freedom_above / 2, share)


def chance_beyond(distance: float, freedom: float) -> float:
    """Return the chance that t exceeds a distance, for `freedom` of 1 or more, also infinite."""
    if distance < 0:
        return 1 - chance_beyond(-distance, freedom)
    if math.isinf(freedom):
        return math.erfc(distance / math.sqrt(2)) / 2
    return beta_share(freedom / 2, 0.5, freedom / (freedom + distance**2)) / 2


@lru_cache(maxsize=10_000)
def upper_quantile(level: float, freedom: float) -> float:
    """Return what t exceeds with probability `level`, between 0 and 1/2, for such `freedom`.

    The logarithm of the chance is a concave function of that of t, so that Newton's method finds
    its way from anywhere.
    """
    found = -NormalDist().inv_cdf(level)
    if math.isinf(freedom):
        return found
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    log_scale -= math.log(freedom * math.pi) / 2
    for _ in range(_MOST_STEPS):
        chance = chance_beyond(found, freedom)
        log_density = log_scale - (freedom + 1) / 2 * math.log1p(found**2 / freedom)
        slope = found * math.exp(log_density) / chance
        change = math.log(chance / level) / slope
        found *= math.exp(change)
        if abs(change) < _NEAR:
            break
    return found
