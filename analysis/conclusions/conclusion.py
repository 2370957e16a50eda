"""A sentence with the rows behind it, and the wording that topics share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analysis.conclusions.cases import Compared
from analysis.results import Environment, Result
from scalemark.stats.welch import Relation
from scalemark.text.wording import counted

_MOST_LISTED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Raises ValueError without rows."""

    topic: str
    environment: Environment
    sentence: str
    rows: tuple[Result, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"{self.topic}: {self.sentence}: a conclusion without rows")


def by_environment(
    topic: str, compared: Sequence[Compared], say: Callable[[list[Compared]], str]
) -> Iterator[Conclusion]:
    """Yield a conclusion for each environment; `say` puts its comparisons into a sentence."""
    grouped: dict[str, list[Compared]] = defaultdict(list)
    for one in compared:
        grouped[one.first.environment.key].append(one)
    for of in grouped.values():
        yield Conclusion(
            topic=topic, environment=of[0].first.environment, sentence=say(of), rows=rows_of(of)
        )


def how_often(compared: Sequence[Compared], wanted: Relation = Relation.MORE) -> str:
    """Return how often a relation holds, as `in 3 of 5 comparisons, 1 tie`."""
    num = {relation: sum(one.relation is relation for one in compared) for relation in Relation}
    other = Relation.LESS if wanted is Relation.MORE else Relation.MORE
    found = [f"in {num[wanted]} of {counted(len(compared), 'comparison')}"]
    if num[other]:
        found.append(f"the other way in {num[other]}")
    if num[Relation.TIE]:
        found.append(counted(num[Relation.TIE], "tie"))
    if num[Relation.UNKNOWN]:
        found.append(f"{num[Relation.UNKNOWN]} of single runs (sweep.repeats=3 would decide)")
    return ", ".join(found)


def listed(
    compared: Sequence[Compared], subject: Callable[[Result], str], way: Callable[[Result], str]
) -> str:
    """Return the comparisons in words, those that differ most first."""
    ordered = sorted(compared, key=lambda one: -abs(one.ratio - 1))
    return shortened([one.text(subject, way) for one in ordered])


def shortened(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    return "; ".join(texts[:_MOST_LISTED]) + more


def rows_of(compared: Sequence[Compared]) -> tuple[Result, ...]:
    """Return the results compared, each once."""
    both = [one for pair in compared for one in (pair.first, pair.second)]
    return tuple({(one.environment.key, one.trial_id): one for one in both}.values())


def shares(compared: Sequence[Compared]) -> str:
    """Return the range of ratios, as `68 % to 99 %`."""
    ratios = [one.ratio for one in compared]
    low, high = (f"{100 * end:.0f} %" for end in (min(ratios), max(ratios)))
    return low if low == high else f"{low} to {high}"
