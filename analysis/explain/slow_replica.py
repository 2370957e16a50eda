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

    One that becomes slow, as by throttling, is slow from then on.
    """
    if not processes:
        return UNTIMED
    too_little = _too_little(processes)
    if too_little:
        return SlowReplicas(slow=(), slowest=None, unknown=too_little)
    names = list(processes[0])
    logarithms = [np.log(np.array([times[name] for name in names]).T) for times in processes]
    rounds = []
    for of_process in logarithms:
        above_others = np.empty_like(of_process)  # (rounds, replicas): above the median of those
        for place in range(len(names)):
            others = np.delete(of_process, place, axis=1)
            above_others[:, place] = of_process[:, place] - np.median(others, axis=1)
        rounds.append(_without_pauses(above_others))
    found = _slow_since(0, names, logarithms, rounds)
    if since := _largest_jump(rounds):
        later = _slow_since(since, names, logarithms, rounds)
        if later.slow and found.slowest and later.slow[0].low > found.slowest.value:
            return later
    return found


def _slow_since(
    since: int, names: Sequence[str], logarithms: Sequence[Floats], rounds: Sequence[Floats]
) -> SlowReplicas:
    """Return the replicas that are slow after so many rounds, by the logarithms of their times and
    by how far these are above those of the others.
    """
    above = np.mean([of_process[since:].mean(axis=0) for of_process in rounds], axis=0)
    num_looks = NUM_BLOCKS if since else 1  # about as many jumps are independent
    reach = _reach(rounds, WRONGLY_NAMED / len(names) / num_looks, since)
    share = since / min(map(len, rounds))
    logarithms = [of_process[since:] for of_process in logarithms]
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
    unknown = "" if slow else _why_unknown(replicas, slowest, len(rounds))
    return SlowReplicas(slow=tuple(slow), slowest=slowest, unknown=unknown, since=share)


def _largest_jump(processes: Sequence[Floats]) -> int:
    """Return after how many rounds a replica became slower by the most, beside how much the rounds
    of either side vary; 0 where there are too few rounds.
    """
    num_rounds = min(map(len, processes))
    sums = np.mean([np.cumsum(rounds[:num_rounds], axis=0) for rounds in processes], axis=0)
    before = np.arange(FEWEST_ROUNDS, num_rounds - FEWEST_ROUNDS + 1)
    if not len(before):
        return 0
    num_before, num_after = before[:, np.newaxis], num_rounds - before[:, np.newaxis]
    head = sums[before - 1]
    jumps = (sums[-1] - head) / num_after - head / num_before
    weights = np.maximum(0.0, jumps) ** 2 * num_before * num_after
    return int(before[weights.max(axis=1).argmax()])


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
    """Return how far the mean of a replica after so many rounds may be off by chance, upwards with
    `level`. Blocks of either side vary by chance alone.

    All replicas have one error, of which those of half of them are independent: each is above the
    median of the others. Where processes differ by more than their blocks explain, they count.
    """
    num_processes, num_replicas = len(processes), processes[0].shape[1]
    num_series = max(1.0, (num_replicas - 1) / 2)
    blocks, freedom = [], 0.0
    for rounds in processes:
        squares, num_free = 0.0, 0
        for side in (rounds[:since], rounds[since:]):
            num = max(1, round(NUM_BLOCKS * len(side) / len(rounds))) if len(side) else 0
            for block in np.array_split(side, num) if num else ():
                distances = block.mean(axis=0) - side.mean(axis=0)
                squares += len(block) * float(np.mean(distances**2))
            num_free += max(0, num - 1)
        blocks.append(squares / num_free / (len(rounds) - since))
        freedom += num_free * num_series
    variance = float(np.mean(blocks)) / num_processes
    reach = upper_quantile(level, freedom) * math.sqrt(variance)
    if num_processes == 1:
        return reach
    means = [rounds[since:].mean(axis=0) for rounds in processes]
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
    longer = f"{slowest.low:+.0%} to {slowest.high:+.0%} longer than the others"
    if slowest.high > 1:  # the range says nothing
        longer = f"{slowest.value:.0%} longer than the others, which may be chance"
    return f"the times vary too much: {slowest.replica}, the slowest, takes {longer}; {repeats}"
