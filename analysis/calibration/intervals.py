"""Conformal intervals of weighed predictions: as wide as predictions of other rows were wrong.

The score of a prediction that was judged is how far off it was, in logs, over the scale

    scale^2 = noise of a figure^2 + how far its candidates are apart^2
              + standard deviation of the physics^2

An interval is the prediction times or over exp(quantile * scale), where the quantile is that of the
scores of its class: the ceil(0.95 (n + 1))-th smallest of n (Vovk et al. 2005; Lei et al. 2018,
"Distribution-free predictive inference for regression"). Fewer than 19 have no such rank: their
quantile is that of one more normal number with their mean square, by Student's t, and not less than
the largest. Classes are of sound predictions, which those on up to twice the GPUs of the rows
decide, and of those that are doubted.

Where a curve has one count of GPUs, the interval is the physics' own, wider by how far the linear
rule is apart from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_COVERAGE = 0.95


Quantiles = Mapping[bool, float]
"""How many scales an interval reaches to each side, by whether the prediction is doubted."""

QUANTILES: Quantiles = {False: 1.47, True: 4.39}
"""Fitted to all published figures, by `python -m benchmarks.prediction --constants`. There, figures
are judged by those of other publishers alone.
"""

NORMAL_QUANTILE = 1.96
"""The same of a normal distribution."""


def scale(noise: float, variance: float, physics: float) -> float:
    """Return the scale from the variance among candidates and the physics' standard deviation."""
    return math.hypot(noise, math.sqrt(variance), physics)


def quantile(scores: Sequence[float]) -> float:
    """Return the conformal quantile of scores, one at least."""
    from scipy.stats import t  # here, because its import takes longer than most commands do

    num = len(scores)
    rank = math.ceil(_COVERAGE * (num + 1))
    if rank <= num:
        return sorted(scores)[rank - 1]
    rms = math.sqrt(sum(score**2 for score in scores) / num)
    one_more = rms * math.sqrt(1 + 1 / num) * float(t.ppf((1 + _COVERAGE) / 2, num))
    return max(one_more, *scores)
