"""Judges one race: who leads, who could hardly lead in the end, and how many repeats of each are
still worth running.

```
  look 1          look 2          look 3            at each look the first 1, 2, 3, ... repeats
  A ████████      A ████████      A ████████ leads  of all that are still in it are compared
  B ███████▌      B ███████▍ ──► out                with the fastest of that look
  C ████ ──► out                                    out: the rest would hardly make up for it
```

What a race wants to know is who would lead if all had run all their repeats. Of two contenders with
n of N repeats the distance D between their means of log images/s still moves by a normal deviate of
variance 2 s^2 (1/n - 1/N), whatever the true distance is: who is behind by more than that is likely
to make up for is out. The error is shared among all rivals and, halved from look to look, among all
looks. Whether those two are different, or tie, is another question: the interval of their own
repeats answers it, as in every table (`scalemark.stats.welch`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scalemark.stats.welch import Spread, known_ratio_interval, upper_quantile, variance_of

ERROR_RATE = 0.05
"""How often, over all looks and rivals of a race together, one may be put out that would have led
in the end.
"""

LEAST_REPEATS = 2  # of who leads: one process alone has no interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One trial of a race."""

    trial_id: str
    name: str  # for people
    speeds: tuple[float, ...]  # throughput of its completed repeats, oldest first
    num_left: int  # repeats that wait or run
    failure: str = ""  # how a repeat of it ended for good, if one did not complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """State of a race. Contenders are known by their trial ids."""

    # why no more repeats of them are worth running, for people and the database
    out: Mapping[str, str]
    leader: str | None  # none while nothing is completed
    # those in it that their own repeats do not separate from the leader, the fastest first
    tied: tuple[str, ...]
    # repeats that are worth running beyond those completed; what runs is one of them
    wanted: Mapping[str, int]

    @property
    def is_over(self) -> bool:
        return not any(self.wanted.values())


def judge(contenders: Sequence[Contender], spread: Spread, most_repeats: int) -> Ruling:
    """Compare what contenders have shown. `spread` is that of all contenders of all races, these
    included; of nobody more than `most_repeats` are wanted.

    Who failed before it completed anything is out. Who failed later stays, with what it has.
    """
    out = _out(contenders, spread, most_repeats)
    ranked = sorted(
        (one for one in contenders if one.speeds), key=lambda one: -_mean(one.speeds[:most_repeats])
    )
    ranked.sort(key=lambda one: one.trial_id in out)  # one that was put out does not lead
    leader = ranked[0] if ranked else None
    tied = []
    for one in ranked[1:]:
        if leader and one.trial_id not in out and _is_alike(leader, one):
            tied.append(one.trial_id)
    # without a rival the leader runs on only as long as its number has no interval
    enough = most_repeats if len(contenders) - len(out) > 1 else min(LEAST_REPEATS, most_repeats)
    wanted = dict.fromkeys((one.trial_id for one in contenders), 0)
    for one in contenders:
        if one.trial_id not in out:
            wanted[one.trial_id] = min(one.num_left, max(0, enough - len(one.speeds)))
    return Ruling(
        out=out, leader=leader.trial_id if leader else None, tied=tuple(tied), wanted=wanted
    )


def _out(contenders: Sequence[Contender], spread: Spread, most_repeats: int) -> dict[str, str]:
    """Return who could hardly lead in the end, and why: look by look."""
    out = {}
    for one in contenders:
        if not one.speeds and one.failure:
            out[one.trial_id] = f"race: it ended as {one.failure}"
        elif not one.speeds and not one.num_left:
            out[one.trial_id] = "race: nothing of it was run"
    share = ERROR_RATE / max(1, len(contenders) - 1)  # of one rival
    for look in range(1, most_repeats):
        racing = [one for one in contenders if one.trial_id not in out]
        if len(racing) < 2 or any(len(one.speeds) < look and one.num_left for one in racing):
            break
        leader = max(racing, key=lambda one: _mean(one.speeds[:look]))
        level = share * 0.5**look
        for rival in racing:
            if rival is leader:
                continue
            why = _why_out(leader, rival, spread, look, level, most_repeats)
            if why:
                out[rival.trial_id] = why
    return out


def _why_out(
    leader: Contender,
    rival: Contender,
    spread: Spread,
    look: int,
    level: float,
    most_repeats: int,
) -> str:
    """Compare two by their first `look` repeats. The rival is out if it would lead after all
    repeats with a probability below `level`; return nothing if it is not.
    """
    # the variance of one process rests on all repeats there are, whatever the look
    own = Spread.sum((Spread.of(leader.speeds), Spread.of(rival.speeds)))
    variance, freedom = variance_of(own, spread.without(own))
    quantile = upper_quantile(level, freedom)
    fast, slow = leader.speeds[:look], rival.speeds[:look]
    gap = _mean(fast) - _mean(slow)  # of log throughput
    to_come = sum(max(0.0, 1 / len(found) - 1 / most_repeats) for found in (fast, slow))
    if gap <= quantile * math.sqrt(variance * to_come):
        return ""
    least = gap - quantile * math.sqrt(variance * (1 / len(fast) + 1 / len(slow)))
    sure = f"at least {_less(least)}" if least > 0 else "which may be chance"
    repeats = "1 repeat" if len(slow) == 1 else f"{len(slow)} repeats"
    return (
        f"race: {_less(gap)} behind {leader.name} ({sure}) after {repeats}; the others would "
        "hardly make it lead"
    )


def _is_alike(leader: Contender, other: Contender) -> bool:
    """Say whether the 95 % CI of their ratio contains 1: by their own repeats alone, as whoever
    reads the results will judge.
    """
    low, _ = known_ratio_interval(leader.speeds, other.speeds)
    return low is not None and low <= 1


def _mean(speeds: Sequence[float]) -> float:
    return fmean(math.log(speed) for speed in speeds)


def _less(gap: float) -> str:
    """Turn a distance of logarithms into the share by which the slower one is slower."""
    return f"{-100 * math.expm1(-gap):.1f} %"
