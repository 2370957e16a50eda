"""A sentence with the rows that it was drawn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.conclusions.cases import Compared
from analysis.results import Place, Result
from scalemark.stats.welch import Relation

_MOST_TOLD = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Never without rows: ValueError."""

    topic: str  # a file of this folder
    place: Place
    sentence: str
    rows: tuple[Result, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"{self.topic}: {self.sentence}: a conclusion without rows")


def counted(compared: Sequence[Compared], wanted: Relation = Relation.MORE) -> str:
    """As `in 3 of 5 comparisons, 1 tie`: how often the relation holds."""
    num = {relation: sum(one.relation is relation for one in compared) for relation in Relation}
    other = Relation.LESS if wanted is Relation.MORE else Relation.MORE
    found = [f"in {num[wanted]} of {len(compared)} comparison{'s' if len(compared) > 1 else ''}"]
    found += [f"the other way in {num[other]}"] if num[other] else []
    found += (
        [f"{num[Relation.TIE]} {'ties' if num[Relation.TIE] > 1 else 'tie'}"]
        if num[Relation.TIE]
        else []
    )
    if num[Relation.UNKNOWN]:
        found.append(
            f"in {num[Relation.UNKNOWN]} a process alone cannot tell, sweep.repeats=3 would"
        )
    return ", ".join(found)


def listed(
    compared: Sequence[Compared], subject: Callable[[Result], str], way: Callable[[Result], str]
) -> str:
    """The comparisons themselves, the clearest first."""
    told = [one.told(subject, way) for one in sorted(compared, key=lambda one: -abs(one.ratio - 1))]
    more = f"; and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    return "; ".join(told[:_MOST_TOLD]) + more


def rows_of(compared: Sequence[Compared]) -> tuple[Result, ...]:
    """Each once."""
    return tuple(
        {(one.place.key, one.trial_id): one for pair in compared for one in pair.rows}.values()
    )


def shares(compared: Sequence[Compared]) -> str:
    """As `68 % to 99 %`."""
    low, high = (f"{100 * end(one.ratio for one in compared):.0f} %" for end in (min, max))
    return low if low == high else f"{low} to {high}"


def by_place(compared: Sequence[Compared]) -> dict[str, list[Compared]]:
    found: dict[str, list[Compared]] = {}
    for one in compared:
        found.setdefault(one.first.place.key, []).append(one)
    return found
