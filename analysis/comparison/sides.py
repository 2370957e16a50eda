"""The two sides of a comparison as a command line names them: filters, a trial, an attempt or a
sweep.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.results import AXES, Origin, Result
from analysis.selection import NothingFoundError, Selection
from analysis.source import Source
from analysis.statistics.sample import Sample, sample
from scalemark.host.own_code import typed
from scalemark.records.free_axes import PREFIX
from scalemark.records.strategies import STRATEGY_AXES
from store.database import open_for_reading
from store.errors import StoreError
from store.filters import targets
from store.filters.selection import looks_like_filter, parsed

_ONE_BY_NAME = ("trial", "attempt")
_NEXT_FILTER = re.compile(r"\s+(?=\w+\s*(?:>=|<=|!=|==|=|>|<|~))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Which results stand on it."""

    told: str  # as the user said it
    source: Source
    names: frozenset[str]  # what its own filters ask for

    @property
    def axes(self) -> frozenset[str]:
        """Those of a trial that the side names, and so wants compared; a strategy is its three
        axes.
        """
        named = frozenset(name for name in self.names if name in AXES or name.startswith(PREFIX))
        return (
            named | {"strategy", *STRATEGY_AXES} if named & {"strategy", *STRATEGY_AXES} else named
        )

    @property
    def is_by_name(self) -> bool:
        """One trial, or one attempt of it: whatever its axes are, they are meant."""
        return not self.names.isdisjoint(_ONE_BY_NAME)

    @property
    def names_a_place(self) -> bool:
        """A sweep, a machine, a time or a software, which may differ then."""
        ours = {name for name in self.names if not name.startswith(PREFIX)}
        return not ours <= {*AXES, *STRATEGY_AXES}

    @property
    def results(self) -> list[Result]:
        return self.source.results

    def samples(self, results: Sequence[Result]) -> list[Sample | None]:
        """Of each result its processes, and their steps; None without a number to quote. Steps are
        read at once.
        """
        told = [result for result in results if result.throughput is not None]
        steps = self.source.steps([number for result in told for number in result.attempt_ids])
        return [
            None if one.throughput is None else sample(one, self.source.attempts, steps)
            for one in results
        ]


def sides(
    db: str, a: str, b: str, common: Sequence[str], sweep: str | None, origin: Origin | None
) -> tuple[Side, Side]:
    """Raises StoreError for a side of which there is nothing, and for measured numbers against
    simulated ones.
    """
    if origin is Origin.PUBLISHED:
        raise StoreError(
            "--origin published: published figures have no repeats to compare by; see "
            f"{typed('plots')} tables --against"
        )
    own_a, own_b = (_filters(db, one) for one in (a, b))
    if sorted(own_a) == sorted(own_b):
        raise StoreError(
            f"{a} on both sides: nothing to compare; name what differs, as strategy=ps_cpu "
            "and strategy=ps_gpu"
        )
    told = [(label, one, own) for label, one, own in (("A", a, own_a), ("B", b, own_b))]
    origins = [origin] if origin is not None else [Origin.MEASURED, Origin.SIMULATED]
    found = {}
    for label, text, own in told:
        found[label] = [
            _side(text, own, Selection(db=db, sweep=sweep, filters=(*own, *common), origin=one))
            for one in origins
        ]
    both = [
        (of_a, of_b)
        for of_a, of_b in zip(found["A"], found["B"], strict=True)
        if _has(of_a) and _has(of_b)
    ]
    if both:
        return both[0]
    for (label, _, _), of in zip(told, found.values(), strict=True):
        if not any(map(_has, of)):
            raise StoreError(f"{label}: {_nothing(of[0].source)}")
    raise StoreError(
        f"{a} was {_origin(found['A'])}, and {b} was {_origin(found['B'])}: what is simulated is no measurement, "
        "and not compared with one; measure both, or simulate both"
    )


def _filters(db: str, text: str) -> list[str]:
    if looks_like_filter(text):
        return _NEXT_FILTER.split(text.strip())
    target = targets.find(open_for_reading(db), text)
    if target.column == "sweep_id":
        return [f"sweep={text}"]
    return [f"{target.column.removesuffix('_id')}={target.id}"]


def _side(text: str, own: Sequence[str], chosen: Selection) -> Side:
    names = frozenset(one.name for one in parsed(own))
    return Side(told=text, source=Source(selection=chosen), names=names)


def _has(side: Side) -> bool:
    try:
        return bool(side.results)
    except NothingFoundError:
        return False


def _nothing(source: Source) -> str:
    try:
        return f"{len(source.results)} results"
    except NothingFoundError as error:
        return str(error)


def _origin(of: Sequence[Side]) -> str:
    return next(str(one.source.selection.origin) for one in of if _has(one))
