"""Names the replica that computes slower than the others, or says that it cannot be told.

```
  round          1   2   3  ...  128
  replica 0      |   |   |        |     less the median of the others in its round: what slows all
  replica 1      |   |   |        |     alike goes out; pauses go out; then the mean, and how far
  replica 2      |   |   |        |     that may be off by chance
```
Under synchronous training all replicas show the same step; the times are those of each replica's
own compute, `scalemark.records.measurement.ReplicaTimes`. How far a mean may be off follows from
the means of long blocks of rounds, which neighbors resemble little, and from those of processes.
How often the answer is right: `benchmarks/slow_replica.py`.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.explain.waterfall import UNTIMED, Slowness, SlowReplicas, Times
from scalemark.stats.distributions import upper_quantile
from scalemark.stats.within_process import pauses

Floats = NDArray[np.float64]

SLOW_FROM = 0.10  # above the median of the others; where no replica can be, none is slow
WRONGLY_NAMED = 0.01  # how often any of all replicas may be, where none is slow
FEWEST_ROUNDS = 16
NUM_BLOCKS = 4  # of the rounds of a process
LEAST_GAP = 0.6  # below those that stand apart, times what the rest are from each other at most
# time that lies in that gap, as a share: of places that differ by 4 %, one that is no slower than
# its place stands so far apart in 1 % of cases
LEAST_APART = 0.09
MOST_REPEATS = 10  # that are worth it
_MOST = 10.0  # a logarithm beyond all reason: times that vary so much say nothing


def slow_replicas(processes: Sequence[Times]) -> SlowReplicas:
    """Return the replicas that are slow, from the times of one process or of several.

    A replica is named when it takes 10 % longer than the median of the others or more, is slower at
    all with an error of 1 % over all replicas (Bonferroni), and stands apart: fewer than half do,
    and the gap below them is 9 % or more, and wide beside what the rest are from each other. So
    what a socket or an order has in common makes none slow, nor what cards differ by nature.

    One that becomes slow, as by throttling, is slow from then on: in the last blocks alone, with
    the same error over all of these.
    """
    if not processes:
        return UNTIMED
    too_little = _too_little(processes)
    if too_little:
        return SlowReplicas(slow=(), slowest=None, unknown=too_little)
    found = _slow_since(processes, 0)
    for since in range(1, NUM_BLOCKS):
        later = _slow_since(processes, since)
        if later.slow and found.slowest and later.slow[0].low > found.slowest.value:
            found = later
    return found


def _slow_since(processes: Sequence[Times], since: int) -> SlowReplicas:
    """Return the replicas that are slow after so many blocks of rounds."""
    names = list(processes[0])
    logarithms = [np.log(np.array([times[name] for name in names]).T) for times in processes]
    rounds = []
    for of_process in logarithms:
        above_others = np.empty_like(of_process)  # (rounds, replicas): above the median of those
        for place in range(len(names)):
            others = np.delete(of_process, place, axis=1)
            above_others[:, place] = of_process[:, place] - np.median(others, axis=1)
        rounds.append(_without_pauses(above_others))
    above = np.mean([_since(of_process, since).mean(axis=0) for of_process in rounds], axis=0)
    num_looks = NUM_BLOCKS - 1 if since else 1
    reach = _reach(rounds, WRONGLY_NAMED / len(names) / num_looks, since)
    logarithms = [_since(of_process, since) for of_process in logarithms]
    of_all = np.concatenate(logarithms)
    replicas = []
    for place, name in enumerate(names):
        mean = float(above[place])
        replicas.append(
            Slowness(
                replica=name,
                value=math.expm1(mean),
                low=math.expm1(mean - reach),
                high=math.expm1(min(mean + reach, _MOST)),
                others_s=math.exp(np.median(np.delete(of_all, place, axis=1))),
            )
        )
    means = []  # above the median of all: distances are those of replicas
    for of_process in logarithms:
        above_all = of_process - np.median(of_process, axis=1, keepdims=True)
        means.append(_without_pauses(above_all).mean(axis=0))
    apart = _standing_apart(np.mean(means, axis=0))
    slow = [replicas[place] for place in apart if _is_slower(replicas[place])]
    slow.sort(key=lambda replica: -replica.value)
    slowest = max(replicas, key=lambda replica: replica.value)
    unknown = "" if slow else _why_unknown(replicas, slowest, len(processes))
    return SlowReplicas(
        slow=tuple(slow), slowest=slowest, unknown=unknown, since=since / NUM_BLOCKS
    )


def _since(rounds: Floats, since: int) -> Floats:
    return np.concatenate(np.array_split(rounds, NUM_BLOCKS)[since:])


def _is_slower(replica: Slowness) -> bool:
    return replica.value >= SLOW_FROM and replica.low > 0


def _too_little(processes: Sequence[Times]) -> str:
    if any(times.keys() != processes[0].keys() for times in processes):
        return "the repeats ran on different devices"
    if len(processes[0]) < 2:
        return "there is one replica"
    fewest = min(len(seconds) for times in processes for seconds in times.values())
    if fewest < FEWEST_ROUNDS:
        return f"there are {fewest} rounds of each replica, {FEWEST_ROUNDS} are needed"
    return ""


def _without_pauses(rounds: Floats) -> Floats:
    """Return the times with what their neighbors suggest in the place of pauses."""
    return np.array([pauses(series).smooth for series in rounds.T]).T


def _reach(processes: Sequence[Floats], level: float, since: int) -> float:
    """Return how far the mean of a replica after so many blocks may be off by chance, upwards with
    `level`. Blocks before and after may differ, those of one side vary by chance alone.

    All replicas have one error, of which those of half of them are independent: each is above the
    median of the others. Where processes differ by more than their blocks explain, they count.
    """
    num_processes, num_replicas = len(processes), processes[0].shape[1]
    num_series = max(1.0, (num_replicas - 1) / 2)
    blocks = []
    for rounds in processes:
        means = [block.mean(axis=0) for block in np.array_split(rounds, NUM_BLOCKS)]
        sides = np.split(np.array(means), [since] if since else [])
        squares = sum(len(side) * np.var(side, axis=0).mean() for side in sides)
        blocks.append(squares / (NUM_BLOCKS - len(sides)) / (NUM_BLOCKS - since))
    variance = float(np.mean(blocks)) / num_processes
    freedom = num_processes * (NUM_BLOCKS - 1 - bool(since)) * num_series
    reach = upper_quantile(level, freedom) * math.sqrt(variance)
    if num_processes == 1:
        return reach
    means = [_since(rounds, since).mean(axis=0) for rounds in processes]
    # one replica may vary over processes by far more than the others do
    variance = float(np.var(means, axis=0, ddof=1).mean()) / num_processes
    freedom = (num_processes - 1) * num_series
    return max(reach, upper_quantile(level, freedom) * math.sqrt(variance))


def _standing_apart(positions: Floats) -> list[int]:
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


def _why_unknown(replicas: Sequence[Slowness], slowest: Slowness, num_processes: int) -> str:
    """Return why nothing is said; empty where no replica can be slow."""
    if max(replica.high for replica in replicas) < SLOW_FROM:
        return ""
    if _is_slower(slowest):
        return f"several differ, and {slowest.replica} does not stand apart from the rest"
    # how many processes would tell, if it is as slow as it looks
    value, limit = math.log1p(slowest.value), math.log1p(SLOW_FROM)
    wanted = value if value >= limit else limit - value
    reach = math.log1p(slowest.high) - value
    num = max(num_processes + 1, 3, math.ceil(num_processes * (reach / wanted) ** 2))
    repeats = f"about {num} repeats would tell (sweep.repeats={num})"
    if num > MOST_REPEATS:
        repeats = f"more than {MOST_REPEATS} repeats would be needed to tell"
    return (
        f"the times vary too much: {slowest.replica}, the slowest, takes {slowest.low:+.0%} to "
        f"{slowest.high:+.0%} longer than the others; {repeats}"
    )
