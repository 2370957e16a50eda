"""Which results conclusions are drawn from: what was slowed or broken on purpose says nothing of
machine or strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.results import Result
from scalemark.host.own_code import typed
from scalemark.records.planted import NOISE, read_planted
from store.filters.selection import parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """The results that count, and what must be known beside conclusions from them."""

    results: list[Result]
    notes: tuple[str, ...]  # sentences


def counting(results: Sequence[Result], filters: Sequence[str]) -> Counting:
    """Planted trials count where a filter asks for them by `planted`, and then that is said."""
    are_asked_for = any(one.name == "planted" for one in parsed(filters))
    slowed = [result for result in results if _is_slowed(result)]
    left = (
        list(results) if are_asked_for else [result for result in results if not _is_slowed(result)]
    )
    return Counting(results=left, notes=(*_of_planted(slowed, are_asked_for), *_of_suspects(left)))


def _is_slowed(result: Result) -> bool:
    return bool(read_planted(str(result.axes.get("planted", ""))).keys() - set(NOISE))


def _of_planted(slowed: Sequence[Result], are_asked_for: bool) -> list[str]:
    if not slowed:
        return []
    example = slowed[0].axes["planted"]
    what = f"{_trials(len(slowed))} in which something is planted (as {example})"
    if are_asked_for:
        return [f"{what}: what follows is of what was slowed or broken on purpose."]
    return [f"Left out: {what}; the filter 'planted~{example}' asks for such."]


def _of_suspects(results: Sequence[Result]) -> list[str]:
    numbers = [result for result in results if result.throughput and result.place.origin.is_ours]
    suspect = sum(not result.is_valid for result in numbers)
    if not suspect:
        return []
    return [
        (
            f"{suspect} of {_trials(len(numbers))} {'is' if suspect == 1 else 'are'} suspect: "
            f"{typed('store')} show says why."
        )
    ]


def _trials(count: int) -> str:
    return f"{count} trial{'' if count == 1 else 's'}"
