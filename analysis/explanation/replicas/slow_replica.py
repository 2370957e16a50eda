"""Names the replica that computes slower than the others, or says that it cannot be told.

```
  round          1   2   3  ...  128
  replica 0      |   |   |        |     less the median of the others in its round: what slows all
  replica 1      |   |   |        |     alike goes out; pauses go out; then the mean, and how far
  replica 2      |   |   |        |     that may be off by chance (`reaches`)
```
Under synchronous training all replicas show the same step; the times are those of each replica's
own compute, `scalemark.records.measurement.ReplicaTimes`. How often the answer is right:
`benchmarks/slow_replica.py`, docs/slow_replica.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.explanation.replicas.reaches import reaches
from scalemark.stats.two_speeds import pauses

SLOW_FROM = 0.10  # above the median of the others; where no replica can be, none is slow
WRONGLY_NAMED = 0.01  # how often any of all replicas may be, where none is slow
FEWEST_ROUNDS = 16
LEAST_GAP = 0.6  # below those that stand apart, times what the rest are from each other at most
# time that lies in that gap, as a share: of places that differ by 4 %, one that is no slower than
# its place stands so far apart in 1 % of cases
LEAST_APART = 0.09
MOST_REPEATS = 10  # that are worth it

Times = Mapping[str, Sequence[float]]
"""Replica -> seconds of its own compute in each round of one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """The time of a replica above the median of the others, as a share of that."""

    replica: str
    value: float
    low: float  # both hold for all replicas at once in 98 % of cases
    high: float
    others_s: float  # median time of the others' own compute


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowReplicas:
    """The answer to which replica is slow."""

    slow: tuple[Slowness, ...]  # slowest first; empty where none is, or where it cannot be told
    slowest: Slowness | None  # None where there are too few times
    unknown: str = ""  # why it cannot be told, a part of a sentence; empty where it can


def slow_replicas(processes: Sequence[Times]) -> SlowReplicas:
    """Return the replicas that are slow, from the times of one process or of several.

    A replica is named when it takes 10 % longer than the median of the others or more, is slower at
    all with an error of 1 % over all replicas (Bonferroni), and stands apart: fewer than half do,
    and the gap below them is 9 % or more, and wide beside what the rest are from each other. So
    what a socket or an order has in common makes none slow, nor what cards differ by nature.
    """
    if why := _too_little(processes):
        return SlowReplicas(slow=(), slowest=None, unknown=why)
    names = list(processes[0])
    logarithms = [np.log(np.array([times[name] for name in names]).T) for times in processes]
    rounds = [_without_pauses(_above_others(one)) for one in logarithms]
    above = np.mean([one.mean(axis=0) for one in rounds], axis=0)
    positions = np.mean(
        [_without_pauses(_above_all(one)).mean(axis=0) for one in logarithms], axis=0
    )
    apart = _standing_apart(positions)
    half = reaches(rounds, np.delete(positions, apart), WRONGLY_NAMED / len(names))
    others_s = _others_s(np.concatenate(logarithms))
    found = [_slowness(*one) for one in zip(names, above.tolist(), half, others_s, strict=True)]
    slow = [found[place] for place in apart if _is_slower(found[place])]
    slow.sort(key=lambda one: -one.value)
    slowest = max(found, key=lambda one: one.value)
    unknown = "" if slow else _why_unknown(found, slowest, len(processes))
    return SlowReplicas(slow=tuple(slow), slowest=slowest, unknown=unknown)


def _is_slower(one: Slowness) -> bool:
    return one.value >= SLOW_FROM and one.low > 0


def _too_little(processes: Sequence[Times]) -> str:
    if not processes:
        return "the compute of each replica was not timed"
    if any(times.keys() != processes[0].keys() for times in processes):
        return "the repeats ran on different devices"
    if len(processes[0]) < 2:
        return "there is one replica"
    fewest = min(len(seconds) for times in processes for seconds in times.values())
    if fewest < FEWEST_ROUNDS:
        return f"there are {fewest} rounds of each replica, {FEWEST_ROUNDS} are needed"
    return ""


def _above_others(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each is above the median of the others of its round (rounds, replicas)."""
    above = np.empty_like(logarithms)
    for place in range(logarithms.shape[1]):
        others = np.delete(logarithms, place, axis=1)
        above[:, place] = logarithms[:, place] - np.median(others, axis=1)
    return above


def _others_s(logarithms: NDArray[np.float64]) -> list[float]:
    """Return for each replica the median time of all others, over all rounds."""
    found = []
    for place in range(logarithms.shape[1]):
        found.append(math.exp(np.median(np.delete(logarithms, place, axis=1))))
    return found


def _above_all(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each is above the median of its round: distances are those of replicas."""
    above: NDArray[np.float64] = logarithms - np.median(logarithms, axis=1, keepdims=True)
    return above


def _without_pauses(rounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return them with what their neighbors suggest in the place of pauses."""
    return np.array([pauses(one).smooth for one in rounds.T]).T


def _slowness(replica: str, above: float, reach: float, others_s: float) -> Slowness:
    low, high = math.expm1(above - reach), math.expm1(min(above + reach, _MOST))
    return Slowness(replica=replica, value=math.expm1(above), low=low, high=high, others_s=others_s)


_MOST = 10.0  # a logarithm beyond all reason: times that vary so much say nothing


def _standing_apart(positions: NDArray[np.float64]) -> list[int]:
    """Return the places of those beyond the widest gap, where they are few and it is wide."""
    order = np.argsort(positions)
    ordered = positions[order]
    gaps = np.diff(ordered)
    first = int(np.argmax(gaps)) + 1
    num_apart = len(ordered) - first
    least = max(math.log1p(LEAST_APART), LEAST_GAP * (ordered[first - 1] - ordered[0]))
    if num_apart > max(1, (len(ordered) - 1) // 2) or gaps[first - 1] < least:
        return []
    places: list[int] = order[first:].tolist()
    return places


def _why_unknown(found: Sequence[Slowness], slowest: Slowness, num_processes: int) -> str:
    """Return why nothing is said; empty where no replica can be slow."""
    if max(one.high for one in found) < SLOW_FROM:
        return ""
    if _is_slower(slowest):
        return f"several differ, and {slowest.replica} does not stand apart from the rest"
    return (
        f"the times vary too much: {slowest.replica}, the slowest, takes {slowest.low:+.0%} to "
        f"{slowest.high:+.0%} longer than the others; {_repeats(slowest, num_processes)}"
    )


def _repeats(slowest: Slowness, num_processes: int) -> str:
    """Return how many processes would tell, if it is as slow as it looks."""
    value, limit = math.log1p(slowest.value), math.log1p(SLOW_FROM)
    wanted = value if value >= limit else limit - value
    reach = math.log1p(slowest.high) - value
    num = max(num_processes + 1, 3, math.ceil(num_processes * (reach / wanted) ** 2))
    if num > MOST_REPEATS:
        return f"more than {MOST_REPEATS} repeats would be needed to tell"
    return f"about {num} repeats would tell (sweep.repeats={num})"
