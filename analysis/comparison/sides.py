"""The two sides of a comparison as a command line names them: filters, a trial, an attempt or a
sweep.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.guard.histories import version_axes
from analysis.origin import Chosen
from analysis.results import AXES, Origin, Result
from analysis.selection import NothingFoundError, Selection, load_every_night
from analysis.source import Source
from analysis.statistics.sample import Sample, sample
from scalemark.host.own_code import typed
from scalemark.records.free_axes import PREFIX, is_free
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.when import WHEN
from store.database import open_for_reading
from store.errors import StoreError
from store.filters import reference_selection, targets
from store.filters.bare_names import full_names
from store.filters.selection import looks_like_filter, parsed
from store.reading import elsewhere
from store.reading.origins import newest_first

_OURS = (Origin.MEASURED, Origin.SIMULATED)
_WHEN = f"{PREFIX}{WHEN}"
_STRATEGY = frozenset({"strategy", *STRATEGY_AXES})
_NEXT_FILTER = re.compile(r"\s+(?=[\w.]+\s*(?:>=|<=|!=|==|=|>|<|~))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The results on one side."""

    text: str  # as the user wrote it
    source: Source
    names: frozenset[str]  # what its own filters ask for
    versions: frozenset[str] = frozenset()  # axes that only say what a night's software was
    note: str = ""  # how to compare numbers of another origin that both sides have

    @property
    def axes(self) -> frozenset[str]:
        """Axes that the side names, and so wants compared; a strategy is its three axes."""
        named = frozenset(name for name in self.names if name in AXES or is_free(name))
        named |= self.versions
        return named | _STRATEGY if named & _STRATEGY else named

    @property
    def is_by_name(self) -> bool:
        """Say whether it is one trial or attempt: whatever its axes are, they are meant."""
        return not self.names.isdisjoint(("trial", "attempt"))

    @property
    def names_an_environment(self) -> bool:
        """Say whether it names a sweep, a machine, a time or a software, which may differ then."""
        ours = {name for name in self.names if not is_free(name)}
        return _WHEN in self.names or not ours <= {*AXES, *STRATEGY_AXES}

    @property
    def results(self) -> list[Result]:
        return self.source.results

    def samples(self, results: Sequence[Result]) -> list[Sample | None]:
        """Return each result's processes with their steps; None without a number to quote."""
        if not self.source.selection.origin.is_ours:
            return [Sample.of(result.repeats, result.unit) for result in results]
        able = [result for result in results if result.throughput is not None]
        steps = self.source.steps([number for result in able for number in result.attempt_ids])
        found: list[Sample | None] = []
        for one in results:
            is_able = one.throughput is not None
            found.append(sample(one, self.source.attempts, steps) if is_able else None)
        return found


def sides(
    db: str, a: str, b: str, common: Sequence[str], sweep: str | None, origin: Origin | None
) -> tuple[Side, Side]:
    """Raise StoreError for an empty side, and for measured numbers against simulated ones."""
    if origin is Origin.PUBLISHED:
        raise StoreError(
            "--origin published: published figures have no repeats to compare by; see "
            f"{typed('plots')} tables --against"
        )
    if origin is None and sweep is None and elsewhere.is_all(open_for_reading(db)):
        origin = Origin.ELSEWHERE
    if origin is Origin.ELSEWHERE:
        return _elsewhere(db, a, b, common, sweep)
    own_a, own_b = (_filters(db, one) for one in (a, b))
    if sorted(own_a) == sorted(own_b):
        raise StoreError(
            f"{a} on both sides: nothing to compare; name what differs, as strategy=ps_cpu "
            "and strategy=ps_gpu"
        )
    errors: list[tuple[str, NothingFoundError]] = []
    found = _of_both(db, own_a, own_b, common, sweep) if origin is None else {}
    tried = [origin] if origin else list(dict.fromkeys([*found, *_OURS]))
    for chosen in tried:
        sides = []
        for label, text, own in (("A", a, own_a), ("B", b, own_b)):
            selection = Selection(db=db, sweep=sweep, filters=(*own, *common), origin=chosen)
            names = frozenset(one.name for one in parsed(own))
            side = Side(text=text, source=Source(selection=selection), names=names)
            try:
                if side.results:
                    sides.append(side)
            except NothingFoundError as error:
                errors.append((label, error))
        if len(sides) == 2:
            others = tuple(one for one in found if one is not chosen)
            newest = found.get(chosen, "")
            note = Chosen(selection=selection, sweep=newest, others=others).note
            return replace(sides[0], note=note), sides[1]
    for label in "AB":
        of_side = [error for failed, error in errors if failed == label]
        if len(of_side) == len(tried):
            raise StoreError(f"{label}: {of_side[-1]}")
    label, why = errors[0]  # of the side without measured numbers; the other has these alone
    raise StoreError(
        f"{label}: {why}; both sides must be measured, or both simulated: numbers of a cost model "
        "are never compared with measurements"
    )


def _of_both(
    db: str, a: Sequence[str], b: Sequence[str], common: Sequence[str], sweep: str | None
) -> dict[Origin, str]:
    """Return the origins that both sides have, that of the newest sweep first, with A's newest."""
    engine = open_for_reading(db)
    of_a, of_b = (
        newest_first(engine, full_names(engine, [*own, *common]), sweep=sweep) for own in (a, b)
    )
    return {Origin(one): name for one, name in of_a.items() if one in of_b}


def _elsewhere(
    db: str, a: str, b: str, common: Sequence[str], sweep: str | None
) -> tuple[Side, Side]:
    """Return two sides of tables that were taken in; filters alone name them."""
    sides = []
    for label, text in (("A", a), ("B", b)):
        own = _NEXT_FILTER.split(text.strip())
        selection = Selection(db=db, sweep=sweep, filters=(*own, *common), origin=Origin.ELSEWHERE)
        full = [reference_selection.full_name(one) for one in own]
        names = frozenset(one.name for one in reference_selection.parsed(full))
        side = Side(text=text, source=Source(selection=selection), names=names)
        try:
            if side.results:
                sides.append(side)
        except NothingFoundError as error:
            raise StoreError(f"{label}: {error}") from None
    if a == b:
        raise StoreError(f"{a} on both sides: nothing to compare; name what differs")
    if all(_WHEN in side.names for side in sides):
        every = load_every_night(Selection(db=db, origin=Origin.ELSEWHERE))
        sides = [replace(side, versions=version_axes(every)) for side in sides]
    return sides[0], sides[1]


def _filters(db: str, text: str) -> list[str]:
    if looks_like_filter(text):
        return full_names(open_for_reading(db), _NEXT_FILTER.split(text.strip()))
    target = targets.find(open_for_reading(db), text)
    if target.column == "sweep_id":
        return [f"sweep={text}"]
    return [f"{target.column.removesuffix('_id')}={target.id}"]
