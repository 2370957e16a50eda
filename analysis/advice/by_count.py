"""What more GPUs buy, and more hosts: the fastest choice on each number of GPUs, and the last step
up to a pick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.advice.ranking import Candidate
from analysis.results import setting
from scalemark.stats.welch import known_ratio_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Bought:
    """By more GPUs, or by as many over more hosts: of the fastest strategies, and of the same in
    all else where there is such.
    """

    fewer: Candidate
    more: Candidate
    gain: float  # images/s
    low: float | None  # 95 % interval over processes; None where a side is one process alone
    high: float | None

    @property
    def is_alike(self) -> bool:
        """Whether strategy, GPUs and hosts are all that differs: then nothing else brought the
        gain.
        """
        return setting(self.fewer.result) == setting(self.more.result)

    @property
    def gpu_hours(self) -> float:
        """Times those that the fewer take in the same time."""
        return self.more.result.num_gpus / self.fewer.result.num_gpus

    @property
    def per_image(self) -> float:
        """GPU-hours for the same images, times those of the fewer."""
        return self.gpu_hours / self.gain


def by_count(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The fastest on each number of GPUs, over however many hosts: each says over how many."""
    fastest: dict[int, Candidate] = {}
    for one in candidates:
        known = fastest.get(one.result.num_gpus)
        if known is None or one.throughput > known.throughput:
            fastest[one.result.num_gpus] = one
    return [fastest[num] for num in sorted(fastest)]


def bought(pick: Candidate, candidates: Sequence[Candidate]) -> list[Bought]:
    """Up to the pick from the fastest on fewer GPUs, and from the pick on to the next, where there
    are such.
    """
    below = _alike(pick, [one for one in candidates if one.result.num_gpus < pick.result.num_gpus])
    above = by_count(
        _alike(pick, [one for one in candidates if one.result.num_gpus > pick.result.num_gpus])
    )
    return [
        *([_bought(_fastest(below), pick)] if below else []),
        *(_bought(pick, one) for one in above[:1]),
    ]


def spread(pick: Candidate, candidates: Sequence[Candidate]) -> Bought | None:
    """Up to the pick from the fastest on as many GPUs over fewer hosts; None where there is
    none.
    """
    closer = [
        one
        for one in candidates
        if one.result.num_gpus == pick.result.num_gpus and one.result.hosts < pick.result.hosts
    ]
    return _bought(_fastest(_alike(pick, closer)), pick) if closer else None


def _alike(pick: Candidate, others: Sequence[Candidate]) -> Sequence[Candidate]:
    """Those that differ from it in strategy, GPUs and hosts alone; all of them where none does."""
    wanted = setting(pick.result)
    return [one for one in others if setting(one.result) == wanted] or others


def _fastest(of: Sequence[Candidate]) -> Candidate:
    return max(of, key=lambda one: one.throughput)


def _bought(fewer: Candidate, more: Candidate) -> Bought:
    low, high = known_ratio_interval(more.result.repeats, fewer.result.repeats)
    gain = more.throughput / fewer.throughput
    return Bought(fewer=fewer, more=more, gain=gain, low=low, high=high)
