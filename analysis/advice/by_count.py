"""Shows what more GPUs bring, or the same number over more hosts: from the best on fewer to the
pick and beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.advice.ranking import Candidate
from analysis.results import setting
from scalemark.stats.welch import known_ratio_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Bought:
    """One step from fewer GPUs or hosts to more."""

    fewer: Candidate
    more: Candidate
    gain: float  # throughput, more over fewer
    low: float | None  # 95 % CI over processes; None where a side is a single run
    high: float | None

    @property
    def is_alike(self) -> bool:
        """Nothing but strategy, GPUs and hosts differs, so nothing else brought the gain."""
        return setting(self.fewer.result) == setting(self.more.result)

    @property
    def gpu_hours(self) -> float:
        """GPU-hours in the same time, times those of the fewer."""
        return self.more.result.num_gpus / self.fewer.result.num_gpus

    @property
    def per_item(self) -> float:
        """GPU-hours for as many items, times those of the fewer."""
        return self.gpu_hours / self.gain


def by_count(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the fastest on each number of GPUs, over however many hosts."""
    fastest: dict[int, Candidate] = {}
    for one in candidates:
        known = fastest.get(one.result.num_gpus)
        if known is None or one.throughput > known.throughput:
            fastest[one.result.num_gpus] = one
    return [fastest[num_gpus] for num_gpus in sorted(fastest)]


def bought(pick: Candidate, candidates: Sequence[Candidate]) -> list[Bought]:
    """Compare the pick with fewer GPUs, with the next more, and with as many on fewer hosts."""
    num_gpus, hosts = pick.result.num_gpus, pick.result.hosts
    fewer = [one for one in candidates if one.result.num_gpus < num_gpus]
    more = [one for one in candidates if one.result.num_gpus > num_gpus]
    as_many = [one for one in candidates if one.result.num_gpus == num_gpus]
    closer = [one for one in as_many if one.result.hosts < hosts]
    found = []
    if fewer:
        found.append(_bought(_fastest(_alike(pick, fewer)), pick))
    if more:
        found.append(_bought(pick, by_count(_alike(pick, more))[0]))
    if closer:
        found.append(_bought(_fastest(_alike(pick, closer)), pick))
    return found


def _alike(pick: Candidate, others: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return those that differ in strategy, GPUs and hosts alone; all where none does."""
    wanted = setting(pick.result)
    return [one for one in others if setting(one.result) == wanted] or others


def _fastest(candidates: Sequence[Candidate]) -> Candidate:
    return max(candidates, key=lambda one: one.throughput)


def _bought(fewer: Candidate, more: Candidate) -> Bought:
    low, high = known_ratio_interval(more.result.repeats, fewer.result.repeats)
    gain = more.throughput / fewer.throughput
    return Bought(fewer=fewer, more=more, gain=gain, low=low, high=high)
